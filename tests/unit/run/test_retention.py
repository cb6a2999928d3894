# SPDX-License-Identifier: Apache-2.0
"""A retention that is changed: what it was since the last look judges what may be gone, not what it is today."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.control.status import shards, status
from shardbatch.core.application import Application
from shardbatch.core.expiry import Kept, kept_by, kept_today, looked
from shardbatch.core.interval import CLOCKS_APART_MS, Interval
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.position import LATEST, TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.errors import GapFound
from shardbatch.run.consumer import Consumer
from tests.support.aged import backfilled
from tests.support.passing import HOUR, later, only
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def left_ms(rig: Rig) -> int:
    clock = rig.time.clock()
    (found,) = shards(rig.store, rig.namespace, clock=clock)
    assert found.expires_from_ms is not None
    assert status(rig.store, rig.namespace, clock).expires_from_ms == found.expires_from_ms
    return max(0, found.expires_from_ms - clock.now_ms())


def outage(rig: Rig) -> int:
    """A record is read; two that come an hour later expire while nobody reads; then the retention is raised."""
    rig.stream.put("a")
    rig.run("r1")
    rig.run("r2")
    later(rig, 1)
    lost_ms = rig.stream.now_ms
    rig.stream.put("lost", "lost too")
    later(rig, 26)
    rig.stream.retention = timedelta(hours=168)
    return lost_ms


def test_a_retention_raised_during_an_outage_does_not_hide_what_expired_before(rig: Rig) -> None:
    outage(rig)
    assert left_ms(rig) == 0
    (left,) = rig.stream.put("new")
    rig.land("r3", rig.claim("r3"))
    assert left_ms(rig) == 168 * HOUR - 1 or left_ms(rig) > 167 * HOUR  # what is landed is read
    pending = only(rig).pending
    assert pending is not None
    assert [gap.first_available for gap in pending.gaps] == [left]


def test_a_claim_after_the_raise_that_does_not_read_forgets_nothing(rig: Rig) -> None:
    outage(rig)
    rig.claim("r3")  # notes the new retention
    rig.over("r3")
    assert left_ms(rig) == 0
    assert "0.0 h" in next(line for line in rig.said if "may expire soon" in line)
    later(rig, 1)
    rig.claim("r4")
    rig.over("r4")
    rig.stream.put("new")
    assert rig.run("r5", policies=RECORD).gaps == 1
    later(rig, 30)
    assert rig.run("r6", policies=RECORD).gaps == 0


@pytest.mark.parametrize("claimed", [False, True])
def test_a_backfill_of_the_hour_that_expired_is_told(rig: Rig, *, claimed: bool) -> None:
    lost_ms = outage(rig)
    if claimed:
        rig.claim("r3")
    with pytest.raises(GapFound, match="In 1 shards of the interval records expired"):  # the stream's answer shows it
        backfilled(rig, Interval(lost_ms - 60_000, lost_ms + HOUR))
    assert any(line.startswith("GAP in shard") for line in rig.said)
    whole = {"scope": "t", "interval": Interval(rig.stream.now_ms - 20 * HOUR, rig.stream.now_ms)}
    assert rig.claim("another", **whole).groups


def test_a_look_after_what_a_raise_left_behind_is_good_for_the_longer_retention(rig: Rig) -> None:
    """A shard that starved for 30 hours since, of which all was seen within the shorter retention of the raise."""
    rig.stream.put("a")
    rig.run("r1")
    rig.run("r2")
    rig.stream.retention = timedelta(hours=168)
    rig.claim("r3")
    rig.over("r3")
    later(rig, 30)
    (shard,) = rig.stream.shards
    rig.stream.trim(shard, keep=0)
    rig.stream.put("b")
    assert rig.run("r4").gaps == 0


def test_before_a_claim_notes_it_a_raise_may_just_have_been(rig: Rig) -> None:
    """The read of a claim from before the raise: nobody knows when it was raised."""
    rig.stream.put("a")
    rig.run("r1")
    found = rig.claim("r2")
    later(rig, 25)
    rig.stream.retention = timedelta(hours=168)
    rig.stream.put("b")
    rig.land("r2", found)
    pending = only(rig).pending
    assert pending is not None
    assert len(pending.gaps) == 1


def test_a_retention_that_was_lowered_and_raised_again_leaves_its_trace(rig: Rig) -> None:
    rig.stream.retention = timedelta(hours=168)
    rig.stream.put("a")
    rig.run("r1")
    rig.run("r2")
    later(rig, 1)
    rig.stream.put("lost")
    later(rig, 30)
    rig.stream.retention = timedelta(hours=24)
    later(rig, 0)
    rig.claim("r3")
    rig.over("r3")
    rig.stream.retention = timedelta(hours=168)
    later(rig, 1)
    rig.claim("r4")
    rig.over("r4")
    rig.stream.put("b")
    assert rig.run("r5", policies=RECORD).gaps == 1


def test_rows_go_by_the_longest_retention_that_a_claim_has_seen(rig: Rig) -> None:
    rig.options["options"] = ClaimOptions(drain_lineage=False)
    (parent,) = rig.stream.shards
    rig.stream.retention = timedelta(hours=168)
    rig.stream.put("a")
    rig.stream.split(parent)
    for number in range(3):
        rig.run(f"r{number}")
    for child in list(rig.stream.shards)[1:]:
        rig.stream.put("c", shard_id=child)
    rig.run("read")
    rig.stream.forget(parent)
    rig.stream.retention = timedelta(hours=24)
    later(rig, 72)
    rig.run("r4", policies=RECORD)
    assert parent in {lease.shard_id for lease in rig.consumer().leases()}
    later(rig, 168)
    rig.run("r5", policies=RECORD)
    assert parent not in {lease.shard_id for lease in rig.consumer().leases()}


def application(**changes: int | None) -> Application:
    return Application(Namespace("etl", "orders"), "arn", TRIM_HORIZON, 1, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kept", "now_ms", "bound"),
    [
        (kept_by(None), 1000, None),
        (kept_by(application()), 1000, None),
        (kept_by(application(retention_ms=100)), 1000, 900),
        (kept_today(application(retention_ms=100), 300), 1000, 900),
        (kept_today(application(retention_ms=300), 100), 1000, 900),
        (kept_today(application(), 100), 1000, 900),
        (kept_today(application(retention_ms=100), None), 1000, None),
        (kept_today(application(retention_ms=300, gone_before_ms=800), 300), 1000, 800),
        (kept_today(application(retention_ms=300, gone_before_ms=800), 300), 1200, 900),
    ],
)
def test_what_a_stream_has_for_sure(kept: Kept, now_ms: int, bound: int | None) -> None:
    assert kept.gone_before(now_ms) == bound
    apart = CLOCKS_APART_MS
    assert kept.all_since(now_ms, now_ms) is False  # younger than what clocks may differ
    assert kept.all_since((bound or 0) + apart + 1, now_ms) is (bound is not None)
    assert kept.all_since((bound or 0) + apart, now_ms) is False


def test_a_change_of_the_retention_leaves_what_may_be_gone() -> None:
    row = application().keeping(100, 1000)
    assert (row.retention_ms, row.gone_before_ms, row.longest_retention_ms) == (100, None, 100)
    row = row.keeping(100, 1500)
    assert row.gone_before_ms is None
    row = row.keeping(700, 2000)
    assert (row.retention_ms, row.gone_before_ms, row.longest_retention_ms) == (700, 1900, 700)
    row = row.keeping(300, 2100)
    assert (row.retention_ms, row.gone_before_ms, row.longest_retention_ms) == (300, 1900, 700)
    row = row.keeping(None, 2300)
    assert (row.retention_ms, row.gone_before_ms, row.longest_retention_ms) == (None, 2000, 700)
    assert application().keeping(None, 1).keeping(100, 1000).gone_before_ms is None


def test_what_may_be_gone_already_does_not_expire_later() -> None:
    kept = Kept(700, 1900)
    assert (kept.expires_ms(1899), kept.expires_ms(1900), Kept(None).expires_ms(5)) == (1899, 2600, None)


# a clock that was ahead once


def test_a_look_in_the_future_is_no_look() -> None:
    edge = 1000 + CLOCKS_APART_MS
    assert (looked(edge, 1000), looked(edge + 1, 1000), looked(None, 1000)) == (edge, None, None)


def ahead(rig: Rig, hours: float) -> None:
    """From now on the workers' clock is so much ahead of the stream's."""
    rig.time.ms += int(hours * HOUR)


def test_a_look_of_a_worker_whose_clock_was_ahead_hides_no_gap(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    ahead(rig, 72)
    rig.run("r2")
    ahead(rig, -72)
    (found,) = shards(rig.store, rig.namespace, clock=rig.time.clock())
    assert found.unread_since_ms == rig.stream.now_ms  # the record's arrival is all that is known
    later(rig, 1)
    rig.stream.put("lost")
    later(rig, 26)
    rig.stream.put("left")
    assert rig.run("r3", policies=RECORD).gaps == 1


def test_a_true_look_replaces_one_of_the_future(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    ahead(rig, 72)
    rig.run("r2")
    ahead(rig, -72)
    for number in range(3):
        later(rig, 12)
        assert rig.run(f"quiet{number}").gaps == 0
    later(rig, 12)
    rig.stream.put("b")
    assert rig.run("r3").gaps == 0


@pytest.mark.parametrize("start", [TRIM_HORIZON, LATEST])
def test_a_row_that_is_dated_in_the_future_hides_no_gap(rig: Rig, start) -> None:
    ahead(rig, 300)
    rig.claim("r1", start=start)
    rig.over("r1")
    ahead(rig, -300)
    rig.stream.put("lost")
    later(rig, 26)
    rig.stream.put("left")
    assert rig.run("r2", policies=RECORD).gaps == 1


def test_a_start_at_an_instant_needs_no_look_while_that_is_within_the_retention(rig: Rig) -> None:
    ahead(rig, 300)
    rig.claim("r1", start=LATEST)
    rig.over("r1")
    ahead(rig, -300)
    sent = rig.stream.put("a")
    later(rig, 5)
    assert rig.run("r2").gaps == 0
    assert rig.committed() == sent


def test_children_of_a_parent_that_was_seen_in_the_future_hide_no_gap(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    ahead(rig, 300)
    rig.run("r2")
    ahead(rig, -300)
    low, _ = rig.stream.split(parent)
    rig.stream.put("lost", shard_id=low)
    later(rig, 26)
    rig.stream.put("left", shard_id=low)
    answer = rig.run("r3", policies=RECORD)
    assert low in {entry["shard_id"] for entry in rig.manifest(answer.batch_id or "")["slices"] if entry["gaps"]}


def test_the_row_is_asked_for_once_a_task_and_only_for_old_shards(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.stream = ScriptedStream(shards=4)
    rig.options["options"] = ClaimOptions(read_tasks=1)
    for shard_id in rig.stream.shards:
        rig.stream.put("a", shard_id=shard_id)
    rig.run("r1")
    later(rig, 5)
    for shard_id in rig.stream.shards:
        rig.stream.trim(shard_id, keep=0)
    found = rig.claim("r2")
    asked: list[int] = []
    row = Consumer.application
    monkeypatch.setattr(Consumer, "application", lambda self: asked.append(1) or row(self))
    rig.land("r2", found)
    assert len(asked) == 1
