# SPDX-License-Identifier: Apache-2.0
"""The process of a script that works over Spark Connect: what it is told, its output, its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from shardbatch.core import handover
from shardbatch.core.handover import WorkOrder
from shardbatch.submit import processes


def environment(order: WorkOrder, remote: str, given: Mapping[str, object]) -> dict[str, str]:
    """The variables of a script: this worker's, the author's, the batch, and the server with the session.

    By the batch's id a later try finds the script among the processes of this host.
    """
    told = handover.to_environment({**handover.encode(order), "batch": order.batch_id})
    own = {"SPARK_REMOTE": remote, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **{name: str(value) for name, value in given.items()}, **told, **own}


class Script:
    """A running script."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            list(words),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def follow(self, passing: Callable[[Iterable[str]], Iterable[str]], say: Callable[[str], None]) -> int:
        """Say each line of its output until it ends.

        :param passing: what the lines pass on the way.
        :returns: its exit code; below zero if a signal ended it.
        """
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in passing(output):
                say(line.rstrip())
        return self._process.wait()

    def kill(self) -> None:
        """Make it end, with the processes below it."""
        if not self.running:
            return
        below = processes.family(self._process.pid)[1:]
        self._process.kill()
        processes.end_all(below)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=processes.PATIENCE_S)
