# SPDX-License-Identifier: Apache-2.0
"""Random outages, changed retentions, wrong clocks, resets and standstills: no record is lost in silence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.control.reset import reset
from shardbatch.core.batch import BatchState
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.slice import Gap
from tests.support.rig import Rig
from tests.support.verbs import done

HOUR = 3_600_000
RECORD = Policies(gap=GapPolicy.RECORD)
#: Hours that pass at once; among them just less and just more than the shorter retention.
HOURS = (0.02, 0.5, 2, 12, 23.8, 24.2, 30)


def few_of(seeds: int) -> pytest.MarkDecorator:
    """One in four seeds is played by `make test`, all of them by `make test-long`."""
    return pytest.mark.parametrize(
        "seed", [pytest.param(seed, marks=pytest.mark.long if seed % 4 else ()) for seed in range(seeds)]
    )


class Story:
    """One application on one shard, and what becomes of the records that it was sent."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.rig = Rig(folder / "staging")
        self.rig.stream.page_size = self.draw.choice([1, 2, 5])
        self.rig.stream.answer_pages = self.draw.choice([1, 3])
        self.sent: dict[str, int] = {}
        self.runs = 0
        self.sleeps = False
        read = self.rig.stream.read

        def standing(shard_id: str, position: Position) -> Iterator[Page]:
            for page in read(shard_id, position):
                if self.sleeps and self.draw.random() < 0.4:
                    self.sleeps = False
                    self.time_passes()
                    self.put()
                    self.time_passes()
                yield page

        self.rig.stream.read = standing  # type: ignore[method-assign]

    def put(self) -> None:
        for name in self.rig.stream.put(*"ab"[: self.draw.randint(1, 2)]):
            self.sent[name] = self.rig.stream.now_ms

    def time_passes(self) -> None:
        rig, hours = self.rig, self.draw.choice(HOURS)
        rig.time.ms += int(hours * HOUR)
        rig.stream.now_ms += int(hours * HOUR)
        self.expire()

    def expire(self) -> None:
        stream = self.rig.stream
        for shard in stream.shards.values():
            shard.items = [item for item in shard.items if item.arrival_ms >= stream.now_ms - stream.retention_ms()]

    def change_the_retention(self) -> None:
        """A claim comes after it was lowered: one that is raised again before any claim leaves no trace."""
        before, now = self.rig.stream.retention, timedelta(hours=self.draw.choice([24, 48, 168]))
        self.rig.stream.retention = now
        self.expire()
        if now < before:
            self.claim_only()

    def run(self) -> None:
        self.runs += 1
        limits = ReadLimits(duration=timedelta(hours=self.draw.choice([0.2, 100])))
        self.rig.run(f"r{self.runs}", policies=RECORD, limits=limits)

    def run_while_the_machine_sleeps(self) -> None:
        self.sleeps = True
        self.run()
        self.sleeps = False

    def run_with_a_clock_that_is_ahead(self) -> None:
        self.rig.time.ms += 2000 * HOUR
        self.run()
        self.rig.time.ms -= 2000 * HOUR

    def claim_only(self) -> None:
        self.runs += 1
        self.rig.claim(f"r{self.runs}")
        self.rig.over(f"r{self.runs}")

    def read_only(self) -> None:
        self.runs += 1
        self.rig.land(f"r{self.runs}", self.rig.claim(f"r{self.runs}"), policies=RECORD)
        self.rig.over(f"r{self.runs}")

    def reset(self) -> None:
        (lease,) = self.rig.consumer().leases() or (None,)
        if lease is None:
            return
        now = self.rig.stream.now_ms
        places = [TRIM_HORIZON, at_timestamp(now), at_timestamp(now - HOUR), at_timestamp(now - 40 * HOUR)]
        places += [after(self.draw.choice(list(self.sent)))] if self.sent else []
        chosen = self.draw.choice(places)
        done(reset, self.rig, shards=[lease.shard_id], to=chosen, liveness=self.rig.verdict)

    def play(self) -> None:
        steps = [self.put, self.put, self.put, self.time_passes, self.time_passes, self.run, self.run]
        steps += [self.change_the_retention, self.claim_only, self.read_only, self.run_while_the_machine_sleeps]
        steps += [self.run_with_a_clock_that_is_ahead, self.reset]
        self.run()
        for _ in range(25):
            self.draw.choice(steps)()
        for _ in range(3):
            self.run()

    def gaps(self) -> list[Gap]:
        rows = self.rig.batches(BatchState.COMMITTED)
        slices = [entry for row in rows for entry in self.rig.manifest(row.batch_id)["slices"]]
        return [Gap.from_json(gap) for entry in slices for gap in entry["gaps"]]


def covers(gap: Gap, name: str, arrival_ms: int) -> bool:
    if gap.after >= after(name):
        return False
    if gap.until is not None and gap.until.timestamp_ms is not None:
        return arrival_ms < gap.until.timestamp_ms
    if gap.until is not None:
        return after(name) <= gap.until
    return gap.first_available is None or int(name) < int(gap.first_available)


@few_of(60)
def test_every_record_is_committed_or_in_a_gap(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    story.play()
    told = story.gaps()
    committed = set(story.rig.committed())
    silent = [
        name
        for name, arrival_ms in story.sent.items()
        if name not in committed and not any(covers(gap, name, arrival_ms) for gap in told)
    ]
    assert silent == []
    assert all(gap.from_ms is None or gap.to_ms is None or gap.from_ms <= gap.to_ms for gap in told)


@few_of(20)
def test_who_looks_often_enough_has_no_gap_whatever_becomes_of_the_retention(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    for _ in range(25):
        story.draw.choice([story.put, story.claim_only, story.run, story.change_the_retention])()
        story.rig.time.ms += 2 * HOUR
        story.rig.stream.now_ms += 2 * HOUR
        story.expire()
        if story.draw.random() < 0.5:
            story.run()
        else:
            story.put()
            story.run()
    assert story.gaps() == []
    assert set(story.rig.committed()) == set(story.sent)
