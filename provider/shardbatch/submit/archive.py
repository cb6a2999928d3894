# SPDX-License-Identifier: Apache-2.0
"""Archives of Spark's classes (AppCDS), which halve the start of a JVM; where they are kept, and which one fits.

An archive fits one Java, one class path and one kind of memory. Java says nothing if it does not fit, and ends with a
fatal error if it was cut short. So each is looked at before it is used, at the end by Java itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shardbatch.errors import ConfigurationError
from shardbatch.submit.jvm import Jvm, key_of

#: Options with which Java uses no archive, or another one.
_WITHOUT = re.compile(
    r"-javaagent|-agent|-Xshare|-Xbootclasspath|-XX:SharedArchiveFile|-XX:-UseSharedSpaces|-XX:ArchiveClassesAtExit"
    r"|--(patch-module|limit-modules|upgrade-module-path)"
)
#: Options that decide how memory is laid out; Java is asked with these. Others may do more than that, such as record.
_MEMORY = re.compile(
    r"-Xm[sx]|-XX:(MaxHeapSize|MaxRAM|InitialRAM|ObjectAlignmentInBytes)|-XX:[+-]Use(\w+GC|Compressed\w+|CompactObject\w+)\b"
)
#: Folder of Spark's settings without any: Java archives nothing if a folder of the class path holds a file.
EMPTY = "empty"
SETTINGS = "spark-defaults.conf"
PATIENCE_S = 60.0


class NoArchive(Exception):
    """No archive fits; the text says why, and what helps."""


def folder_of(text: str) -> Path:
    """The folder of the archives: that of the setting, or else one in Airflow's home.

    :raises ConfigurationError: if the setting is not an absolute path.
    """
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    folder = Path(text) if text else home.absolute() / "shardbatch" / "spark"
    if not folder.is_absolute():
        raise ConfigurationError(
            f"Airflow's setting [shardbatch] spark_archives = {text!r} is not an absolute path.",
            remedy="Give a folder on a disk of the worker, for example /var/lib/shardbatch/spark.",
        )
    return folder


def without_settings(jvm: Jvm, folder: Path) -> tuple[Jvm, str | None]:
    """The JVM with one and the same empty folder in the place of that of Spark's settings.

    :returns: it, and the file of settings that it would miss, empty if there is none. ``None``: nothing is changed,
        since the folder holds what cannot be given in another way, as settings can (``--properties-file``).
    """
    if not jvm.settings:
        return jvm, None
    held = Path(jvm.settings)
    names = {path.name for path in held.iterdir()} if held.is_dir() else set()
    names = {name for name in names if not name.endswith(".template")}
    if names - {SETTINGS}:
        return jvm, None
    parts = [f"{folder / EMPTY}/" if part == jvm.settings else part for part in jvm.parts]
    moved = replace(jvm, class_path=":".join(parts), settings="")
    return moved, str(held / SETTINGS) if names else ""


def path_of(jvm: Jvm, folder: Path) -> Path:
    """Where the archive of a JVM's classes stands."""
    return folder / f"{key_of(jvm.identity())}.jsa"


def fitting(jvm: Jvm, folder: Path) -> Path:
    """The archive that fits a JVM.

    :raises NoArchive: if there is none, or it cannot be used.
    """
    require_possible(jvm)
    path = path_of(jvm, folder)
    note = _note(path)
    if note is None or not path.is_file():
        raise NoArchive(f"{_why(jvm.identity(), folder)}; make one on this worker: airflow shardbatch warm-spark")
    for held in (folder, path):
        if held.stat().st_mode & 0o022:
            raise NoArchive(f"others may write to {held}; take that right away (chmod go-w)")
    if path.stat().st_size != note.get("size"):
        raise NoArchive(f"the archive {path} was cut short; make it again: airflow shardbatch warm-spark")
    require_java_takes(jvm, path)
    return path


def require_possible(jvm: Jvm) -> None:
    """See that Java can use any archive with this class path and these options.

    :raises NoArchive: naming what stands against it.
    """
    for option in jvm.options:
        if _WITHOUT.match(option):
            raise NoArchive(f"the option {option.partition('=')[0]} of the application stands against it")
    for held in jvm.full_folders:
        names = sorted(path.name for path in held.iterdir())[:3]
        raise NoArchive(f"the folder {held} stands on the class path and holds files ({', '.join(names)})")


def require_java_takes(jvm: Jvm, path: Path) -> None:
    """Ask Java whether it takes an archive.

    :raises NoArchive: with what Java says.
    """
    memory = [option for option in jvm.options if _MEMORY.match(option)]
    asked = [jvm.java, "-cp", jvm.class_path, *jvm.flags(), f"-XX:SharedArchiveFile={path}", "-Xshare:on", *memory]
    try:
        done = subprocess.run(
            [*asked, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoArchive(f"Java did not say whether it takes {path} ({type(error).__name__})") from None
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode or not any("sharing" in line for line in said):
        told = [line for line in said if "Error occurred" not in line and "An error has occurred" not in line]
        raise NoArchive(f"Java does not take {path}: {told[0] if told else f'it ended with code {done.returncode}'}")


def write_note(path: Path, identity: Mapping[str, Any], size: int) -> None:
    """Note beside an archive what it was made of, and how large it is."""
    note = _beside(path)
    made = note.with_suffix(".tmp")
    made.write_text(json.dumps({**identity, "size": size}), "utf-8")
    made.replace(note)


def remove(path: Path) -> None:
    """Remove an archive with its note; a JVM that uses it keeps what it has."""
    path.unlink(missing_ok=True)
    _beside(path).unlink(missing_ok=True)


def noted(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The archives of a folder, each with its note."""
    for path in sorted(folder.glob("*.jsa")):
        note = _note(path)
        if note is not None:
            yield path, note


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _note(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(_beside(path).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"java", "class_path", "size"} <= set(found) else None


def _why(identity: Mapping[str, Any], folder: Path) -> str:
    """Why no archive is there for this, by those that are."""
    notes = [note for _, note in noted(folder)]
    if not notes:
        return f"no archive was made in {folder}"
    of_java = [note for note in notes if note.get("java") == identity["java"]]
    if not of_java:
        return f"the archive was made by another Java ({notes[0].get('java')}); this is {identity['java']}"
    if any(note["class_path"] == identity["class_path"] for note in of_java):
        return "the archive was made by another version of shardbatch"
    changed = _changed(of_java[0]["class_path"], identity["class_path"])
    return f"the class path changed since the archive was made{changed}"


def _changed(before: list[list[Any]], now: list[list[Any]]) -> str:
    differing = [entry[0] for entry in now if entry not in before] or [entry[0] for entry in before if entry not in now]
    return f" ({differing[0]})" if differing else ""
