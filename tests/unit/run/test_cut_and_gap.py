# SPDX-License-Identifier: Apache-2.0
"""Where reads that are cut short meet gaps, intervals, resets and groups that stage apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.reset import reset
from shardbatch.core.interval import Interval
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, Position
from shardbatch.core.slice import Gap, Slice
from shardbatch.errors import SourceError, StagingMoved, StoreError, Throttled
from shardbatch.run import claim, land
from shardbatch.run.hold import Held
from tests.support.passing import later, only
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream, of_lag
from tests.support.verbs import told

HOUR, MINUTE = 3_600_000, 60_000
RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def beside(rig: Rig, span: Interval, **changes: Any) -> Any:
    owner = replace(rig.owner("backfill"), mode="interval")
    return rig.consumer(scope=owner.scope, interval=span, **changes), owner


class Cut(ScriptedStream):
    """Answers a read with nothing, far behind, and then fails, as often as ``cuts`` says."""

    cuts = 0

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        if self.cuts:
            yield Page(self._batch([]), position, lag_ms=500_000)
            self.cuts -= 1
            raise SourceError("cut")
        yield from super().read(shard_id, position)


def test_a_gap_behind_which_nothing_was_seen_yet_is_told_once_by_the_read_that_comes_further(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging", stream=Cut())
    rig.claim("r0")
    rig.over("r0")
    later(rig, 48)
    rig.stream.cuts = 2  # type: ignore[attr-defined]
    counts = []
    for run in ("r1", "r2", "r3"):
        try:
            counts.append(rig.run(run, policies=RECORD).gaps)
        except SourceError:
            counts.append(0)
            rig.over(run)
    assert counts == [0, 0, 1]


def test_a_gap_that_a_person_accepted_stays_accepted_when_the_slice_is_read_on() -> None:
    gap = Gap(TRIM_HORIZON, None, 1, None, "expired", accepted="ann")
    begun = Slice("s", TRIM_HORIZON, TRIM_HORIZON, ended=False, gaps=(gap,))
    seen = replace(gap, first_available="7", to_ms=9, accepted=None)
    assert begun.followed_by(replace(begun, gaps=(seen,))).gaps == (replace(seen, accepted="ann"),)
    elsewhere = replace(seen, after=Position.parse("5"))
    assert begun.followed_by(replace(begun, gaps=(elsewhere,))).gaps == (gap, elsewhere)


def test_a_reset_to_where_a_shard_stands_keeps_what_was_seen_of_it(rig: Rig) -> None:
    """It is what a person does who has lost what was landed; an idle shard's record may have expired long since."""
    rig.stream.put("a")
    rig.run("r0")
    for number in range(26):
        later(rig, 1)
        rig.run(f"idle{number}")
    rig.stream.put("b")
    rig.land("r1", rig.claim("r1"))
    rig.over("r1")
    told(reset, rig, to=only(rig).checkpoint, shards=[only(rig).shard_id], force=True)
    rig.land("r2", rig.claim("r2"))
    landed = only(rig).pending
    assert landed is not None
    assert (landed.records, landed.gaps) == (1, ())


def test_what_was_read_of_an_interval_is_kept_when_the_streams_clock_cannot_be_asked(tmp_path: Path) -> None:
    class Lagging(ScriptedStream):
        """An idle shard is always 40 s behind, and the stream's clock can be asked until it ``fails``."""

        fails = False

        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            for page in super().read(shard_id, position):
                yield page if page.records.num_rows else of_lag(page, 40_000)

        def clock_ms(self) -> int | None:
            if self.fails:
                raise Throttled("DescribeStreamSummary")
            return super().clock_ms()

    stream = Lagging()
    rig = Rig(tmp_path / "staging", stream=stream)
    stream.put("a")
    to_ms = stream.now_ms + MINUTE
    later(rig, 11 / 60)
    consumer, owner = beside(rig, Interval(to_ms - HOUR, to_ms))
    found = claim(consumer, owner)
    stream.fails = True
    with pytest.raises(Throttled):
        land(consumer, owner, found.groups[0].group, stream.now_ms)
    (lease,) = consumer.leases()
    assert lease.pending is not None
    assert (lease.pending.records, lease.pending.ended) == (1, False)


def test_a_live_group_that_stages_elsewhere_does_not_stop_another(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "one", stream=ScriptedStream(shards=4))
    rig.options["options"] = ClaimOptions(shared=True, max_shards=1)
    for shard in rig.stream.shards:
        rig.stream.put("a", shard_id=shard)
    rig.land("r1", rig.claim("r1"))
    other = replace(rig, folder=tmp_path / "two")
    assert other.claim("r2").shards == 1
    rig.over("r1")
    rig.options["options"] = ClaimOptions(shared=True)
    with pytest.raises(StagingMoved, match="one"):
        other.claim("r3")  # now it would take what the first has landed


@pytest.mark.parametrize("landed_before", [False, True])
def test_a_silent_store_ends_the_read_of_its_shard_and_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed_before: bool
) -> None:
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    first, second = rig.stream.shards
    for shard in rig.stream.shards:
        rig.stream.put("a", shard_id=shard)
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    if landed_before:  # by an earlier try of the task: the silence is noticed when nothing is left to read
        rig.land("r1", found)
    asked = Held.lost.fget
    assert asked is not None

    def lost(held: Held) -> bool:
        if held.shard_id == first:
            raise StoreError("silent")
        return bool(asked(held))

    monkeypatch.setattr(Held, "lost", property(lost, Held.lost.fset))
    (landed,) = rig.land("r1", found)
    assert list(landed.errors) == [first]
    kept = [first, second] if landed_before else [second]
    assert [row.shard_id for row in rig.consumer().leases() if row.pending is not None] == kept
    assert len(list(rig.folder.rglob("part-*"))) == len(kept)
