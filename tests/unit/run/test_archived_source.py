# SPDX-License-Identifier: Apache-2.0
"""An interval that is older than the stream's retention is copied from committed batches (PROTOCOL H9 to H12)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.run.archived_source import ArchivedSource, with_archive
from tests.support.aged import HOUR, backfill, pass_time, put
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.run("first")
    return made


def story(rig: Rig, rounds: int, hours: float = 12, *keys: str) -> list[tuple[int, list[str]]]:
    """So many runs, each with a few records that arrived just before it: when, and which."""
    told = []
    for number in range(rounds):
        pass_time(rig, hours)
        told.append((rig.time.ms, put(rig, *(keys or ("a", "b")))))
        rig.run(f"live-{rig.time.ms}-{number}")
    return told


def test_an_interval_older_than_the_retention_is_copied_whole(rig: Rig) -> None:
    told = story(rig, 10)
    rig.stream.reads.clear()
    found = backfill(rig, Interval(told[2][0] - HOUR, told[4][0] + HOUR))
    assert sorted(found) == sorted(told[2][1] + told[3][1] + told[4][1])
    assert not rig.stream.reads, "a record a minute past the end is in the archive, so the stream is not asked"


def test_where_the_archive_ends_the_stream_goes_on(rig: Rig) -> None:
    told = story(rig, 6)
    late = put(rig, "a", "b")  # not read by a live run
    to_ms = rig.time.ms + HOUR
    pass_time(rig, 2)
    found = backfill(rig, Interval(told[1][0] - HOUR, to_ms))
    assert sorted(found) == sorted([place for _, places in told[1:] for place in places] + late)


def test_an_interval_that_the_stream_has_is_read_from_it_alone(rig: Rig) -> None:
    told = story(rig, 6)
    consumer = rig.consumer(scope="s", interval=Interval(told[4][0], told[5][0]))
    assert with_archive(consumer) is consumer
    older = replace(consumer, interval=Interval(told[1][0], told[5][0]))
    made = with_archive(older)
    assert isinstance(made.source, ArchivedSource)
    assert with_archive(made) is made


def test_a_live_run_never_reads_the_archive(rig: Rig) -> None:
    story(rig, 6)
    consumer = rig.consumer()
    assert with_archive(consumer) is consumer


def test_shards_that_have_left_the_stream_are_listed_with_their_children(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    told = story(rig, 2)
    low, high = rig.stream.split(parent)
    told += story(rig, 8)
    assert rig.stream.shards[parent].gone
    found = backfill(rig, Interval(told[0][0] - HOUR, told[3][0] + HOUR))
    assert sorted(found) == sorted(place for _, places in told[:4] for place in places)
    source = with_archive(rig.consumer(scope="s", interval=Interval(told[0][0], told[3][0]))).source
    listed = {shard.shard_id: shard for shard in source.list_shards()}
    assert set(listed) == {parent, low, high}
    assert listed[low].parent_shard_ids == (parent,)
    assert source.missing(list(listed.values())) == ""


def test_a_read_that_goes_on_begins_at_the_place_it_had_reached(rig: Rig) -> None:
    told = story(rig, 8)
    (shard,) = rig.stream.shards
    source = with_archive(rig.consumer(scope="s", interval=Interval(told[0][0], told[3][0] + 1))).source

    def places(start: object) -> list[str]:
        found: list[str] = []
        for page in source.read(shard, start):  # type: ignore[arg-type]
            found += page.records.column("sequence_number").to_pylist()
            if getattr(page, "over", False):
                break
        return found

    whole = places(TRIM_HORIZON)
    assert whole[: len(told[0][1])] == told[0][1]
    assert places(after(whole[2])) == whole[3:]
    assert places(SHARD_END) == []


def test_an_idle_shard_whose_last_record_has_expired_goes_on_in_the_stream_without_a_gap(rig: Rig) -> None:
    told = story(rig, 3)
    for number in range(6):  # live runs that find nothing
        pass_time(rig, 12)
        rig.run(f"idle-{number}")
    pass_time(rig, 2)
    (lease,) = rig.consumer().leases()
    span = Interval(told[1][0] - HOUR, rig.time.ms - HOUR // 2)
    assert lease.committed_up_to_ms is not None
    assert lease.committed_up_to_ms < span.to_ms, "no look of the live application ends it"
    assert backfill(rig, span) == told[1][1] + told[2][1]


def test_an_idle_shard_is_over_where_the_live_application_saw_its_tip(rig: Rig) -> None:
    told = story(rig, 3)
    for number in range(6):
        pass_time(rig, 12)
        rig.run(f"idle-{number}")
    rig.stream.reads.clear()
    assert backfill(rig, Interval(told[1][0] - HOUR, told[2][0] + HOUR)) == told[1][1] + told[2][1]
    assert not rig.stream.reads


def test_a_live_batch_that_ends_inside_an_aggregate_joins_the_next_one(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    pass_time(rig, 12)
    when = rig.time.ms
    rig.stream.now_ms = when
    packed = rig.stream.pack("a", "b", "c", "d", "e", shard_id=shard)
    rig.stream.page_size = 2
    rig.run("part", limits=ReadLimits(records=2))
    assert rig.consumer().leases()[0].checkpoint.sub_sequence_number == 1
    rig.run("rest")
    story(rig, 6)
    assert backfill(rig, Interval(when - HOUR, when + HOUR)) == packed
