# SPDX-License-Identifier: Apache-2.0
"""What the error of an interval says that cannot be had whole: shards, times and reasons (PROTOCOL H13)."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.park import park
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.interval import Interval
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import TRIM_HORIZON, at_timestamp
from shardbatch.errors import GapFound
from shardbatch.run.batch_status import utc
from tests.support.aged import HOUR, backfill, pass_time, put
from tests.support.clean_rig import clean
from tests.support.rig import Rig
from tests.support.verbs import told

RECORD = Policies(gap=GapPolicy.RECORD)
SHARD = "shardId-000000000000"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.run("first")
    return made


def live(rig: Rig, rounds: int = 1, hours: float = 12) -> list[tuple[int, list[str], str]]:
    """Runs, each behind two records: when these arrived, which they are, and the batch."""
    found = []
    for _ in range(rounds):
        pass_time(rig, hours)
        when = rig.time.ms
        found.append((when, put(rig, "a", "b"), str(rig.run(f"live-{when}", policies=RECORD).batch_id)))
    return found


def frozen(rig: Rig) -> tuple[int, str]:
    """A run that dies behind its freeze: when its records arrived, and its batch."""
    pass_time(rig, 12)
    when = rig.time.ms
    put(rig, "a", "b")
    rig.land("dead", rig.claim("dead"))
    return when, str(rig.freeze("dead").batch_id)


def refused(rig: Rig, interval: Interval, run: str = "backfill", **changes: Any) -> str:
    """What a claim says, which takes nothing and leaves nothing."""
    rows = list(rig.store.list(*_leases(rig)))
    with pytest.raises(GapFound) as error:
        backfill(rig, interval, run, **changes)
    assert list(rig.store.list(*_leases(rig))) == rows
    return str(error.value)


def _leases(rig: Rig) -> Any:
    from shardbatch.core.rows import SHARD_LEASE

    return SHARD_LEASE, rig.namespace, None


def test_a_retired_batch_is_named_with_its_day_and_from_when_on_all_can_be_had(rig: Rig) -> None:
    rounds = live(rig, 8)
    clean(rig, archive_for=timedelta(hours=60))
    gone = [batch for batch in rig.batches() if batch.retired_ms is not None]
    assert len(gone) == 3
    said = refused(rig, Interval(rounds[1][0] - HOUR, rounds[4][0] + HOUR))
    day = utc(gone[1].retired_ms or 0)[:10]
    assert f"batch {rounds[1][2]} was retired on {day}, when its archive_for was over" in said
    assert rounds[0][2] not in said, "what arrived before the interval is no part of it"
    assert f"shard {SHARD}, what arrived from {utc(rounds[1][0] - HOUR)} to {utc(rounds[3][0])}"[:60] in said
    assert f"What arrived from {utc(min(_arrivals(rig, rounds[3][2])))} on can be had" in said
    assert "archive_for" in said
    assert 'gap="record"' in said
    found = backfill(rig, Interval(min(_arrivals(rig, rounds[3][2])) + 60_001, rounds[4][0] + HOUR), "later")
    assert found == rounds[4][1]


def _arrivals(rig: Rig, batch_id: str) -> list[int]:
    return [entry["min_arrival_ms"] for entry in rig.manifest(batch_id)["slices"]]


def test_a_frozen_and_a_parked_batch_are_named(rig: Rig) -> None:
    rounds = live(rig, 2)
    when, batch_id = frozen(rig)
    pass_time(rig, 40)
    span = Interval(rounds[1][0] - HOUR, when + HOUR)
    assert f"only in batch {batch_id}, which is frozen; commit it first" in refused(rig, span)
    told(park, rig, batch_id, force=True)
    assert f"only in batch {batch_id}, which is parked; commit it first" in refused(rig, span)


def test_a_slice_that_no_batch_has_is_named(rig: Rig) -> None:
    rounds = live(rig, 2)
    pass_time(rig, 12)
    when = rig.time.ms
    put(rig, "a")
    rig.land("dead", rig.claim("dead"))
    pass_time(rig, 40)
    said = refused(rig, Interval(rounds[1][0] - HOUR, when + HOUR))
    assert "only in a slice that no batch has committed yet" in said


def test_a_batch_that_was_set_aside_is_copied_and_one_that_was_dropped_then_is_named(rig: Rig) -> None:
    rounds = live(rig, 2)
    when, batch_id = frozen(rig)
    told(set_aside, rig, batch_id, force=True, landing=rig.consumer().landing)
    rig.over("dead")
    rounds += live(rig, 6)
    span = Interval(when - HOUR, when + HOUR)
    assert len(backfill(rig, span, "kept")) == 2
    told(drop, rig, batch_id, force=True)
    assert f"batch {batch_id} was dropped" in refused(rig, span, "dropped")


def test_a_recorded_gap_is_the_intervals_gap(rig: Rig) -> None:
    rounds = live(rig, 2)
    put(rig, "lost")
    lost_ms = rig.time.ms
    rounds += live(rig, 1, hours=30)
    rounds += live(rig, 4)
    said = refused(rig, Interval(lost_ms - HOUR, lost_ms + HOUR))
    assert f"a gap that batch {rounds[2][2]} recorded: records expired before they were read" in said
    found = backfill(rig, Interval(lost_ms - HOUR, lost_ms + HOUR), "recorded", policies=RECORD)
    assert found == rounds[1][1]


def test_what_a_reset_passed_over_is_said_with_who_and_why(rig: Rig) -> None:
    rounds = live(rig, 2)
    pass_time(rig, 6)
    put(rig, "x")
    passed_ms = rig.time.ms
    pass_time(rig, 1)
    told(reset, rig, shards=[SHARD], to=at_timestamp(rig.time.ms), landing=rig.consumer().landing)
    rounds += live(rig, 6)
    said = refused(rig, Interval(passed_ms - HOUR, passed_ms + HOUR))
    assert "a person had them passed over" in said
    assert "bad data" in said
    assert "ann" in said


def test_after_a_reset_to_the_oldest_record_what_was_read_before_it_is_not_taken_for_read_again(rig: Rig) -> None:
    """The second slice begins at the oldest record too, without a gap; the first one is retired."""
    rounds = live(rig, 4)
    told(reset, rig, shards=[SHARD], to=TRIM_HORIZON, landing=rig.consumer().landing)
    again = str(rig.run("again").batch_id)
    assert not any(entry["gaps"] for entry in rig.manifest(again)["slices"])
    rounds += live(rig, 1)
    clean(rig, archive_for=timedelta(hours=20))
    pass_time(rig, 30)
    said = refused(rig, Interval(rounds[1][0] - HOUR, rounds[1][0] + HOUR))
    assert f"batch {rounds[1][2]} was retired" in said


def test_after_a_reset_the_oldest_record_is_no_beginning(rig: Rig, tmp_path: Path) -> None:
    """What was read before it stands elsewhere, and is not retired; what it read anew begins later."""
    rounds = live(rig, 4)
    rig.folder = tmp_path / "moved"
    rig.folder.mkdir()
    told(reset, rig, shards=[SHARD], to=TRIM_HORIZON, landing=rig.consumer().landing)
    rig.run("again")
    live(rig, 5)
    span = Interval(rounds[1][0] - HOUR, rounds[1][0] + HOUR)
    assert f"batch {rounds[1][2]} stands in another staging folder" in refused(rig, span)
    assert backfill(rig, span, "left", policies=RECORD) == []


def test_an_overlap_after_a_reset_is_taken_once(rig: Rig) -> None:
    rounds = live(rig, 4)
    told(reset, rig, shards=[SHARD], to=TRIM_HORIZON, landing=rig.consumer().landing)
    rig.run("again")
    rounds += live(rig, 5)
    found = backfill(rig, Interval(rounds[1][0] - HOUR, rounds[5][0] + HOUR))
    assert found == [place for _, places, _ in rounds[1:6] for place in places]


def test_what_came_before_the_first_batch_is_not_known_to_be_whole(rig: Rig) -> None:
    rounds = live(rig, 6)
    said = refused(rig, Interval(rounds[0][0] - 30 * HOUR, rounds[0][0] + HOUR))
    assert "no batch that is kept is known to begin before it" in said


def test_batches_in_another_staging_folder_are_named(rig: Rig, tmp_path: Path) -> None:
    rounds = live(rig, 6)
    rig.folder = tmp_path / "moved"
    rounds += live(rig, 1)
    said = refused(rig, Interval(rounds[2][0] - HOUR, rounds[2][0] + HOUR))
    assert f"batch {rounds[2][2]} stands in another staging folder, file://{tmp_path}/staging/" in said
    shutil.rmtree(tmp_path / "staging")
    assert "another staging folder" in refused(rig, Interval(rounds[2][0] - HOUR, rounds[2][0] + HOUR), "removed")


def test_a_retired_batch_counts_whatever_became_of_its_shards(rig: Rig) -> None:
    """A shard that has left the stream, the rows and the manifests is known to nobody."""
    rounds = live(rig, 3)
    rig.stream.split(SHARD)
    rounds += live(rig, 6)
    span = Interval(rounds[1][0] - HOUR, rounds[1][0] + HOUR)
    assert sorted(backfill(rig, span, "before")) == sorted(rounds[1][1])
    clean(rig, archive_for=timedelta(hours=60))
    assert rig.stream.shards[SHARD].gone
    assert SHARD not in {row.shard_id for row in rig.consumer().leases()}
    said = refused(rig, span)
    assert "any shard, what arrived from" in said
    assert f"batch {rounds[1][2]} was retired" in said


def test_under_gap_record_the_claim_says_what_is_lacking_and_goes_on(rig: Rig) -> None:
    rounds = live(rig, 8)
    clean(rig, archive_for=timedelta(hours=60))
    found = backfill(rig, Interval(rounds[1][0] - HOUR, rounds[4][0] + HOUR), policies=RECORD)
    assert found == rounds[3][1] + rounds[4][1]
    assert any("cannot be had whole" in line for line in rig.said)
    interval = [batch for batch in rig.store.list(*_batches(rig)) if batch.scope]  # type: ignore[attr-defined]
    assert interval[0].gaps == 1  # type: ignore[attr-defined]


def _batches(rig: Rig) -> Any:
    from shardbatch.core.rows import BATCH

    return BATCH, rig.namespace, None
