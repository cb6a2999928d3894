# SPDX-License-Identifier: Apache-2.0
"""The JVM that a spark-submit starts: its Java, class path and options, as spark-submit itself makes them.

Scripts (``spark-env.sh``), variables and settings of Spark have a say in all of it, so it is not made up here:
spark-submit is run with Java's ``-version``, which ends the JVM before Spark begins.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

#: Options of a JVM that lives for seconds: a fast compiler, and the garbage collector that starts fastest.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Options of the author that take the place of one of ours. With two collectors Java does not start.
_OWN = {
    QUICK[0]: re.compile(r"-XX:(TieredStopAtLevel=|[+-]TieredCompilation|CompilationMode=)|-Xint|-Xcomp"),
    QUICK[1]: re.compile(r"-XX:\+Use\w+GC\b"),
}
_MAIN = "org.apache.spark.deploy.SparkSubmit"
_SHOWN = "Spark Command: "
#: Seconds that spark-submit may take to show its command; it takes one on a quiet machine.
PATIENCE_S = 120.0


class JvmUnknown(Exception):
    """It was not seen which JVM a spark-submit starts; the text says why."""


@dataclass(frozen=True)
class Entry:
    """A file of the class path, as it is now; a folder has size and time 0."""

    path: str
    size: int
    time_ns: int


@dataclass(frozen=True)
class Jvm:
    """A JVM: the program, its version, its class path, and the options of the author and of the environment.

    ``settings`` is the part of the class path that is Spark's folder of settings, empty if it is not known.
    """

    java: str
    version: str
    class_path: str
    options: tuple[str, ...] = ()
    settings: str = ""

    @property
    def parts(self) -> list[str]:
        """The parts of the class path, as they are written."""
        return [part for part in self.class_path.split(":") if part]

    @property
    def full_folders(self) -> list[Path]:
        """The folders of the class path that hold files: Java 17 archives nothing then."""
        folders = [Path(part) for part in self.parts if not part.endswith("/*")]
        return [folder for folder in folders if folder.is_dir() and any(folder.iterdir())]

    def entries(self) -> list[Entry]:
        """Every file of the class path, with its size and time."""
        found = []
        for part in self.parts:
            if part.endswith("/*"):
                jars = sorted(path for path in Path(part[:-2]).iterdir() if path.suffix.lower() == ".jar")
            else:
                jars = [Path(part)]
            found += [_entry(jar) for jar in jars]
        return found

    def identity(self) -> dict[str, Any]:
        """What an archive of its classes depends on."""
        entries = [[entry.path, entry.size, entry.time_ns] for entry in self.entries()]
        return {"java": f"{self.java}: {self.version}", "class_path": entries, "flags": list(QUICK)}

    def flags(self) -> list[str]:
        """Ours, without those for which the author chose something else."""
        return [flag for flag in QUICK if not any(_OWN[flag].match(option) for option in self.options)]


def key_of(identity: Mapping[str, Any]) -> str:
    """A name for what an archive depends on."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def joined(options: Iterable[str], own: str) -> str:
    """``SPARK_SUBMIT_OPTS`` of options, before those that it has already; Spark takes quotes as a shell does."""
    words = [f'"{option}"' if any(map(str.isspace, option)) else option for option in options]
    return " ".join(filter(None, [*words, own]))


def look(command: Sequence[str], env: Mapping[str, str]) -> Jvm:
    """The JVM that a spark-submit with these arguments, without its application, starts in this environment.

    :raises JvmUnknown: if it cannot be seen.
    """
    own = env.get("SPARK_SUBMIT_OPTS", "")
    # Java heeds no option behind -version, such as an agent. And spark-submit's own --version stands where the
    # application would: nothing runs, whatever becomes of Java's.
    asked = {**env, "SPARK_PRINT_LAUNCH_COMMAND": "1", "SPARK_SUBMIT_OPTS": f"-version {own}".strip()}
    try:
        done = subprocess.run(
            [*command, "--version"],
            env=asked,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JvmUnknown(f"spark-submit did not show which JVM it starts ({type(error).__name__})") from None
    said = (done.stderr + done.stdout).splitlines()
    shown = [line[len(_SHOWN) :] for line in said if line.startswith(_SHOWN)]
    version = [line for line in said if re.search(r'^\S+ version "', line) or "Runtime Environment" in line]
    if done.returncode or not shown or not version:
        raise JvmUnknown(f"spark-submit did not show which JVM it starts (it ended with code {done.returncode})")
    return parse(shown[0], " ".join(version), env.get("SPARK_CONF_DIR", ""))


def parse(shown: str, version: str, settings: str = "") -> Jvm:
    """The JVM of a command as Spark shows it: words with spaces between them.

    :param settings: the folder of Spark's settings, empty: ``conf`` beside Spark's ``jars``.
    :raises JvmUnknown: if it is another command.
    """
    found = re.match(rf"(?P<java>.+?) (?:-.* )?-cp (?P<path>.+?) (?P<options>-.*?) ?{re.escape(_MAIN)}(?: |$)", shown)
    if found is None:
        raise JvmUnknown("spark-submit showed a command that is not known here")
    options = tuple(word for word in found["options"].split() if word != "-version")
    jvm = Jvm(found["java"], version, found["path"], options)
    homes = [part[: -len("/jars/*")] for part in jvm.parts if part.endswith("/jars/*")]
    held = settings or (f"{homes[-1]}/conf" if homes else "")
    return replace(jvm, settings=next((part for part in jvm.parts if held and Path(part) == Path(held)), ""))


def _entry(path: Path) -> Entry:
    try:
        state = path.stat()
    except OSError:
        return Entry(str(path), -1, 0)  # Java passes over what is not there, and so may an archive
    return Entry(str(path), 0, 0) if path.is_dir() else Entry(str(path), state.st_size, state.st_mtime_ns)
