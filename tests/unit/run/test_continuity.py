# SPDX-License-Identifier: Apache-2.0
"""A read that stands still between two answers: what expires meanwhile is a gap, and nothing proves the tip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import after
from shardbatch.core.slice import Gap, Slice, Trimmed
from shardbatch.landing.writer import ParquetSliceWriter
from shardbatch.run import land
from tests.support.passing import HOUR, later, only, pending
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream, of_lag

RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def between(rig: Rig, number: int, happens: Callable[[], object], *, answered: bool = False) -> None:
    """Something happens before the answer of this number (0: the first) is made, or when it is and has not arrived."""
    read, count = rig.stream.read, iter(range(1_000_000))

    def standing(shard_id: str, position) -> Iterator[Page]:
        pages = read(shard_id, position)
        while True:
            due = next(count) == number
            if due and not answered:
                happens()
            page = next(pages, None)
            if due and answered:
                happens()
            if page is None:
                return
            yield page

    rig.stream.read = standing  # type: ignore[method-assign]


@pytest.mark.parametrize("answered", [False, True])
def test_what_expires_while_a_read_stands_still_is_a_gap(rig: Rig, *, answered: bool) -> None:
    """The breaker's seed 1563697673: a machine sleeps for a day between two answers."""
    rig.stream.page_size = 2
    sent = rig.stream.put("a", "b")
    arrived = rig.stream.now_ms

    def sleep() -> None:
        later(rig, 1)
        rig.stream.put("lost")
        later(rig, 25)

    between(rig, 1, sleep, answered=answered)
    rig.land("r1", rig.claim("r1"), policies=RECORD)
    landed = pending(rig)
    assert landed.gaps == (Gap(landed.until, None, arrived, None, "records expired before they were read"),)
    assert str(landed.until) == sent[-1]
    assert landed.caught_up_ms is not None
    assert landed.caught_up_ms >= arrived + 26 * HOUR  # the answer after that one did see the tip
    rig.over("r1")
    (left,) = rig.stream.put("left")
    assert rig.run("r2", policies=RECORD).gaps == 1
    assert rig.committed() == sent
    rig.run("r3", policies=RECORD)
    assert rig.committed() == [*sent, left]


def test_a_gap_in_the_middle_of_a_slice_says_from_where_to_where(rig: Rig) -> None:
    rig.stream.page_size = 2
    sent = rig.stream.put("a", "b")
    arrived = rig.stream.now_ms

    def sleep() -> None:
        rig.stream.put("lost")
        later(rig, 25)
        sent.extend(rig.stream.put("c"))

    between(rig, 1, sleep)
    rig.land("r1", rig.claim("r1"), policies=RECORD)
    (gap,) = pending(rig).gaps
    assert (str(gap.after), gap.first_available) == (sent[1], sent[2])
    assert (gap.from_ms, gap.to_ms) == (arrived, rig.stream.now_ms)


def test_two_gaps_of_one_slice_are_both_kept_and_counted(rig: Rig) -> None:
    rig.stream.page_size = 2
    sent = rig.stream.put("a", "b")

    def sleep() -> None:
        rig.stream.put("lost")
        later(rig, 25)
        sent.extend(rig.stream.put("c", "d", "e"))

    between(rig, 1, sleep)
    between(rig, 3, sleep)
    (group,) = rig.claim("r1").groups
    consumer = rig.consumer(limits=ReadLimits(duration=timedelta(hours=100)))
    answer = land(consumer, rig.owner("r1"), group.group, rig.stream.now_ms + 100 * HOUR)
    gaps = pending(rig).gaps
    assert [(str(gap.after), gap.first_available) for gap in gaps] == [(sent[1], sent[2]), (sent[3], sent[5])]
    assert gaps[0].to_ms == gaps[1].from_ms
    assert answer.gaps == 2
    assert rig.freeze("r1").batch_id is None  # they wait
    frozen = rig.freeze("r1", policies=RECORD)
    assert frozen.gaps == 2
    assert len(rig.manifest(frozen.batch_id or "")["slices"][0]["gaps"]) == 2


def test_a_slice_that_the_version_before_stored_has_its_gap_still(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    old = pending(rig).to_json()
    del old["gaps"]
    gap = Gap(only(rig).checkpoint, "100", reason="records expired before they were read")
    assert Slice.from_json(old).gaps == ()
    old["gap"] = {name: value for name, value in gap.to_json().items() if name != "until"}
    assert Slice.from_json(old).gaps == (gap,)
    assert replace(pending(rig), gaps=(gap,)).to_json()["gap"] == gap.to_json()


def test_a_shard_that_vanishes_half_read_has_a_gap_behind_what_was_delivered(rig: Rig) -> None:
    rig.stream.page_size = 2
    sent = rig.stream.put("a", "b", "c", "d")
    (shard,) = rig.stream.shards
    rig.stream.split(shard)
    between(rig, 1, lambda: rig.stream.forget(shard))
    rig.options["options"] = ClaimOptions(drain_lineage=False)
    rig.land("r1", rig.claim("r1"))
    landed = next(lease.pending for lease in rig.consumer().leases() if lease.pending is not None)
    (gap,) = landed.gaps
    assert (str(gap.after), gap.first_available) == (sent[1], None)
    assert (gap.from_ms, gap.to_ms) == (rig.stream.now_ms, None)
    assert "left the stream" in gap.reason


def test_the_times_of_a_gap_do_not_run_backwards(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    later(rig, 25)
    rig.stream.put("b")
    rig.stream.shards[shard].items[-1].arrival_ms -= 26 * HOUR
    rig.land("r2", rig.claim("r2"))
    (gap,) = pending(rig).gaps
    assert gap.to_ms == gap.from_ms


def test_what_expires_while_the_first_answer_is_under_way_is_a_gap(rig: Rig) -> None:
    """It was made before the machine slept, so it proves nothing of what followed until it arrived."""
    rig.stream.page_size = 1
    sent = rig.stream.put("a")
    rig.stream.put("lost")

    def sleep() -> None:
        later(rig, 25)
        sent.extend(rig.stream.put("b"))

    between(rig, 0, sleep, answered=True)
    rig.land("r1", rig.claim("r1"), limits=ReadLimits(duration=timedelta(hours=100)))
    # Of what was before the first nobody can be sure either: it may have been made at any time.
    assert (str(pending(rig).gaps[-1].after), pending(rig).gaps[-1].first_available) == (sent[0], sent[1])


@pytest.mark.parametrize("hours", [0.05, 0.5, 5])
def test_a_standstill_within_the_retention_costs_nothing(rig: Rig, hours: float) -> None:
    rig.stream.page_size = 1
    sent = rig.stream.put("a", "b")
    between(rig, 1, lambda: later(rig, hours))
    assert rig.run("r1").gaps == 0
    assert rig.committed() == sent
    assert len(rig.stream.reads) == (1 if hours < 0.08 else 2)  # after five minutes it is asked for anew in any case


def test_what_expires_between_two_answers_at_the_end_of_the_retention_is_a_gap(rig: Rig) -> None:
    """A shard that waits for its turn while its oldest records expire: minutes are enough then."""
    rig.stream.page_size = 1
    sent = rig.stream.put("a")
    rig.time.ms += 60_000
    rig.stream.now_ms = rig.time.ms
    rig.stream.put("lost")
    rig.time.ms += 23 * HOUR + 58 * 60_000
    rig.stream.now_ms = rig.time.ms
    sent += rig.stream.put("b")
    between(rig, 1, lambda: later(rig, 0.06))
    assert rig.run("r1", policies=RECORD).gaps == 1
    assert rig.committed() == sent


def lands_slowly(rig: Rig, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """So much time passes, and records expire, while each page is landed."""
    write = ParquetSliceWriter.write

    def slow(writer: ParquetSliceWriter, page: pa.RecordBatch) -> None:
        write(writer, page)
        later(rig, seconds / 3600)

    monkeypatch.setattr(ParquetSliceWriter, "write", slow)


def test_what_expires_while_the_pieces_of_one_answer_are_landed_is_a_gap(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pieces are of one question, however often the reader looks up between them."""
    rig.stream.page_size, rig.stream.answer_pages = 1, 30
    sent = rig.stream.pack(*["k"] * 30)
    later(rig, 1 / 60)
    rig.stream.put("lost")
    later(rig, 1)
    sent += rig.stream.put("left")
    later(rig, 22.8)
    lands_slowly(rig, monkeypatch, 50)
    assert rig.run("r1", policies=RECORD, limits=ReadLimits(duration=timedelta(hours=2))).gaps == 1
    assert rig.committed() == sent
    assert len(rig.stream.reads) == 2  # no piece is asked for again, the answer behind them is


def test_pieces_of_an_answer_make_no_look_younger(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer behind them says that the tip is reached; it may have been made soon after the first."""
    rig.stream.page_size, rig.stream.answer_pages = 1, 4
    rig.stream.put("a", "b", "c", "d")
    asked = rig.time.ms
    lands_slowly(rig, monkeypatch, 50)
    rig.run("r1")
    looked = only(rig).caught_up_ms
    assert looked is not None
    assert looked < asked + 1000


def test_what_expires_of_an_old_backlog_while_its_first_read_stands_still_is_a_gap(rig: Rig) -> None:
    """The row is as young as the read, its records are not."""
    rig.stream.page_size = 1
    sent = rig.stream.put("a")
    rig.stream.put("lost")
    rig.time.ms += 23 * HOUR
    rig.stream.now_ms = rig.time.ms
    sent += rig.stream.put("b")
    between(rig, 1, lambda: later(rig, 2))
    assert rig.run("r1", policies=RECORD).gaps == 1
    assert rig.committed() == sent


def test_a_stretch_without_records_is_not_begun_anew_at_every_turn(rig: Rig) -> None:
    """After an outage the place is old, so nobody is sure of it; the first record that comes shows what expired."""
    rig.stream.put("a")
    rig.run("r1")
    later(rig, 30)
    (left,) = rig.stream.put("b")
    read = rig.stream.read

    def sparse(shard_id: str, position) -> Iterator[Page]:
        pages = read(shard_id, position)
        page = next(pages)
        for at in range(100):
            rig.time.ms += 120_000
            empty = replace(page, records=page.records.slice(0, 0), next=position, checkpoint_gone=False)
            yield of_lag(empty, 108_000_000 - at * 1_000_000)
        yield page
        yield from pages

    rig.stream.read = sparse  # type: ignore[method-assign]
    rig.land("r2", rig.claim("r2"), limits=ReadLimits(duration=timedelta(hours=10)))
    assert [gap.first_available for gap in pending(rig).gaps] == [left]
    assert [shard for shard, _ in rig.stream.reads].count(only(rig).shard_id) == 2  # of r1, and of r2


def test_a_look_that_waited_for_hours_before_it_was_counted_is_as_old_as_the_question(rig: Rig) -> None:
    """The only answer saw the tip; the machine slept before that was noted, and what came meanwhile expires later."""
    rig.stream.put("a")
    rig.run("r1")
    asked = rig.time.ms

    def sleep() -> None:
        rig.stream.put("lost")
        later(rig, 23)

    between(rig, 0, sleep, answered=True)
    rig.run("r2")
    looked = only(rig).caught_up_ms
    assert looked is not None
    assert looked < asked + 1000
    later(rig, 2)
    assert rig.run("r3", policies=RECORD).gaps == 1


@pytest.mark.parametrize("wall", [True, False])
def test_either_clock_tells_a_standstill(rig: Rig, *, wall: bool) -> None:
    """The monotonic clock stands still while a machine sleeps; the other may be set back."""
    slept = [0.0]
    rig.options["clock"] = Clock(
        now_ms=lambda: rig.time.now_ms() - (0 if wall else int(slept[0] * HOUR)),
        monotonic=lambda: rig.time.ms / 1000 - (slept[0] * 3600 if wall else 0),
        sleep=rig.time.sleep,
    )
    rig.stream.page_size = 1
    rig.stream.put("a")

    def sleep() -> None:
        rig.stream.put("lost")
        later(rig, 25)
        slept[0] = 25

    between(rig, 1, sleep)
    rig.land("r1", rig.claim("r1"), policies=RECORD)
    assert len(pending(rig).gaps) == 1


def test_a_shard_that_waits_long_for_its_turn_is_compared(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2, page_size=1)
    first, second = rig.stream.shards
    rig.stream.put("a", shard_id=first)
    rig.stream.put("b", "c", shard_id=second)
    read, lost = rig.stream.read, []

    def slow(shard_id: str, position) -> Iterator[Page]:
        for page in read(shard_id, position):
            if shard_id == first and not lost and page.records.num_rows == 0:
                lost.extend(rig.stream.put("lost", shard_id=second))
                later(rig, 25)
            yield page

    rig.stream.read = slow  # type: ignore[method-assign]
    rig.options["options"] = ClaimOptions(read_tasks=1)
    rig.land("r1", rig.claim("r1"), limits=ReadLimits(concurrency=1), policies=RECORD)
    rows = {lease.shard_id: lease for lease in rig.consumer().leases()}
    gone = {name for name, row in rows.items() if row.pending is not None and row.pending.gaps}
    assert lost
    assert second in gone or rows[second].pending is None


def test_an_interval_that_the_retention_passes_while_it_waits_has_a_gap(rig: Rig) -> None:
    began = rig.stream.now_ms
    rig.stream.put("a", "b")
    later(rig, 23)
    rig.stream.put("c")
    beside = {"scope": "s", "interval": Interval(began, began + 20 * HOUR)}
    found = rig.claim("r1", **beside)
    later(rig, 2)
    rig.land("r1", found, **beside)
    (lease,) = rig.consumer(scope="s").leases()
    assert lease.pending is not None
    (gap,) = lease.pending.gaps
    assert gap.from_ms == began


def test_an_interval_of_which_an_older_record_is_left_has_no_gap(rig: Rig) -> None:
    rig.stream.put("older")
    later(rig, 0.01)
    began = rig.stream.now_ms
    rig.stream.put("a")
    rig.time.ms += int(23.95 * HOUR)
    rig.stream.now_ms = rig.time.ms
    beside = {"scope": "s", "interval": Interval(began, began + HOUR)}
    rig.land("r1", rig.claim("r1", **beside), **beside)
    (lease,) = rig.consumer(scope="s").leases()
    assert lease.pending is not None
    assert (lease.pending.gaps, lease.pending.records) == ((), 1)


# the service's own word


def tells(rig: Rig, trimmed: Trimmed) -> None:
    """A page that shows that its place is gone says that the service said so."""
    read = rig.stream.read

    def telling(shard_id: str, position) -> Iterator[Page]:
        for page in read(shard_id, position):
            yield replace(page, trimmed=trimmed) if page.checkpoint_gone else page

    rig.stream.read = telling  # type: ignore[method-assign]


def only_shard(rig: Rig) -> str:
    (shard_id,) = rig.stream.shards
    return shard_id


@pytest.mark.parametrize("records", [None, 2])
def test_the_word_of_the_service_that_unread_records_are_gone_stands_against_a_young_look(
    rig: Rig, records: int | None
) -> None:
    tells(rig, Trimmed(unread=True, records=records))
    sent = rig.stream.put("a")
    rig.run("r1")
    later(rig, 23)
    rig.run("idle")
    rig.stream.put("lost")
    rig.stream.trim(only_shard(rig), 0)
    later(rig, 0.5)
    sent += rig.stream.put("c")
    rig.land("r2", rig.claim("r2"))
    (gap,) = pending(rig).gaps
    assert (str(gap.after), gap.first_available, gap.records) == (sent[0], sent[1], records)
    assert "the service says" in gap.reason
    assert rig.freeze("r2").batch_id is None  # it waits
    rig.over("r2")
    assert rig.run("r3", policies=RECORD).gaps == 1
    assert rig.committed() == sent


@pytest.mark.parametrize("says", [True, False])
def test_a_place_that_went_before_its_time_is_a_gap_if_the_service_says_so(rig: Rig, says: bool) -> None:
    if says:
        tells(rig, Trimmed())
    sent = rig.stream.put("a")
    rig.run("r1")
    rig.stream.put("lost")
    rig.stream.trim(only_shard(rig), 0)
    later(rig, 0.5)
    sent += rig.stream.put("c")
    assert rig.run("r2", policies=RECORD).gaps == says  # a mere conclusion stands behind the look of half an hour ago
    assert rig.committed() == sent


def test_a_place_that_went_in_time_is_no_gap_though_the_service_says_so(rig: Rig) -> None:
    """Nothing came for a day but looks: an idle shard is none that waits for a person each day."""
    tells(rig, Trimmed())
    sent = rig.stream.put("a")
    rig.run("r1")
    for hour in range(26):
        later(rig, 1)
        assert rig.run(f"idle{hour}").batch_id is None
    sent += rig.stream.put("b")
    assert rig.run("r2").gaps == 0
    assert rig.committed() == sent


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_trimmed_on_the_way_to_an_instant_is_lost_only_if_it_may_be_wanted(rig: Rig, kept: bool) -> None:
    instant = rig.stream.now_ms - (1 if kept else 26) * HOUR
    rig.run("r0")
    row = only(rig)
    place = after("50", 0, instant)
    assert rig.store.replace(row, replace(row, checkpoint=place, caught_up_ms=None, lease_count=row.lease_count + 1))
    read = rig.stream.read

    def telling(shard_id: str, position) -> Iterator[Page]:
        said = {"checkpoint_gone": True, "trimmed": Trimmed(unread=True)}
        yield from (replace(page, **(said if at == 0 else {})) for at, page in enumerate(read(shard_id, position)))

    rig.stream.read = telling  # type: ignore[method-assign]
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    assert len(pending(rig).gaps) == (0 if kept else 1)
