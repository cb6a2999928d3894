# SPDX-License-Identifier: Apache-2.0
"""Runs over a source that tells no lag, no key ranges, no children in its answers and knows no instants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shardbatch.control.reset import reset
from shardbatch.control.status import status
from shardbatch.core.expiry import tip_seen
from shardbatch.core.interval import Interval
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import LATEST, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.errors import ConfigurationError, Throttled
from shardbatch.run import claim, freeze, land
from tests.support.plain import PlainStream
from tests.support.rig import Rig
from tests.support.verbs import done

DAY = ReadLimits(duration=timedelta(days=1))


def rig_of(folder: Path, stream: PlainStream) -> Rig:
    """A rig whose monotonic time is the stream's answers, one a second: a read that does not stop takes 86,400."""
    rig = Rig(folder / "staging", stream)
    rig.options["clock"] = Clock(rig.time.now_ms, lambda: float(stream.pages), rig.time.sleep)
    rig.options["limits"] = DAY
    return rig


def only(rig: Rig) -> Lease:
    (row,) = rig.consumer().leases()
    return row


def beside(rig: Rig, span: Interval) -> tuple[Any, Any]:
    owner = replace(rig.owner("backfill"), mode="interval")
    return rig.consumer(scope=owner.scope, interval=span), owner


@pytest.mark.parametrize("beside_records", [False, True])
@pytest.mark.parametrize("arrival_times", [False, True])
def test_a_run_reads_to_the_tip_and_stops_there(tmp_path: Path, arrival_times: bool, beside_records: bool) -> None:
    stream = PlainStream(shards=2, arrival_times=arrival_times, tip_beside_records=beside_records)
    rig = rig_of(tmp_path, stream)
    sent = stream.put(*"abcdefgh")
    rig.run("r1")
    assert sorted(rig.committed(), key=int) == sent
    assert stream.pages <= 3 + 2 + 2  # each shard's records, and one look at its tip
    asked = stream.pages
    assert rig.run("idle").batch_id is None
    assert stream.pages - asked == 2
    sent += stream.put("i")
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sent


def test_a_run_stops_at_a_record_that_came_after_its_start(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    sent = stream.put(*"abcd")

    def write() -> None:
        stream.now_ms += 1000
        stream.put("later")

    stream.comes = write
    rig.run("r1")
    assert set(sent) <= set(rig.committed())
    assert stream.pages <= 3


def test_without_arrival_times_a_busy_shard_is_read_to_the_tip_that_its_records_show(tmp_path: Path) -> None:
    stream = PlainStream(page_size=4, arrival_times=False, tip_beside_records=True)
    rig = rig_of(tmp_path, stream)
    sent = stream.put(*"abcdefgh")
    stream.comes = lambda: stream.put("later")
    rig.run("r1")
    assert set(sent) <= set(rig.committed())
    assert stream.pages <= 5


def test_an_idle_run_knows_that_it_stood_at_the_tip(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    rig.run("before any record")
    row = only(rig)
    assert row.checkpoint == TRIM_HORIZON
    assert tip_seen(row, rig.time.ms) == row.caught_up_ms
    assert rig.time.ms - (row.caught_up_ms or 0) < 1000
    assert not any("nothing was read" in line for line in rig.said)
    assert status(rig.store, rig.namespace).millis_behind_latest == 0


def test_a_run_that_read_records_knows_that_it_stood_at_the_tip(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    stream.put("a")
    rig.run("r1")
    row = only(rig)
    assert row.caught_up_ms is not None
    assert row.millis_behind_latest == 0


def test_a_read_that_a_limit_cut_short_knows_of_no_lag_and_no_tip(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    sent = stream.put(*"abcdefgh")
    rig.run("r1", limits=ReadLimits(records=3))
    assert (only(rig).millis_behind_latest, only(rig).caught_up_ms) == (None, None)
    rig.run("r2")
    assert rig.committed() == sent


def test_what_expired_before_it_was_read_is_a_gap(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    stream.put("a")
    rig.run("r1")
    rig.time.ms += 25 * 3_600_000
    stream.now_ms = rig.time.ms
    stream.put("lost")
    rig.time.ms += 25 * 3_600_000
    stream.now_ms = rig.time.ms
    stream.trim(only(rig).shard_id, keep=0)
    (left,) = stream.put("b")
    rig.land("r2", rig.claim("r2"))
    pending = only(rig).pending
    assert pending is not None
    assert [gap.first_available for gap in pending.gaps] == [left]


class Forgetful(PlainStream):
    """A service that keeps so many records and not so much time, as a Redis stream of limited length; it may promise
    a time all the same."""

    def __init__(self, least: timedelta | None) -> None:
        super().__init__()
        self.capabilities = replace(self.capabilities, least_retention=least)

    def retention_ms(self) -> int | None:  # type: ignore[override]
        return None


def forgets(rig: Rig, minutes: int) -> str:
    """A record comes and goes within some minutes; the next one, which is left."""
    shard_id = only(rig).shard_id
    rig.stream.put("lost")
    rig.stream.trim(shard_id, keep=0)
    rig.time.ms += minutes * 60_000
    rig.stream.now_ms = rig.time.ms
    (left,) = rig.stream.put("left")
    return left


def gaps_of(rig: Rig, run: str) -> list[str | None]:
    rig.land(run, rig.claim(run))
    pending = only(rig).pending
    assert pending is not None
    return [gap.first_available for gap in pending.gaps]


@pytest.mark.parametrize(("least", "lost"), [(None, True), (timedelta(minutes=20), True), (timedelta(hours=1), False)])
@pytest.mark.parametrize("begun", [True, False])
def test_what_went_within_half_an_hour_is_a_gap_unless_the_source_promises_more(
    tmp_path: Path, least: timedelta | None, lost: bool, begun: bool
) -> None:
    rig = rig_of(tmp_path, Forgetful(least))
    if begun:
        rig.stream.put("a")
    rig.run("r1")  # it stood at the tip
    left = forgets(rig, 30)
    assert gaps_of(rig, "r2") == ([left] if lost else [])


def test_a_place_that_went_within_a_minute_is_a_gap(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, Forgetful(None))
    rig.stream.put("a")
    rig.run("r1")
    left = forgets(rig, 1)
    assert gaps_of(rig, "r2") == [left]


def test_a_shard_that_is_read_soon_after_its_row_was_made_begins_at_the_oldest_record_that_is_left(
    tmp_path: Path,
) -> None:
    rig = rig_of(tmp_path, Forgetful(None))
    sent = rig.stream.put("a")
    found = rig.claim("r1")
    rig.time.ms += 4 * 60_000
    rig.land("r1", found)
    pending = only(rig).pending
    assert pending is not None
    assert (pending.last, pending.gaps) == (sent[0], ())


def test_generations_are_read_in_order_although_no_answer_names_a_child(tmp_path: Path) -> None:
    stream = PlainStream(shards=2)
    rig = rig_of(tmp_path, stream)
    left, right = stream.shards
    sent = stream.put("a", shard_id=left) + stream.put("b", shard_id=right)
    merged = stream.merge(left, right)
    sent += stream.put("c", shard_id=merged)
    for child in stream.split(merged):
        sent += stream.put("d", shard_id=child)
    rig.run("r1")
    assert sorted(rig.committed(), key=int) == sent
    assert [number for number in rig.committed() if number in sent[:3]][-1] == sent[2]
    assert rig.run("r2").batch_id is None


# intervals


def test_an_interval_run_reads_its_records_and_ends(tmp_path: Path) -> None:
    stream = PlainStream(shards=2)
    rig = rig_of(tmp_path, stream)
    stream.put(*"abc")
    stream.now_ms += 600_000
    from_ms = stream.now_ms
    wanted = stream.put(*"defgh")
    first, second = stream.shards
    stream.merge(first, second)
    wanted += stream.put("i")
    stream.now_ms += 600_000
    to_ms = stream.now_ms
    stream.put(*"jk")
    rig.time.ms = stream.now_ms + 600_000
    consumer, owner = beside(rig, Interval(from_ms, to_ms))
    found = claim(consumer, owner)
    for group in found.groups:
        land(consumer, owner, group.group, rig.time.ms)
    frozen = freeze(consumer, owner)
    assert sorted(rig.records(frozen.batch_id or ""), key=int) == wanted
    assert stream.pages < 20


def test_an_interval_run_ends_at_the_tip(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    from_ms = stream.now_ms
    wanted = stream.put(*"abc")
    rig.time.ms = stream.now_ms + 600_000
    consumer, owner = beside(rig, Interval(from_ms, from_ms + 1000))
    for group in claim(consumer, owner).groups:
        land(consumer, owner, group.group, rig.time.ms)
    frozen = freeze(consumer, owner)
    assert rig.records(frozen.batch_id or "") == wanted
    assert stream.pages == 2


def test_an_interval_of_records_that_do_not_say_when_they_came_is_refused(tmp_path: Path) -> None:
    stream = PlainStream(arrival_times=False)
    rig = rig_of(tmp_path, stream)
    rig.time.ms += 600_000
    consumer, owner = beside(rig, Interval(1, 2))
    with pytest.raises(ConfigurationError, match="do not say when they arrived"):
        claim(consumer, owner)
    assert consumer.leases() == []


# starts


def test_a_start_at_an_instant_is_refused(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, PlainStream())
    with pytest.raises(ConfigurationError, match="cannot be read from an instant"):
        rig.claim("r1", start=at_timestamp(1))
    assert rig.consumer().application() is None


def test_a_claim_refuses_shards_that_were_reset_to_an_instant_and_the_reset_that_it_names_helps(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, PlainStream(shards=2))
    sent = rig.stream.put(*"abcd")
    rig.run("r1")
    done(reset, rig, every=True, to=at_timestamp(rig.stream.now_ms))
    before = rig.consumer().leases()
    with pytest.raises(ConfigurationError, match="cannot be read") as told:
        rig.claim("r2")
    assert not told.value.retryable
    assert all(shard_id in str(told.value) for shard_id in rig.stream.shards)
    assert "TRIM_HORIZON" in told.value.remedy
    assert rig.consumer().leases() == before
    done(reset, rig, every=True, to=TRIM_HORIZON)
    rig.run("r3")
    assert sorted(rig.committed(), key=int) == sorted([*sent, *sent], key=int)


def test_a_claim_refuses_an_application_that_begins_anew_at_an_instant(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, PlainStream())
    sent = rig.stream.put("a")
    rig.run("r1")
    rig.stream.created_ms = 2
    done(reset, rig, every=True, to=at_timestamp(rig.stream.now_ms), stream_id=rig.stream.identity())
    with pytest.raises(ConfigurationError, match="cannot be read from an instant") as told:
        rig.claim("r2")
    assert f"--all --to TRIM_HORIZON --stream-id {rig.stream.identity()}" in told.value.remedy
    done(reset, rig, every=True, to=TRIM_HORIZON, stream_id=rig.stream.identity())
    rig.run("r3")
    assert rig.committed() == [*sent, *sent]


def test_latest_is_the_tip_that_each_shard_had_at_the_first_claim(tmp_path: Path) -> None:
    stream = PlainStream(shards=3)
    rig = rig_of(tmp_path, stream)
    closed, busy, quiet = stream.shards
    stream.put("old", shard_id=closed)
    stream.put("old", shard_id=busy)
    low, high = stream.split(closed)
    stream.put("old", shard_id=low)
    rig.run("r1", start=LATEST)
    assert rig.committed() == []
    sent = [stream.put("new", shard_id=shard_id)[0] for shard_id in (busy, quiet, low, high)]
    rig.run("r2", start=LATEST)
    assert sorted(rig.committed(), key=int) == sent
    for child in stream.split(busy):
        sent += stream.put("newer", shard_id=child)
    rig.run("r3", start=LATEST)
    assert sorted(rig.committed(), key=int) == sent


def test_the_tips_of_the_first_claim_stand_although_it_died_before_it_made_rows(tmp_path: Path) -> None:
    stream = PlainStream(shards=2)
    rig = rig_of(tmp_path, stream)
    stream.put("old", "old too")

    def dies(rows: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.store, "create_many", dies)
        with pytest.raises(KeyboardInterrupt):
            rig.claim("r1", start=LATEST)
    rig.over("r1")
    application = rig.consumer().application()
    assert application is not None
    assert application.start_position == LATEST
    assert len(application.start_places) == 2
    sent = stream.put("a", "b", "c")
    rig.run("r2", start=LATEST)
    assert sorted(rig.committed(), key=int) == sent


def test_a_shard_that_comes_after_the_first_claim_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Of a service without lineage: nothing says where it comes from."""
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    (first,) = stream.shards
    rig.run("r1", start=LATEST)
    fresh = stream._add(stream.shards[first].hash_range, ())
    sent = stream.put("a", shard_id=fresh.shard_id)
    rig.run("r2", start=LATEST)
    assert rig.committed() == sent


# answers that say nothing


class Sparse(PlainStream):
    """A scan: so many empty answers, a minute each, before the first record; or none that is an answer at all."""

    empty = 30
    silent = False

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            for _ in range(self.empty if page.records.num_rows or self.silent else 0):
                self.pages += 60
                nothing: pa.RecordBatch = self._batch([])
                yield Page(nothing, position, silent=self.silent)
            yield page


def test_empty_answers_that_say_nothing_of_a_lag_are_followed_in_one_read(tmp_path: Path) -> None:
    stream = Sparse()
    rig = rig_of(tmp_path, stream)
    sent = stream.put("a")
    rig.run("r1")
    assert rig.committed() == sent
    assert [shard for shard, _ in stream.reads] == list(stream.shards)


def test_a_shard_that_gave_no_answer_is_told_in_the_words_of_its_stream(tmp_path: Path) -> None:
    stream = Sparse()
    stream.silent, stream.empty = True, 10**6
    rig = rig_of(tmp_path, stream)
    found = rig.claim("r1")
    with pytest.raises(Throttled, match="No answer came") as told:
        rig.land("r1", found)
    assert "The script refuses calls: change the script, or give a run more time" in str(told.value)
    assert "5 calls" not in str(told.value)


def test_a_checkpoint_of_one_shard_is_no_place_in_its_child(tmp_path: Path) -> None:
    stream = PlainStream()
    rig = rig_of(tmp_path, stream)
    (parent,) = stream.shards
    stream.put("old", shard_id=parent)
    rig.claim("r1", start=LATEST)
    rig.over("r1")
    (row,) = rig.consumer().leases()
    assert row.checkpoint == after("100")
    assert rig.store.delete(row)
    low, _ = stream.split(parent)
    rig.claim("r2", start=LATEST)
    child = rig.consumer().lease(low)
    assert child is not None
    assert child.checkpoint == TRIM_HORIZON
