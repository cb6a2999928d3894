# SPDX-License-Identifier: Apache-2.0
"""What was lost, dropped or moved away far from an interval's own batches is told all the same (PROTOCOL H12, H13)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.archive_plan import lacking
from shardbatch.core.batch import retire as retired
from shardbatch.core.interval import Interval
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import TRIM_HORIZON, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.errors import GapFound, SourceError
from shardbatch.landing.area import StagingArea
from shardbatch.run.archived_source import ArchivedSource, with_archive
from shardbatch.run.continuity import LEFT
from tests.support.aged import HOUR, backfill, backfilled, pass_time, put
from tests.support.clean_rig import clean
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import told

RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    made.run("first")
    return made


def live(rig: Rig, *shards: str, hours: float = 12) -> tuple[int, str]:
    """A run behind a record of each shard: when these arrived, and the batch."""
    pass_time(rig, hours)
    when = rig.time.ms
    for shard in shards:
        put(rig, "a", shard_id=shard)
    return when, str(rig.run(f"live-{when}", policies=RECORD).batch_id)


def lost(rig: Rig, idle: str, busy: str, *, split: bool = False) -> int:
    """A record of one shard expires, which cannot be read for long while the other one is: when it arrived."""
    pass_time(rig, 12)
    put(rig, "lost", shard_id=idle)
    when = rig.time.ms
    if split:
        rig.stream.split(idle)
    rig.stream.failing[idle] = SourceError("The service is at fault.")
    for _ in range(30):
        live(rig, busy, hours=1)
    del rig.stream.failing[idle]
    live(rig, busy, hours=0.1)
    live(rig, busy, hours=1)
    return when


def refused(rig: Rig, when: int, run: str = "backfill") -> str:
    with pytest.raises(GapFound) as error:
        backfill(rig, Interval(when - HOUR, when + HOUR), run)
    return str(error.value)


def recorded(rig: Rig, when: int, run: str = "recorded") -> list[dict[str, Any]]:
    """The gaps of the batch of an interval under ``gap=record``."""
    done = backfilled(rig, Interval(when - HOUR, when + HOUR), run, policies=RECORD)
    assert done.batch_id is not None, "what is lost is in a batch"
    return [gap for entry in rig.manifest(done.batch_id)["slices"] for gap in entry["gaps"]]


def test_a_gap_that_a_much_later_batch_recorded_is_told(rig: Rig) -> None:
    """All records of that batch arrived long after the interval; of the idle shard it has the gap alone."""
    idle, busy = rig.stream.shards
    live(rig, idle, busy)
    when = lost(rig, idle, busy)
    assert "records expired before they were read" in refused(rig, when)
    assert [gap["reason"] for gap in recorded(rig, when)]


def test_what_a_shard_lost_that_left_the_stream_is_told(rig: Rig) -> None:
    """Its last record was read long before the interval, and its end never."""
    idle, busy = rig.stream.shards
    live(rig, idle, busy)
    when = lost(rig, idle, busy, split=True)
    assert rig.stream.shards[idle].gone
    assert f"shard {idle}" in refused(rig, when)
    assert any(LEFT in gap["reason"] for gap in recorded(rig, when))
    for _ in range(8):  # also once its row is removed
        live(rig, busy, *[name for name in rig.stream.shards if rig.stream.shards[name].parents])
    assert idle not in {lease.shard_id for lease in rig.consumer().leases()}
    assert "left the stream" in refused(rig, when, "later")


@pytest.fixture
def one(tmp_path: Path) -> Rig:
    """A stream of one shard, which is split before the application moves, and leaves the stream and the rows."""
    made = Rig(tmp_path / "staging", stream=ScriptedStream(shards=1))
    made.run("first")
    live(made, SHARD)
    return made


SHARD = "shardId-000000000000"


def gone(rig: Rig) -> None:
    """The shard leaves the stream and the rows."""
    children = rig.stream.split(SHARD)
    for _ in range(10):
        live(rig, *children)
    assert rig.stream.shards[SHARD].gone
    assert SHARD not in {lease.shard_id for lease in rig.consumer().leases()}


def test_a_batch_elsewhere_counts_whatever_became_of_its_shards(one: Rig, tmp_path: Path) -> None:
    when, batch_id = live(one, SHARD)
    one.folder = tmp_path / "moved"
    gone(one)
    assert f"batch {batch_id} stands in another staging folder" in refused(one, when)
    shutil.rmtree(tmp_path / "staging")
    assert any(batch_id in gap["reason"] for gap in recorded(one, when))


def dropped(rig: Rig) -> tuple[int, str]:
    """A batch that was set aside and then dropped: when its record arrived, and its id."""
    pass_time(rig, 12)
    when = rig.time.ms
    put(rig, "a", shard_id=SHARD)
    rig.land("dead", rig.claim("dead"))
    batch_id = str(rig.freeze("dead").batch_id)
    told(set_aside, rig, batch_id, force=True, landing=rig.consumer().landing)
    rig.over("dead")
    told(drop, rig, batch_id, force=True)
    return when, batch_id


def test_a_dropped_batch_counts_whatever_became_of_its_shards(one: Rig) -> None:
    when, batch_id = dropped(one)
    gone(one)
    assert f"batch {batch_id} was dropped" in refused(one, when)
    assert recorded(one, when)


def test_what_was_dropped_and_then_read_again_is_there(one: Rig) -> None:
    when, _ = dropped(one)
    told(reset, one, shards=[SHARD], to=at_timestamp(when - HOUR), landing=one.consumer().landing)
    live(one, SHARD, hours=2)
    gone(one)
    assert len(backfill(one, Interval(when - HOUR, when + HOUR))) == 1


def test_what_was_retired_of_unknown_shards_is_a_gap_in_the_batch(one: Rig) -> None:
    when, batch_id = live(one, SHARD)
    gone(one)
    clean(one, archive_for=timedelta(hours=60))
    assert re.search(f"any shard.*batch {batch_id} was retired", refused(one, when))
    assert any(batch_id in gap["reason"] for gap in recorded(one, when))


def test_a_batch_that_is_retired_before_its_manifest_is_read_counts_as_retired(one: Rig) -> None:
    when, batch_id = live(one, SHARD)
    gone(one)
    manifest = one.folder / one.app / one.stream.name / "batches" / batch_id / "manifest.json"

    class Late(StagingArea):
        def read_manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
            if manifest.exists():
                retire(one, batch_id)
                manifest.unlink()
            return super().read_manifests(namespace, batch_ids)

    with pytest.raises(GapFound, match=f"any shard.*batch {batch_id} was retired"):
        backfill(one, Interval(when - HOUR, when + HOUR), landing=Late(str(one.folder)))


def retire(rig: Rig, *batches: str) -> None:
    """These batches alone are retired: others were replayed since, or are kept aside."""
    for row in rig.batches():
        if row.batch_id in batches:
            assert rig.store.replace(row, retired(row, "", rig.time.ms))


def test_a_gap_that_only_a_retired_batch_recorded_is_told(rig: Rig) -> None:
    """The slices on both sides of the gap are kept, and meet at one place."""
    idle, busy = rig.stream.shards
    live(rig, idle, busy)
    when = lost(rig, idle, busy)
    with_gaps = [batch.batch_id for batch in rig.batches() if batch.gaps]
    live(rig, idle, busy)
    live(rig, idle, busy, hours=30)
    retire(rig, *with_gaps)
    assert "recorded a gap" in refused(rig, when)
    assert recorded(rig, when)


def test_a_reset_that_comes_before_the_rows_are_read_counts(one: Rig, tmp_path: Path) -> None:
    """What was read before it stands elsewhere, and what it read anew begins later, without a gap."""
    rounds = [live(one, SHARD) for _ in range(4)]
    one.folder = tmp_path / "moved"
    one.folder.mkdir()
    span = Interval(rounds[1][0] - HOUR, rounds[1][0] + HOUR)
    source = with_archive(one.consumer(scope="side", interval=span)).source
    assert isinstance(source, ArchivedSource)
    told(reset, one, shards=[SHARD], to=TRIM_HORIZON, landing=one.consumer().landing)
    one.run("again")
    for _ in range(5):
        live(one, SHARD)
    assert lacking(source.archive.plan(SHARD, TRIM_HORIZON))
