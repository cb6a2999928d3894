# SPDX-License-Identifier: Apache-2.0
"""What the shards of a table's stream cost: thousands of closed ones, and generations to catch up with."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stream import stream_server
from benchmarks.tables import Table
from shardbatch.core.limits import ReadLimits
from shardbatch.core.owner import Owner
from shardbatch.core.policies import GapPolicy, Policies, Sink
from shardbatch.core.ports import Clock, Verdict
from shardbatch.core.rows import Namespace
from shardbatch.landing.area import StagingArea
from shardbatch.run import Claim, Consumer, claim, commit, freeze, land
from shardbatch.stores.sql import SQLStore

OPEN = 40
DAY = 86_400
#: Claims that have to be enough to remove the rows of all closed shards.
MOST_CLAIMS = 60


@dataclass(frozen=True)
class Step:
    """Seconds of this process's CPU and of the clock, calls to the stream, and what there was of it (records, rows)."""

    cpu_s: float
    wall_s: float
    calls: dict[str, int]
    count: int


class Runner:
    """Makes runs of an application on a table's stream, with leases in SQLite. Its clock is the server's."""

    def __init__(self, table: Table, folder: Path) -> None:
        self.table = table
        self._ahead_s = 0.0
        clock = Clock(now_ms=self._now_ms, monotonic=lambda: time.monotonic() + self._ahead_s, sleep=time.sleep)
        self.consumer = Consumer(
            namespace=Namespace("bench", table.name),
            source=table.source(clock),
            store=SQLStore(f"sqlite:///{folder / 'leases.db'}"),
            landing=StagingArea(str(folder)),
            liveness=lambda _: Verdict.OVER,
            deployment="bench",
            clock=clock,
            limits=ReadLimits(records=None, bytes=None),
            policies=Policies(sink=Sink.OWN, gap=GapPolicy.RECORD),
            say=lambda _: None,
            warn=lambda _: None,
        )

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + int(self._ahead_s * 1000)

    def wait(self, seconds: float) -> None:
        """Let time pass, here and there."""
        self.table.advance(seconds)
        self._ahead_s += seconds

    def claim(self, run_id: str) -> Claim:
        """The claim of a run, which is over when the next one claims."""
        return claim(self.consumer, self._owner(run_id))

    def run(self, run_id: str) -> int:
        """One run; the records that it committed."""
        owner, found = self._owner(run_id), self.claim(run_id)
        for group in found.groups:
            land(self.consumer, owner, group.group, self._now_ms())
        frozen = freeze(self.consumer, owner)
        return commit(self.consumer, owner, frozen.batch_id, frozen.attempt).records

    def rows(self) -> int:
        """Lease rows that there are."""
        return len(self.consumer.leases())

    @staticmethod
    def _owner(run_id: str) -> Owner:
        return Owner("bench", "dynamodb", run_id, "batch", "incremental")


def measured(table: Table, name: str, work: Callable[[], int]) -> Step:
    """What some work cost; the calls are those that the server has seen."""
    table.forget_calls()
    cpu, clock = time.process_time(), time.perf_counter()
    count = work()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    step = Step(round(cpu, 2), round(clock, 1), dict(table.calls()), count)
    print(f"{name}: {step.cpu_s} s of CPU, {step.wall_s} s", file=sys.stderr, flush=True)
    return step


@contextmanager
def runner() -> Iterator[Runner]:
    """Runs on a table whose stream has 40 open shards."""
    with stream_server() as endpoint_url, tempfile.TemporaryDirectory(prefix="shardbatch-shards-") as folder:
        table = Table(endpoint_url, "orders")
        table.create(OPEN)
        made = Runner(table, Path(folder))
        try:
            yield made
        finally:
            made.consumer.close()


def many_shards(generations: int) -> dict[str, Step]:
    """Generations of 40 closed shards without records, and 40 open ones: they are listed, claimed, read once, and when
    they have left the stream, their rows are removed by claims, and nothing is read again.

    :raises RuntimeError: if a run does not find what it should.
    """
    with runner() as runs:
        table = runs.table
        for _ in range(generations):
            table.roll()
        table.change(1_000, 1_000)
        steps = {
            "list": measured(table, "list", lambda: len(runs.consumer.source.list_shards())),
            "claim": measured(table, "claim", lambda: runs.claim("planned").shards),
            "read": measured(table, "read", lambda: runs.run("whole")),
        }
        runs.wait(3 * DAY)

        def remove() -> int:
            before = runs.rows()
            for number in range(MOST_CLAIMS):
                runs.claim(f"claim-{number}")
                if runs.rows() <= 2 * OPEN:
                    break
            return before - runs.rows()

        steps["remove"] = measured(table, "remove", remove)
        again = runs.run("idle")
    wanted = {"list": (generations + 1) * OPEN, "claim": OPEN, "read": 1_000, "remove": (generations - 1) * OPEN}
    for name, count in wanted.items():
        if steps[name].count < count or again:
            raise RuntimeError(f"{name}: {steps[name].count} of {count}; {again} records were read again.")
    return steps


def caught_up(generations: int, changes: int) -> Step:
    """One run over so many generations of 40 shards that came after the last run, and over the open ones behind them.

    :param changes: of each generation.
    :raises RuntimeError: if the run does not find all of them.
    """
    with runner() as runs:
        table = runs.table
        table.change(changes, changes, seed=0)
        runs.run("before")
        for generation in range(1, generations + 1):
            table.roll()
            table.change(changes, changes, seed=generation)
        step = measured(table, "catch up", lambda: runs.run("after"))
    if step.count != generations * changes:
        raise RuntimeError(f"The run committed {step.count} records of {generations * changes}.")
    return step
