# SPDX-License-Identifier: Apache-2.0
"""An interval that is older than the stream's retention is copied from committed batches (PROTOCOL H8 to H11)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
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
    from shardbatch.core.position import after

    assert places(after(whole[2])) == whole[3:]
    assert places(SHARD_END) == []
