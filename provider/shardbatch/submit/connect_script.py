# SPDX-License-Identifier: Apache-2.0
"""The process of a script that works over Spark Connect: what it is told, its output, its end."""

from __future__ import annotations

import codecs
import io
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from shardbatch.core import handover
from shardbatch.core.handover import WorkOrder
from shardbatch.submit import processes

#: Seconds between two looks at whether a script that writes nothing has ended.
LOOK_S = 0.5


def environment(order: WorkOrder, remote: str, given: Mapping[str, object]) -> dict[str, str]:
    """The variables of a script: this worker's, the author's, the batch, and the server with the session.

    By the batch's id a later try finds the script among the processes of this host.
    """
    told = handover.to_environment({**handover.encode(order), "batch": order.batch_id})
    own = {"SPARK_REMOTE": remote, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **{name: str(value) for name, value in given.items()}, **told, **own}


class Script:
    """A running script. What it started is told apart by its ``SPARK_REMOTE``, which holds the session of the try.

    :raises OSError: if it cannot be started.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._remote = env.get("SPARK_REMOTE", "")
        self._process = subprocess.Popen(
            list(words),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
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
        for line in passing(self._lines()):
            say(line.rstrip())
        return self._process.wait()

    def _lines(self) -> Iterator[str]:
        """The lines of its output. What it has left running may hold its output open, so that the end of the output
        never comes: ``PATIENCE_S`` after its own end that is made to end, too, and nothing more is read."""
        output, rest, until = self._process.stdout, "", float("inf")
        assert output is not None
        text = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        with output, selectors.DefaultSelector() as waiting:
            waiting.register(output, selectors.EVENT_READ)
            while time.monotonic() < until:
                if not self.running:
                    until = min(until, time.monotonic() + processes.PATIENCE_S)
                if not waiting.select(LOOK_S):
                    continue
                read = os.read(output.fileno(), 65536)
                *lines, rest = (rest + str(text.decode(read, final=not read))).split("\n")
                yield from lines
                if not read:
                    break
            else:
                processes.end_all(processes.of_session(self._remote))
            if rest:
                yield rest

    def kill(self) -> None:
        """Make it end, with the processes below it and those that it has left behind."""
        below = []
        if self.running:
            below = processes.family(self._process.pid)[1:]
            self._process.kill()
        processes.end_all([*below, *processes.of_session(self._remote, but=self._process.pid)])
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=processes.PATIENCE_S)
