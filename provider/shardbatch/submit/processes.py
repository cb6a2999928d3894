# SPDX-License-Identifier: Apache-2.0
"""The applications of this host: a spark-submit is told apart by its command line, a script that works over Spark
Connect by its environment. They are ended with their children."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import psutil

from shardbatch.core import handover

log = logging.getLogger("shardbatch")

#: Seconds between two looks at whether it has ended.
LOOK_S = 0.02
#: Seconds that a process is given to end by itself after it was asked to.
PATIENCE_S = 10.0


def reference(pid: int) -> str:
    """The text that stands in a batch row for the application of a spark-submit process of this host."""
    return f"client:{socket.gethostname()}:{pid}"


def task_reference() -> str:
    """The text that stands in a batch row for this process, a task that has not submitted yet."""
    return f"task:{socket.gethostname()}:{os.getpid()}"


def parse(text: str, kind: str = "client") -> tuple[str, int] | None:
    """Host and process id of a :func:`reference`, or ``None`` for another text."""
    found, _, rest = text.partition(":")
    host, _, pid = rest.rpartition(":")
    return (host, int(pid)) if found == kind and host and pid.isdigit() else None


def task_gone(text: str) -> bool:
    """Whether a :func:`task_reference` names a process of this host that is there no more."""
    found = parse(text, "task")
    return found is not None and found[0] == socket.gethostname() and not psutil.pid_exists(found[1])


def submits(process: psutil.Process, batch_id: str) -> bool:
    """Whether a process really is the spark-submit of a batch: process ids are used again, so its arguments decide."""
    return _told(process, batch_id) is not None


def _told(process: psutil.Process, batch_id: str) -> dict[str, str] | None:
    """What the spark-submit of a batch was told of it on its command line; ``None`` for any other process."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    named = any("spark-submit" in word or word.endswith("SparkSubmit") for word in words)
    told = handover.of_submit(words)
    return told if named and told.get("batch") == batch_id else None


class LeftOver(NamedTuple):
    """What an earlier try or attempt left on this host: what it is, its task, and whether it was seen to end."""

    what: str
    work: str
    gone: bool


def _of_script(process: psutil.Process, batch_id: str) -> dict[str, str] | None:
    """What the environment of a script over Spark Connect tells of a batch, which its children have too; ``None`` for
    any other process."""
    try:
        found = process.environ()
    except (psutil.Error, OSError):
        return None
    told = handover.of_environment(found)
    over_connect = found.get("SPARK_REMOTE", "").startswith("sc://") and process.pid != os.getpid()
    return told if over_connect and told.get("batch") == batch_id else None


def of_session(remote: str, but: int = 0) -> list[psutil.Process]:
    """The processes of this host whose ``SPARK_REMOTE`` is this one, also if they left the family of who started them.

    :param remote: a URL with the session of one try. For an empty one nothing is found.
    :param but: the id of a process that is left out, besides this one.
    """
    found = []
    for process in psutil.process_iter() if remote else ():
        with suppress(psutil.Error, OSError):
            if process.pid not in (but, os.getpid()) and process.environ().get("SPARK_REMOTE") == remote:
                found.append(process)
    return found


def end_left_over(batch_id: str, attempt: int, left: Callable[[str], bool]) -> list[LeftOver]:
    """End every spark-submit and script of a batch on this host that an attempt, or one before it, has left behind.

    They are found by their arguments or environment, also if they were never written down.

    :param left: whether what this task started has been left behind.
    """
    found = []
    for process in psutil.process_iter():
        for what, look in (("spark-submit", _told), ("script", _of_script)):
            told = look(process, batch_id)
            if told is None or _number(told.get("attempt", "")) > attempt or not left(told.get("work", "")):
                continue
            found.append(LeftOver(what, told.get("work", ""), end_tree(process)))
            break
    return found


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def end(text: str, batch_id: str) -> str:
    """End the spark-submit that a reference names, if it still runs on this host for this batch.

    :returns: what became of it: ``ended``, ``over`` (it had ended before), ``alive`` (it did not end, or may not be
        ended from here), or ``elsewhere`` (another host's).
    """
    found = parse(text)
    if found is None or found[0] != socket.gethostname():
        return "elsewhere"
    try:
        process = psutil.Process(found[1])
    except psutil.NoSuchProcess:
        return "over"
    if not submits(process, batch_id):
        return "over"
    return "ended" if end_tree(process) else "alive"


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it; empty if it is gone."""
    try:
        return _family(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return []


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def end_tree(process: psutil.Process) -> bool:
    """Ask a process to end, then make it and its children end; the JVM's Python may outlive the JVM otherwise.

    :returns: whether all of them are seen to have ended.
    """
    try:
        processes = _family(process)  # of the very process that was looked at: its id may be another's by now
    except psutil.NoSuchProcess:
        return True
    _signal(processes[:1], "terminate")
    _gone(processes[:1])
    return end_all(processes)


def end_all(processes: list[psutil.Process]) -> bool:
    """Make processes end that were listed while their parent was still there. None may be a child of this process.

    :returns: whether all of them are seen to have ended.
    """
    _signal(processes, "kill")
    return _gone(processes)


def _gone(processes: list[psutil.Process]) -> bool:
    """Wait until all of them have ended, whether their parent has collected them or not. In a container without an
    init process some are never collected, and a task that is killed has only seconds to end everything."""
    deadline = time.monotonic() + PATIENCE_S
    while any(_alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(processes: list[psutil.Process], how: str) -> None:
    for process in processes:
        try:
            if process.is_running():
                getattr(process, how)()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            log.warning("Process %s, which works on a batch, belongs to another user: it cannot be ended.", process.pid)
