# SPDX-License-Identifier: Apache-2.0
"""The rules that are about works, applications and output roots: passes of a run, and what goes wrong in them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from shardbatch.core.policies import Intervals
from shardbatch.core.policies import Outputs as Said
from tests.breaker.applications import Application
from tests.breaker.plans import TAKEN, Plans
from tests.breaker.process import GO, Fate, Process
from tests.breaker.run import Run

if TYPE_CHECKING:
    from tests.breaker.laws import Laws
    from tests.breaker.world import World

#: The themes that these rules belong to.
OUTPUTS = ("outputs", "beside", "clean", "all")
MOST_CALLS = 15
MOST_CLEARS = 2
MOST_PASSES = 5
#: How a try of a work or a commit comes to its end, most of them well.
TRIES_END = (*("well",) * 8, "killed", "lingers", "marked", "begun again", "begun beside", "lingers")


class Outputs(RuleBasedStateMachine):
    """Half of the breaker."""

    world: World
    laws: Laws
    spent: Counter[str]
    theme = ""

    def go_on(self, data: Any) -> None:
        """Somebody goes on."""

    def _step(self, process: Process, fate: Fate) -> None:
        raise NotImplementedError

    def author(self, plans: Plans) -> None:
        """What the author of the DAG said, and another application that writes to one of the roots."""
        joins = plans.choose(("apart", "apart", "join"))
        self.world.outputs = Said(shared=plans.choose((False, True)), intervals=Intervals(joins))
        self.world.sink = plans.choose(("starts", "starts", "starts", "starts", "own"))
        self.world.sharing = plans.choose((False, True))
        self.world.landing.outputs.taken = {TAKEN: plans.choose((True, False))}

    @rule(data=st.data(), state=st.sampled_from(["success", "success", "skipped"]))
    @precondition(lambda self: self.theme in OUTPUTS and self.spent["marked"] < 3 and self._markable())
    def mark(self, data: Any, state: str) -> None:
        """A person marks a work that has not ended, maybe while it runs."""
        self.spent["marked"] += 1
        run = data.draw(st.sampled_from(self._markable()))
        self.world.mark_work(run, data.draw(st.sampled_from(run.to_do)), state)
        self.go_on(data)

    def _markable(self) -> list[Run]:
        runs = [run for run in self.world.runs if run.state in ("running", "failed")]
        return [run for run in runs if run.task == "work" and run.to_do]

    @rule(data=st.data(), task=st.sampled_from(("work", "work", "work", "freeze", "commit")))
    @precondition(lambda self: self.theme in OUTPUTS and self._passing())
    def pass_over(self, data: Any, task: str) -> None:
        """A run goes on, if need be cleared, to its end; of its works and commits some try dies or looks dead."""
        run = data.draw(st.sampled_from(self._passing()))
        if run.state != "running":
            self.world.clear(run, task)
        if data.draw(st.booleans()):
            self.world.landing.outputs.away.clear()
        for _ in range(15):
            for chosen in self.world.live(run) + [self.world.start_task(run, which) for which in self.world.due(run)]:
                self._try(data, run, chosen)

    def _clearable(self) -> list[Run]:
        most = MOST_PASSES if self.theme == "outputs" else MOST_CLEARS
        return [run for run in self.world.runs if run.state != "deleted" and run.clears < most]

    def _passing(self) -> list[Run]:
        return [run for run in self.world.runs if run.state == "running" or run in self._clearable()]

    def _try(self, data: Any, run: Run, process: Process) -> None:
        word = data.draw(st.sampled_from(TRIES_END)) if process.task in ("work", "commit") else "well"
        for _ in range(data.draw(st.integers(1, 2 * MOST_CALLS)) if word != "well" else 0):
            if not process.finished:
                self._step(process, GO)
        application = process.application
        if word == "killed" and not process.finished:
            process.kill()
        elif word == "lingers" and not process.finished:
            process.abandoned = True
        elif word == "marked" and not process.finished and process.task == "work":
            self.world.mark_work(run, str(process.work), "success")
        elif word.startswith("begun") and application in self.world.cluster.restartable():
            self.world.cluster.restart(application, lives=word == "begun beside")
            self._beside(data, process, application)
        while not process.finished and not process.abandoned:
            self._step(process, GO)

    def _beside(self, data: Any, process: Process, application: Application) -> None:
        """The driver before goes on for some steps, where it lives, between those of the task."""
        for _ in range(data.draw(st.integers(0, MOST_CALLS))):
            if not process.finished:
                self._step(process, GO)
            application.step(self.world.landing, application.drivers[-2])
            self.laws.look()

    @rule(data=st.data(), lives=st.booleans())
    @precondition(lambda self: self.theme in OUTPUTS and self.world.cluster.restartable())
    def restart(self, data: Any, lives: bool) -> None:
        """A cluster begins another driver of an application."""
        self.world.cluster.restart(data.draw(st.sampled_from(self.world.cluster.restartable())), lives=lives)
        self.go_on(data)

    @rule(data=st.data(), root=st.sampled_from(["out", "rejects"]))
    @precondition(lambda self: self.theme in OUTPUTS and self.spent["away"] < 2)
    def lose_root(self, data: Any, root: str) -> None:
        """A root is out of reach, or in reach again."""
        self.spent["away"] += 1
        self.world.landing.outputs.away ^= {root}
        self.go_on(data)
