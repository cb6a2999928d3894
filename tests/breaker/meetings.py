# SPDX-License-Identifier: Apache-2.0
"""The rules that let others come between two writes: drawn call by call, few of a thousand schedules come to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.breaker.cleaning import clean
from tests.breaker.outputs import Outputs
from tests.breaker.persons import apt, start
from tests.breaker.process import GO, Fate, Process
from tests.breaker.run import Run
from tests.breaker.world import TASKS

#: Before which calls somebody may be met: those that others see, and those that wait for them.
BEFORE = ("write", "many", "nap")
MOST_MEETINGS = 2
#: Calls of somebody who comes between, at most: no verb, claim or freeze of these small worlds needs as many.
MOST_OF_ANOTHER = 80
WRONG = Fate("wrong")
WHO = ("person", "person", "usurper", "other", "cleaner", "cleaner")


class Meetings(Outputs):
    """A third of the breaker."""

    def _somebody(self, data: Any) -> Process | None:
        raise NotImplementedError

    @rule(data=st.data(), passed=st.sampled_from([0, 1, 2, 2]), who=st.sampled_from(WHO))
    @precondition(lambda self: self._may_meet())
    def meet_freeze(self, data: Any, passed: int, who: str) -> None:
        """Between two stamps, before the row is made, or while an older attempt is waited for."""
        self._meet(data, "freeze", passed, who)

    @rule(
        data=st.data(),
        task=st.sampled_from(["claim", "read", "freeze", "commit"]),
        passed=st.integers(0, 3),
        who=st.sampled_from(WHO),
    )
    @precondition(lambda self: self._may_meet())
    def meet(self, data: Any, task: str, passed: int, who: str) -> None:
        """Between two writes of whatever task."""
        self._meet(data, task, passed, who)

    def _may_meet(self) -> bool:
        few = self.spent["met"] < MOST_MEETINGS and self.spent["sought"] < 2 * MOST_MEETINGS
        return few and any(run.state == "running" for run in self.world.runs)

    def _meet(self, data: Any, task: str, passed: int, who: str) -> None:
        """A run goes well up to a task that is about to write; another, who wants the same rows, comes first, to the
        end; then the task goes on."""
        self.spent["sought"] += 1
        running = [run for run in self.world.runs if run.state == "running"]
        early = [run for run in running if TASKS.index(run.task) <= TASKS.index(task)]
        one = self._at(data.draw(st.sampled_from(early)), task) if early else None
        while one is not None and not one.finished and (one.at not in BEFORE or passed):
            passed -= one.at in BEFORE
            self._step(one, GO)
        another = None if one is None or one.finished else self._another(data, one, who)
        if one is None or another is None:
            return
        self.spent["met"] += 1
        self.world.say(f"{one}: meets {another} before its {one.at}")
        for _ in range(MOST_OF_ANOTHER):
            if not another.finished:
                self._step(another, WRONG if who == "usurper" and another.at == "question" else GO)
        while not one.finished:
            self._step(one, GO)

    def _at(self, run: Run, task: str) -> Process | None:
        """The task of a run, once all that comes before it has gone well; none if the run does not come to it."""
        for _ in range(12):
            if run.task == task and run.state == "running":
                return next(iter(self.world.live(run)), None) or self.world.start_task(run, self.world.due(run)[0])
            for chosen in self.world.live(run) + [self.world.start_task(run, which) for which in self.world.due(run)]:
                while not chosen.finished:
                    self._step(chosen, GO)
        return None

    def _another(self, data: Any, one: Process, who: str) -> Process | None:
        """A person with a verb on the same rows, a claim whose Airflow takes active runs for over, or somebody else."""
        if who == "person":
            verbs = apt(self.world, one.owner)
            if not verbs:
                return None
            verb = data.draw(st.sampled_from(sorted(verbs)))
            return start(self.world, verb, data.draw(st.sampled_from(verbs[verb])), force=True)
        if who == "cleaner":
            return clean(self.world, timedelta(0))
        if who == "usurper":
            claims = [run for run in self.world.runs if run.task == "claim" and self.world.due(run)]
            return self.world.start_task(claims[0] if claims else self.world.new_run())
        other = self._somebody(data)
        return None if other is one else other
