# SPDX-License-Identifier: Apache-2.0
"""The spark-submit processes of this host: told apart by their command line, ended with their children."""

from __future__ import annotations

import socket

import psutil

#: Seconds that a process is given to end by itself after it was asked to.
PATIENCE_S = 10.0


def reference(pid: int) -> str:
    """The text that stands in a batch row for the application of a spark-submit process of this host."""
    return f"client:{socket.gethostname()}:{pid}"


def parse(text: str) -> tuple[str, int] | None:
    """Host and process id of a :func:`reference`, or ``None`` for another text."""
    kind, _, rest = text.partition(":")
    host, _, pid = rest.rpartition(":")
    return (host, int(pid)) if kind == "client" and host and pid.isdigit() else None


def submits(process: psutil.Process, batch_id: str) -> bool:
    """Whether a process really is the spark-submit of a batch: process ids are used again, so its arguments decide."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    named = any("spark-submit" in word or word.endswith("SparkSubmit") for word in words)
    return named and f"spark.shardbatch.batch={batch_id}" in words


def end(text: str, batch_id: str) -> str:
    """End the spark-submit that a reference names, if it still runs on this host for this batch.

    :returns: what became of it: ``ended``, ``over`` (it had ended before), or ``elsewhere`` (another host's).
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
    end_tree(process)
    return "ended"


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it; empty if it is gone."""
    try:
        return _family(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return []


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def end_tree(process: psutil.Process) -> None:
    """Ask a process to end, then make it and its children end; the JVM's Python may outlive the JVM otherwise."""
    try:
        processes = _family(process)  # of the very process that was looked at: its id may be another's by now
    except psutil.NoSuchProcess:
        return
    _signal(processes[:1], "terminate")
    psutil.wait_procs(processes[:1], timeout=PATIENCE_S)
    end_all(processes)


def end_all(processes: list[psutil.Process]) -> None:
    """Make processes end that were listed while their parent was still there. None may be a child of this process."""
    _signal(processes, "kill")
    psutil.wait_procs(processes, timeout=PATIENCE_S)


def _signal(processes: list[psutil.Process], how: str) -> None:
    for process in processes:
        try:
            if process.is_running():
                getattr(process, how)()
        except psutil.NoSuchProcess:
            continue
