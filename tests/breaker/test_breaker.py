# SPDX-License-Identifier: Apache-2.0
"""Random schedules over the real use-cases and planner: kills, zombies, clears, overlapping runs, lost answers."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shardbatch.stores.memory import MemoryStore
from tests.breaker.process import Process
from tests.breaker.world import TASKS, Run, World

EXAMPLES = int(os.environ.get("BREAKER_EXAMPLES", "60"))
STEPS = int(os.environ.get("BREAKER_STEPS", "120"))
#: Making a failing schedule small takes minutes; mutants and long hunts do without. Explaining one traces every line.
SHRUNK = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
PHASES = SHRUNK if os.environ.get("BREAKER_SHRINK", "1") == "1" else (Phase.explicit, Phase.generate)
MOST_RUNS = 5
#: Hypothesis shrinks for five minutes at most and only then says what failed: a time-out before that would hide it.
pytestmark = pytest.mark.timeout(900)


class Breaker(RuleBasedStateMachine):
    """A few runs of one DAG, whose every write may meet another's."""

    world: World

    @initialize(keys=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8))
    def begin(self, keys: list[str]) -> None:
        store = MemoryStore()
        store.prepare()
        self.world = World(store)
        self.world.put(*keys)
        self.world.new_run()

    def _running(self) -> list[Run]:
        return [run for run in self.world.runs if run.state == "running"]

    def _alive(self) -> list[Process]:
        return [process for process in self.world.processes if not process.finished]

    @rule(data=st.data(), steps=st.integers(1, 12), fate=st.sampled_from(["go"] * 8 + ["lost", "refused"]))
    def step(self, data: Any, steps: int, fate: str) -> None:
        """Let somebody go on: a task of a run, or an attempt that Airflow gave up."""
        idle = [run for run in self._running() if self.world.live(run) is None]
        chosen = data.draw(st.sampled_from(idle + self._alive())) if idle or self._alive() else None
        if isinstance(chosen, Run):
            chosen = self.world.start_task(chosen)
        if chosen is None:
            return
        for number in range(steps):
            if chosen.finished:
                break
            chosen.step(fate if number == steps - 1 else "go")
            self.world.check()
        self.world.settle(chosen)

    @rule(data=st.data())
    @precondition(lambda self: self._alive())
    def kill(self, data: Any) -> None:
        """A worker is lost; Airflow retries the task."""
        process = data.draw(st.sampled_from(self._alive()))
        process.kill()
        process.abandoned = True

    @rule(data=st.data())
    @precondition(lambda self: any(self.world.live(run) for run in self._running()))
    def give_up(self, data: Any) -> None:
        """An attempt only looks dead: Airflow starts another, and it lives on."""
        run = data.draw(st.sampled_from([run for run in self._running() if self.world.live(run)]))
        process = self.world.live(run)
        assert process is not None
        process.abandoned = True

    @rule(data=st.data())
    @precondition(lambda self: self._running())
    def fail(self, data: Any) -> None:
        """The run is marked failed; its process may live on."""
        run = data.draw(st.sampled_from(self._running()))
        process = self.world.live(run)
        if process is not None:
            process.abandoned = True
        run.state = "failed"

    @rule(data=st.data(), task=st.sampled_from(TASKS))
    def clear(self, data: Any, task: str) -> None:
        """Somebody clears a run, whatever its state."""
        run = data.draw(st.sampled_from(self.world.runs))
        if run.clears < 2:
            self.world.clear(run, task)

    @rule()
    @precondition(lambda self: len(self.world.runs) < MOST_RUNS)
    def schedule(self) -> None:
        """The next run begins, whether or not the last has ended."""
        self.world.new_run()

    @rule(keys=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4))
    @precondition(lambda self: len(self.world.sent) < 40)
    def put(self, keys: list[str]) -> None:
        self.world.put(*keys)

    @rule(data=st.data())
    @precondition(lambda self: len(self.world.stream.shards) < 7)
    def reshard(self, data: Any) -> None:
        """Split a shard, or merge two neighbours."""
        stream = self.world.stream
        still = sorted((s for s in stream.shards.values() if not s.closed), key=lambda s: s.hash_range.start)
        at = data.draw(st.integers(0, len(still) - 1))
        if at + 1 < len(still) and data.draw(st.booleans()):
            stream.merge(still[at].shard_id, still[at + 1].shard_id)
        else:
            stream.split(still[at].shard_id)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.world.drain()
            finally:
                for process in self.world.processes:
                    process.kill()


Breaker.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestBreaker = Breaker.TestCase
