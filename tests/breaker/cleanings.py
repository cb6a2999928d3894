# SPDX-License-Identifier: Apache-2.0
"""The rules in which a clean-up meets others: drawn call by call, few of a thousand schedules come to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.breaker.cleaning import KEPT_FOR, clean
from tests.breaker.meetings import Meetings
from tests.breaker.persons import start
from tests.breaker.process import ANSWERS, GO, Process
from tests.breaker.run import Run

MOST_CLEANINGS = 4
#: Calls of a clean-up before others come between, most often to its end.
CALLS = (300, 300, 300, 0, 4, 9, 20)
NO_TIME = timedelta(0)
#: How a clean-up looks: at folders and documents, and at rows.
LOOKS = ("landing", "strong")


class Cleanings(Meetings):
    """A quarter of the breaker."""

    def _may_clean(self) -> bool:
        return bool(self.world.rows) and self.spent["cleaned"] < MOST_CLEANINGS

    @rule(data=st.data(), kept_for=st.sampled_from(KEPT_FOR), calls=st.sampled_from(CALLS))
    @precondition(lambda self: self._may_clean())
    def clean(self, data: Any, kept_for: timedelta, calls: int) -> None:
        """A clean-up begins, and comes some way before others go on; two may be on their way."""
        self._go(self._begin(kept_for), calls)
        self.go_on(data)

    @rule(
        data=st.data(),
        looks=st.integers(2, 10),
        task=st.sampled_from(["freeze", "freeze", "freeze", "work", "commit", "end"]),
    )
    @precondition(lambda self: self._may_clean() and self._running())
    def meet_clean_up(self, data: Any, looks: int, task: str) -> None:
        """Between two looks of a clean-up, at folders or at rows, a run goes on up to a task."""
        run = data.draw(st.sampled_from(self._running()))
        process = self._begin(NO_TIME)
        while not process.finished and (looks or process.at not in LOOKS):
            looks -= process.at in LOOKS
            self._step(process, GO)
        if not process.finished:
            self._at(run, task)
        self._go(process)

    @rule(data=st.data(), before=st.sampled_from(["write", "write", "page"]))
    @precondition(lambda self: self._may_clean() and self._reading())
    def meet_reader(self, data: Any, before: str) -> None:
        """A read only looks dead, most often when it is about to store its slice. Its lease is released, its folder
        goes, and its run, cleared, takes the lease again; then the read goes on."""
        run = data.draw(st.sampled_from(self._reading()))
        self.world.stream.put("a", "b")
        which = self.world.due(run)
        reader = self.world.start_task(run, which[0]) if which else self.world.live(run)[0]
        calls = ANSWERS if before == "page" else (before,)
        while not reader.finished and reader.at not in calls:
            self._step(reader, GO)
        reader.abandoned = True
        self._go(start(self.world, "release_owner", str(run.owner)))
        self._go(self._begin(NO_TIME))
        self.world.clear(run, "claim")
        self._at(run, "read")
        self._go(reader)

    @rule(data=st.data(), passed=st.integers(0, 1))
    @precondition(lambda self: self._may_clean() and self._replayable())
    def meet_replay(self, data: Any, passed: int) -> None:
        """A replay has seen that all files are there; before it opens its attempt, its batch is retired."""
        batch_id = data.draw(st.sampled_from(self._replayable()))
        for run in self._running():
            if str(run.owner) == self.laws.books.decided[batch_id].owner:
                self.world.stop(run, "failed")
        one = self._at(self.world.new_run(replay=batch_id), "freeze")
        while one is not None and not one.finished and (one.at != "write" or passed):
            passed -= one.at == "write"
            self._step(one, GO)
        self._go(self._begin(NO_TIME))
        if one is not None:
            self._go(one)

    def _begin(self, kept_for: timedelta) -> Process:
        self.spent["cleaned"] += 1
        return clean(self.world, kept_for)

    def _go(self, process: Process, calls: int = 300) -> None:
        for _ in range(calls):
            if process.finished:
                return
            self._step(process, GO)

    def _running(self) -> list[Run]:
        return [run for run in self.world.runs if run.state == "running"]

    def _reading(self) -> list[Run]:
        """Runs whose read may begin, or has."""
        found = [run for run in self._running() if run.task == "read" and run.interval is None and run.clears < 3]
        return [run for run in found if self.world.due(run) or self.world.live(run)]

    def _replayable(self) -> list[str]:
        if len(self.world.runs) >= 6:
            return []
        decided = self.laws.books.decided.items()
        return sorted(batch_id for batch_id, row in decided if not row.scope and row.retired_ms is None)
