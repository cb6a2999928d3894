# SPDX-License-Identifier: Apache-2.0
"""Processes that a test moves one step at a time: every call to the world is a place where others may come between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from greenlet import getcurrent, greenlet

from shardbatch.core.owner import Owner
from shardbatch.core.ports import Clock
from shardbatch.sources.aws.calls import _now
from tests.support.rig import FakeTime

#: A process that waits in short naps lets others come between at every so many of them.
NAPS = 5
#: How a process is said to ask for records, of a stream or of a table's.
ANSWERS = ("page", "records")


class Killed(BaseException):
    """The process is gone."""


@dataclass(frozen=True)
class Fate:
    """What becomes of the call that a process is about to make; ``faults.py`` says what the words mean.

    ``back`` and ``which`` choose how old a stale answer is, and of which row.
    """

    word: str = "go"
    back: int = 0
    which: int = 0

    def __str__(self) -> str:
        return self.word + (f"({self.back}, {self.which})" if self.back else "")


GO = Fate()


class Process:
    """One attempt of one task in a greenlet, that runs only while the test steps it.

    ``at`` is the kind of call that it is about to make, ``owner`` whose it is, ``scope`` the rows that it may write.
    ``abandoned`` says that nobody waits for its answer any more: it is a zombie if it lives on. ``group`` is a read's,
    ``renewal`` its other thread; ``ended`` is the batch row whose applications a freeze has ended. ``work`` is the task
    instance of the block that it is, ``token`` what it hands down, ``application`` what it waited for. A commit is
    ``bound`` to a batch and an attempt, and has read the ``states`` of the block; ``wanted`` is what it had to decide
    when it looked, by the batch row's counter, ``last_wanted`` when it looked last; ``looked`` are the roots it saw.
    ``misled`` says that a list of batch rows showed it older ones. A clean-up has no ``scope``: it writes in all.
    """

    def __init__(self, name: str, run: str, task: str, body: Callable[[Process], Any], owner: Owner) -> None:
        self.name, self.run, self.task, self.owner = name, run, task, str(owner)
        self.scope: str | None = owner.scope
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = False
        self.abandoned = False
        self.group: str | None = None
        self.renewal: Any = None
        self.ended: Any = None
        self.number = 0
        self.work: str | None = None
        self.token = ""
        self.application: Any = None
        self.bound: tuple[str, int] | None = None
        self.states: dict[str, Any] = {}
        self.wanted: dict[int, Any] = {}
        self.last_wanted: Any = None
        self.looked: set[str] = set()
        self.misled = False
        self.at = "begin"
        self._dying = False
        self._naps = 0
        self._greenlet = greenlet(self._main)
        self._greenlet.switch(body)

    def __repr__(self) -> str:
        return self.name

    def _main(self, body: Callable[[Process], Any]) -> None:
        try:
            self.pause("begin")
            self.result = body(self)
        except BaseException as error:  # noqa: BLE001 - it ends as a process would, whatever it is
            self.error = error
        self.finished = True

    def pause(self, at: str) -> Fate:
        """Called by the process before a call: let the others go on, until it is stepped again; the call's fate."""
        if getcurrent() is not self._greenlet:
            return GO  # a heartbeat, which the test moves as one
        if self._dying:
            raise Killed  # it tidies up, and nobody sees that any more
        self.at = at
        memory = dict(vars(_now))  # others run in this thread meanwhile, for which none of its calls is under way
        vars(_now).clear()
        try:
            fate: Fate = self._greenlet.parent.switch()
        finally:
            vars(_now).clear()
            vars(_now).update(memory)
        return fate

    def step(self, fate: Fate = GO) -> None:
        """Let it make its call and go on to the next, or to its end."""
        assert not self.finished
        self._greenlet.switch(fate)

    def kill(self) -> None:
        """SIGKILL: not one more write."""
        self.abandoned = True
        if not self.finished:
            self._dying = True
            self._greenlet.throw(Killed)

    def clock(self, time: FakeTime, skew_ms: int, *, naps: bool = True) -> Clock:
        """The clock of its machine: its own idea of the hour, and naps in which others go on, or do not."""

        def sleep(seconds: float) -> None:
            time.sleep(seconds)
            self._naps += naps
            if naps and self._naps % NAPS == 0:
                self.pause("nap")

        return Clock(now_ms=lambda: time.now_ms() + skew_ms, monotonic=lambda: (time.ms - skew_ms) / 1000, sleep=sleep)
