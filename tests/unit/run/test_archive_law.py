# SPDX-License-Identifier: Apache-2.0
"""Random histories of an application, then an interval: it has each record that arrived within it once, or says what is
lacking (PROTOCOL H9 to H13)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import LATEST, TRIM_HORIZON, after, at_timestamp
from shardbatch.errors import ShardbatchError
from shardbatch.run import Outcome
from tests.support.aged import HOUR, backfilled, pass_time
from tests.support.clean_rig import clean
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import told

RECORD = Policies(gap=GapPolicy.RECORD)


@dataclass
class History:
    """An application whose life is a seed's: what arrived when, and what people did."""

    seed: int
    rig: Rig
    eventful: bool
    arrived: dict[str, tuple[str, int]] = field(default_factory=dict)
    runs: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.begins_ms = self.rig.time.ms

    def live(self) -> None:
        for _ in range(self.dice.randint(8, 25)):
            self.step()
        if self.dice.random() < 0.5:
            self._long()

    def step(self) -> None:
        deeds = ["put"] * 4 + ["run"] * 5 + ["wait"] * 3 + ["split"]
        if self.eventful:
            deeds += ["long", "reset", "stop", "clean", "drop", "aside", "merge"]
        deed = self.dice.choice(deeds)
        getattr(self, f"_{deed}")()

    def _put(self) -> None:
        stream, now_ms = self.rig.stream, self.rig.time.ms
        for _ in range(self.dice.randint(1, 5)):
            stream.now_ms = now_ms + self.dice.randint(0, 40_000)  # arrival times may run backwards
            keys = [self.dice.choice("abcdef") for _ in range(self.dice.choice((1, 1, 1, 3)))]
            shard = stream._of(keys[0])
            for place in stream.pack(*keys):
                self.arrived[place] = (shard.shard_id, stream.now_ms)
        stream.now_ms = self.rig.time.ms = now_ms + 41_000

    def _run(self) -> None:
        self.runs += 1
        self.rig.run(f"live-{self.runs}", policies=RECORD)

    def _wait(self) -> None:
        pass_time(self.rig, self.dice.choice((0.02, 1, 5, 11, 23 if self.eventful else 2)))

    def _long(self) -> None:
        pass_time(self.rig, self.dice.choice((30, 50)))

    def _split(self) -> None:
        shard = self.dice.choice([s for s in self.rig.stream.shards.values() if not s.closed])
        self.rig.stream.split(shard.shard_id)

    def _merge(self) -> None:
        opened = sorted((s for s in self.rig.stream.shards.values() if not s.closed), key=lambda s: s.hash_range.start)
        if len(opened) > 1:
            self.rig.stream.merge(opened[0].shard_id, opened[1].shard_id)

    def _stop(self) -> None:
        """A run that leaves its batch frozen, or only landed."""
        self.runs += 1
        run = f"stopped-{self.runs}"
        found = self.rig.claim(run, policies=RECORD)
        if found.outcome is Outcome.LEASES:
            self.rig.land(run, found, policies=RECORD)
            if self.dice.random() < 0.6:
                self.rig.freeze(run, policies=RECORD)
        self.rig.over(run)

    def _reset(self) -> None:
        leases = [lease for lease in self.rig.consumer().leases() if lease.checkpoint.exact]
        if not leases:
            return
        lease = self.dice.choice(leases)
        mine = [place for place, (shard, _) in self.arrived.items() if shard == lease.shard_id and "/" not in place]
        to = self.dice.choice(
            [TRIM_HORIZON, at_timestamp(self.rig.time.ms - self.dice.randint(1, 60) * HOUR)]
            + [after(place) for place in self.dice.sample(mine, min(2, len(mine)))]
        )
        told(reset, self.rig, shards=[lease.shard_id], to=to, force=True, landing=self.rig.consumer().landing)

    def _clean(self) -> None:
        clean(self.rig, archive_for=timedelta(hours=self.dice.choice((0, 6, 30))))

    def _some(self, *states: BatchState) -> str | None:
        rows = [batch.batch_id for batch in self.rig.batches() if batch.state in states]
        return self.dice.choice(rows) if rows else None

    def _drop(self) -> None:
        if batch_id := self._some(BatchState.FROZEN, BatchState.PARKED):
            told(drop, self.rig, batch_id, force=True, clock=self.rig.time.clock())

    def _aside(self) -> None:
        if batch_id := self._some(BatchState.FROZEN, BatchState.PARKED):
            told(set_aside, self.rig, batch_id, force=True, landing=self.rig.consumer().landing)

    def interval(self) -> Interval:
        span = max(HOUR, self.rig.time.ms - self.begins_ms)
        begin = self.begins_ms + self.dice.randint(-HOUR, span)
        marks = [ms + self.dice.choice((-1, 0, 1)) for _, ms in self.arrived.values()]
        self.dice.shuffle(marks)
        begin = min(self.dice.choice([begin, *marks[:3]]), self.rig.time.ms - 1)
        end = min(begin + self.dice.choice((60_000, HOUR, 10 * HOUR, 30 * HOUR)), self.rig.time.ms)
        return Interval(begin, max(end, begin + 1))

    def truth(self, interval: Interval) -> Counter[str]:
        return Counter(place for place, (_, ms) in self.arrived.items() if ms in interval)


def tell(rig: Rig, interval: Interval, policy: GapPolicy) -> tuple[Counter[str] | None, str, list[dict]]:
    """The records of an interval run, or why it failed; with its recorded gaps."""
    mark = len(rig.said)
    try:
        done = backfilled(rig, interval, policies=Policies(gap=policy))
    except ShardbatchError as error:
        return None, str(error), []
    found = [] if done.batch_id is None else rig.records(done.batch_id)
    slices = [] if done.batch_id is None else rig.manifest(done.batch_id)["slices"]
    gaps = [dict(gap, shard_id=entry["shard_id"]) for entry in slices for gap in entry["gaps"]]
    return Counter(found), "\n".join(rig.said[mark:]), gaps


def lived(folder: Path, seed: int, *, eventful: bool) -> History:
    stream = ScriptedStream(shards=random.Random(seed).choice((1, 2)))
    history = History(seed, Rig(folder / "staging", stream=stream), eventful)
    stream.page_size = history.dice.choice((1, 3, 100))
    history.rig.options["start"] = history.dice.choice(
        (TRIM_HORIZON, TRIM_HORIZON, LATEST, at_timestamp(stream.now_ms))
    )
    for _ in range(history.dice.choice((0, 0, 2))):  # before the application begins
        history._put()
        history.dice.choice((history._wait, history._split))()
    history.rig.run("first", policies=RECORD)
    history.live()
    return history


def judge(history: History, policy: GapPolicy) -> str:
    interval = history.interval()
    found, said, gaps = tell(history.rig, interval, policy)
    truth = history.truth(interval)
    if found is None:
        assert "lost" in said or "gap" in said.lower() or "retention" in said, said
        return "refused"
    assert not found - truth, f"too much: {found - truth}"
    missing = truth - found
    if policy is GapPolicy.FAIL:
        assert not missing, f"lost in silence: {missing}"
    for place in missing:
        shard, _ = history.arrived[place]
        mine = [gap for gap in gaps if gap["shard_id"] == shard]
        assert mine or "cannot be had whole" in said, f"{place} of {shard} is lost in silence"
    old = interval.from_ms < history.rig.time.ms - history.rig.stream.retention_ms()
    return f"{'copied' if old else 'read'} {'nothing' if not found else 'whole' if not missing else 'in part'}"


FEW, MANY = range(8), [pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 80)]


@pytest.mark.parametrize("seed", [*FEW, *MANY])
@pytest.mark.parametrize("policy", list(GapPolicy))
def test_an_interval_has_each_record_once_or_says_what_it_lacks(tmp_path: Path, seed: int, policy: GapPolicy) -> None:
    judge(lived(tmp_path, seed, eventful=True), policy)


@pytest.mark.parametrize("seed", [*FEW, *MANY])
def test_where_runs_come_often_and_nothing_was_retired_all_of_it_can_be_had(tmp_path: Path, seed: int) -> None:
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=1 + seed % 2))
    rig.stream.page_size = 1 + seed % 4
    rig.run("first")
    history = History(seed, rig, eventful=False)
    for _ in range(history.dice.randint(8, 20)):
        history.step()
        history.dice.choice((history._put, history._wait, history._split, history._merge, history._stop))()
        history._run()
    for _ in range(3):
        pass_time(rig, 20)
        history._run()
    interval = history.interval()
    first_ms = min(batch.created_at_ms for batch in rig.batches())
    while interval.from_ms < first_ms + 6 * 60_000:
        interval = history.interval()
    found, said, _ = tell(rig, interval, GapPolicy.FAIL)
    assert found == history.truth(interval), said
