# SPDX-License-Identifier: Apache-2.0
"""A read that an error cuts short keeps what it has; whatever it was, it is one shard's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbatch.core.idle import BELIEVED, STILL_SECONDS
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.core.lease import Lease, extend
from shardbatch.core.limits import ReadLimits
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies, ShardErrors
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position
from shardbatch.core.slice import LandedFile, Slice
from shardbatch.core.start import Work
from shardbatch.errors import GapFound, ProtocolError, SourceError
from shardbatch.run import Consumer, claim, commit, freeze, land
from shardbatch.run.hold import Held
from shardbatch.run.shard_read import _unnamed
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream, of_lag

ONE_TASK = ClaimOptions(read_tasks=1)
FAIL = Policies(shard_errors=ShardErrors.FAIL)


class Cut(ScriptedStream):
    """A shard's reads end with an error after so many pages: the first number is its first read's, and so on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(page_size=1, **options)
        self.cuts: dict[str, list[int]] = {}
        self.error: BaseException = SourceError("the credentials have expired")
        self.seconds = 0

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        cuts = self.cuts.get(shard_id, [])
        left = cuts.pop(0) if cuts else -1
        for page in super().read(shard_id, position):
            if left == 0:
                raise self.error
            left -= 1
            self.seconds += 1
            yield page


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path / "staging", Cut(shards=2))
    stream = cut_of(rig)
    rig.options["options"] = ONE_TASK
    rig.options["limits"] = ReadLimits(concurrency=1)
    rig.options["clock"] = Clock(rig.time.now_ms, lambda: float(stream.seconds), rig.time.sleep)
    return rig


def cut_of(rig: Rig) -> Cut:
    assert isinstance(rig.stream, Cut)
    return rig.stream


def finish(rig: Rig, run: str) -> list[str]:
    frozen = rig.freeze(run)
    rig.work(frozen)
    rig.commit(run, frozen)
    rig.over(run)
    return rig.records(frozen.batch_id or "")


# ------------------------------------------------------------------ live


def test_what_was_read_before_an_error_is_landed_and_the_shard_is_named(rig: Rig) -> None:
    first, second = rig.stream.shards
    sent = rig.stream.put(*"abcd", shard_id=first)
    other = rig.stream.put("e", shard_id=second)
    cut_of(rig).cuts[first] = [2]
    (landed,) = rig.land("r1", rig.claim("r1"))
    assert (landed.shards, landed.records) == (2, 3)
    assert landed.errors == {first: str(SourceError("the credentials have expired"))}
    assert sorted(finish(rig, "r1"), key=int) == sent[:2] + other
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sent + other


def test_an_error_before_anything_was_read_leaves_nothing(rig: Rig) -> None:
    first, _ = rig.stream.shards
    sent = rig.stream.put("a", shard_id=first)
    cut_of(rig).cuts[first] = [0]
    rig.land("r1", rig.claim("r1"))
    row = rig.consumer().lease(first)
    assert row is not None
    assert row.pending is None
    rig.over("r1")
    rig.run("r2")
    assert rig.committed() == sent


def test_under_fail_all_land_what_they_have_before_the_error_is_raised(rig: Rig) -> None:
    first, second = rig.stream.shards
    rig.stream.put(*"abcd", shard_id=first)
    rig.stream.put(*"efgh", shard_id=second)
    cut_of(rig).cuts[first] = [2]
    found = rig.claim("r1")
    limits = ReadLimits(duration=timedelta(seconds=4), concurrency=1)  # they take turns
    with pytest.raises(SourceError, match="credentials"):
        rig.land("r1", found, policies=FAIL, limits=limits)
    held = {row.shard_id: row.pending.records for row in rig.consumer().leases() if row.pending}
    assert held[first] == 2
    (landed,) = rig.land("r1", found, policies=FAIL)  # a retry
    assert not landed.errors
    finish(rig, "r1")
    rig.run("r2")
    assert len(rig.committed()) == len(set(rig.committed())) == 8


def test_credentials_that_live_shorter_than_a_read_still_let_it_get_on(rig: Rig) -> None:
    first, second = rig.stream.shards
    sent = rig.stream.put(*"abcdefghijkl", shard_id=first) + rig.stream.put(*"mnopqrs", shard_id=second)
    cut_of(rig).cuts = {first: [3] * 4, second: [3] * 4}
    for number in range(5):
        rig.run(f"r{number}")
    assert sorted(rig.committed(), key=int) == sent
    assert len(rig.committed()) == len(set(rig.committed()))


@pytest.mark.parametrize("error", [TypeError("no arrival time"), MemoryError("an aggregate"), RuntimeError("a fault")])
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("pages", [0, 1])
def test_any_error_of_one_shard_is_that_shards(rig: Rig, error: Exception, concurrency: int, pages: int) -> None:
    first, second = rig.stream.shards
    rig.stream.put("a", "b", shard_id=first)
    sent = rig.stream.put("c", "d", shard_id=second)
    stream = cut_of(rig)
    stream.cuts[first], stream.error = [pages], error
    (landed,) = rig.land("r1", rig.claim("r1"), limits=ReadLimits(concurrency=concurrency))
    assert landed.errors == {first: f"{type(error).__name__}: {error}"}
    assert set(sent) <= set(finish(rig, "r1"))
    assert any("Traceback" in line and "in read" in line for line in rig.said)


@pytest.mark.parametrize("error", [ProtocolError("a row says otherwise"), KeyboardInterrupt()])
def test_what_says_that_this_code_is_wrong_or_ends_the_task_is_no_shards_error(rig: Rig, error: BaseException) -> None:
    first, second = rig.stream.shards

    class Broken(MemoryStore):
        def replace(self, seen: Any, new: Any) -> bool:
            if isinstance(new, Lease) and new.pending is not None and new.shard_id == first:
                raise error
            return super().replace(seen, new)

    rig.store = Broken()
    rig.stream.put("a", shard_id=first)
    rig.stream.put("b", shard_id=second)
    with pytest.raises(type(error)):
        rig.land("r1", rig.claim("r1"))


def test_a_page_that_cannot_be_counted_is_not_passed_over(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = rig.stream.shards
    sent = rig.stream.put(*"abc", shard_id=first)

    read = rig.stream.read

    def poisoned(shard_id: str, position: Position) -> Iterator[Page]:
        for at, page in enumerate(read(shard_id, position)):
            if at == 1 and shard_id == first:
                page = replace(page, records=page.records.drop_columns(["arrival_time"]))
            yield page

    monkeypatch.setattr(rig.stream, "read", poisoned)
    (landed,) = rig.land("r1", rig.claim("r1"))
    assert "arrival_time" in landed.errors[first]
    monkeypatch.undo()
    rig.over("r1")
    rig.run("r2")
    rig.run("r3")
    assert rig.committed() == sent


def test_children_that_cannot_be_listed_are_left_to_the_next_run_and_the_others_are_read(rig: Rig) -> None:
    first, second = rig.stream.shards
    found = rig.claim("r1")
    sent = rig.stream.put("a", shard_id=first)
    low, _ = rig.stream.split(first)
    sent += rig.stream.put("b", shard_id=low) + rig.stream.put("c", shard_id=second)
    rig.stream.names_children = False
    with pytest.MonkeyPatch.context() as patch:

        def refused() -> Any:
            raise SourceError("ListShards is refused")

        patch.setattr(rig.stream, "list_shards", refused)
        (landed,) = rig.land("r1", found)
    assert (landed.errors, landed.shards) == ({}, 2)
    assert any("left to the next run" in line for line in rig.said)
    finish(rig, "r1")
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sent


def test_a_task_that_airflow_ends_sooner_than_its_limits_lands_what_it_has(rig: Rig) -> None:
    """As with an execution_timeout that is shorter than the duration."""
    first, second = rig.stream.shards
    rig.stream.put(*"x" * 50, shard_id=first)
    rig.stream.put(*"y" * 50, shard_id=second)
    for number in range(8):
        run = f"r{number}"
        for group in rig.claim(run).groups:
            before = cut_of(rig).seconds
            land(rig.consumer(), rig.owner(run), group.group, rig.stream.now_ms + 1, seconds=20)
            assert cut_of(rig).seconds - before <= 22
        finish(rig, run)
        if len(rig.committed()) == 100:
            break
    assert len(set(rig.committed())) == len(rig.committed()) == 100


# ------------------------------------------------------------------ intervals


def beside(rig: Rig, **changes: Any) -> tuple[Consumer, Owner]:
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1000)
    rig.time.ms = max(rig.time.ms, span.to_ms + MARGIN_MS)
    return rig.consumer(scope=owner.scope, interval=span, **changes), owner


def backfill(rig: Rig, consumer: Consumer, owner: Owner, tries: int) -> list[str]:
    """The run whose read is tried so often; its records, in the order of its files."""
    found = claim(consumer, owner)
    for number in range(tries):
        try:
            for group in found.groups:
                land(consumer, owner, group.group, rig.stream.now_ms)
            break
        except SourceError:
            assert number + 1 < tries
    frozen = freeze(consumer, owner)
    rig.work(frozen)
    commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")])
    return rig.records(frozen.batch_id or "")


def test_a_retry_of_an_interval_reads_on_where_the_read_was_cut(rig: Rig) -> None:
    first, second = rig.stream.shards
    sent = rig.stream.put(*"abcdef", shard_id=first)
    other = rig.stream.put("x", "y", shard_id=second)
    cut_of(rig).cuts[first] = [2, 2]
    found = backfill(rig, *beside(rig), tries=3)
    assert [number for number in found if number in sent] == sent  # the old files first
    assert sorted(found, key=int) == sorted(sent + other, key=int)
    places = [place for shard, place in rig.stream.reads if shard == first]
    assert places[1:] == [sent[1], sent[3]]
    assert len([shard for shard, _ in rig.stream.reads if shard == second]) == 1  # read whole, beside the error


def test_a_read_that_a_person_marks_as_a_success_does_not_make_half_an_interval_a_batch(rig: Rig) -> None:
    first, _ = rig.stream.shards
    rig.stream.put(*"abcdef", shard_id=first)
    cut_of(rig).cuts[first] = [2]
    consumer, owner = beside(rig)
    (group,) = claim(consumer, owner).groups
    with pytest.raises(SourceError):
        land(consumer, owner, group.group, rig.stream.now_ms)
    with pytest.raises(SourceError, match="not read, or not to its end"):
        freeze(consumer, owner)


def test_records_that_expire_before_an_interval_is_read_on_are_a_gap(rig: Rig) -> None:
    first, _ = rig.stream.shards
    rig.stream.put(*"abcdef", shard_id=first)
    cut_of(rig).cuts[first] = [2]
    consumer, owner = beside(rig)
    (group,) = claim(consumer, owner).groups
    with pytest.raises(SourceError):
        land(consumer, owner, group.group, rig.stream.now_ms)
    rig.time.ms += int(rig.stream.retention.total_seconds() * 1000) + 3_600_000
    rig.stream.trim(first, keep=2)
    land(consumer, owner, group.group, rig.stream.now_ms)
    with pytest.raises(GapFound):
        freeze(consumer, owner)
    recorded = replace(consumer, policies=Policies(gap=GapPolicy.RECORD))
    assert freeze(recorded, owner).record_count == 4


def test_an_interval_that_the_task_has_no_time_for_lands_what_it_has_of_every_shard(rig: Rig) -> None:
    first, second = rig.stream.shards
    sent = rig.stream.put(*"abcdefgh", shard_id=first) + rig.stream.put(*"ijklmnop", shard_id=second)
    consumer, owner = beside(rig, limits=ReadLimits(concurrency=1))
    (group,) = claim(consumer, owner).groups
    told: list[SourceError] = []
    for _ in range(8):
        try:
            land(consumer, owner, group.group, rig.stream.now_ms, seconds=5.0)
            break
        except SourceError as error:
            told.append(error)
        assert all(row.pending is not None for row in consumer.leases())
    assert 1 <= len(told) <= 4
    assert all(error.retryable and "time was over" in str(error) for error in told)
    frozen = freeze(consumer, owner)
    assert sorted(rig.records(frozen.batch_id or ""), key=int) == sorted(sent, key=int)


def test_of_two_tries_that_read_an_interval_on_one_is_kept_with_its_files(rig: Rig) -> None:
    first, _ = rig.stream.shards
    sent = rig.stream.put(*"abcdef", shard_id=first)
    cut_of(rig).cuts[first] = [2]
    consumer, owner = beside(rig)
    (group,) = claim(consumer, owner).groups
    with pytest.raises(SourceError):
        land(consumer, owner, group.group, rig.stream.now_ms)
    read, between = rig.stream.read, []

    def other_first(shard_id: str, position: Position) -> Iterator[Page]:
        for page in read(shard_id, position):
            if shard_id == first and not between and page.records.num_rows == 0:
                between.append(True)
                land(consumer, owner, group.group, rig.stream.now_ms)
            yield page

    rig.stream.read = other_first  # type: ignore[method-assign]
    land(consumer, owner, group.group, rig.stream.now_ms)
    assert between
    frozen = freeze(consumer, owner)
    assert [n for n in rig.records(frozen.batch_id or "") if n in sent] == sent
    named = {entry["path"] for s in rig.manifest(frozen.batch_id or "")["slices"] for entry in s["files"]}
    assert {str(path.relative_to(rig.folder)) for path in rig.folder.rglob("*part-*")} == named


def test_files_that_a_slice_names_which_was_read_on_since_are_kept(rig: Rig) -> None:
    """Their answer was lost, and before it is read back another try has read on behind them."""
    first, _ = rig.stream.shards
    rig.stream.put(*"abcdef", shard_id=first)
    cut_of(rig).cuts[first] = [2, 2, 1]
    consumer, owner = beside(rig)
    (group,) = claim(consumer, owner).groups
    stored: list[Slice] = []
    for _ in range(3):
        with pytest.raises(SourceError):
            land(consumer, owner, group.group, rig.stream.now_ms)
        row = consumer.lease(first)
        assert row is not None
        assert row.pending is not None
        stored.append(row.pending)
        held = Held(consumer, str(owner), row)
    begun, ours, _ = stored
    mine = replace(ours, after=begun.until, files=ours.files[len(begun.files) :])
    assert not _unnamed(held, mine, begun)
    other = replace(mine, files=(LandedFile("elsewhere/part-0", 1, 1),))
    assert _unnamed(held, other, begun)


def test_only_an_intervals_slice_that_was_cut_is_read_on(rig: Rig) -> None:
    first, _ = rig.stream.shards
    rig.stream.put("a", shard_id=first)
    rig.land("r1", rig.claim("r1"))
    row = rig.consumer().lease(first)
    assert row is not None
    assert row.pending is not None
    more = replace(row.pending, after=row.pending.until)
    with pytest.raises(ProtocolError, match="interval"):
        extend(row, row.lease_owner or "", row.pending, more, 1)


class Lagging(Cut):
    """Empty answers say that they are ``lag`` behind, or as long as the last record is old."""

    lag: int | None = 40_000

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            self.now_ms += 1000
            if page.records.num_rows == 0 and not page.ended:
                page = of_lag(page, 3_600_000 + self.seconds * 1000 if self.lag is None else self.lag)
            yield page


@pytest.mark.parametrize("behind_s", [-280, 0, 280])
def test_an_interval_ends_where_a_place_has_passed_it_by_the_streams_clock(tmp_path: Path, behind_s: int) -> None:
    """Whatever the worker's clock says: a read that goes by one that is ahead would end before the interval."""
    stream = Lagging()
    rig = Rig(tmp_path / "staging", stream)
    clock = Clock(lambda: stream.now_ms - behind_s * 1000, lambda: float(stream.seconds), rig.time.sleep)
    owner = replace(rig.owner("backfill"), mode="interval")
    start = stream.now_ms
    sent = stream.put("a", "b")
    span = Interval(start, start + 1000)
    stream.now_ms = span.to_ms + MARGIN_MS
    consumer = rig.consumer(scope=owner.scope, interval=span, clock=clock)
    (group,) = claim(consumer, owner).groups
    land(consumer, owner, group.group, stream.now_ms)
    frozen = freeze(consumer, owner)
    assert rig.records(frozen.batch_id or "") == sent
    passed = span.to_ms + MARGIN_MS + (stream.lag or 0)
    assert passed <= stream.now_ms <= passed + (BELIEVED + 3) * 1000


def test_an_interval_that_never_shows_its_end_fails_in_time_and_keeps_what_it_read(tmp_path: Path) -> None:
    stream = Lagging()
    stream.lag = None
    rig = Rig(tmp_path / "staging", stream)
    rig.options["clock"] = Clock(lambda: stream.now_ms, lambda: float(stream.seconds), rig.time.sleep)
    sent = stream.put("a", "b")
    consumer, owner = beside(rig)
    stream.now_ms += 1000 + MARGIN_MS
    (group,) = claim(consumer, owner).groups
    for _ in range(2):
        asked = stream.seconds
        with pytest.raises(SourceError, match="does not show whether the interval is read to its end") as told:
            land(consumer, owner, group.group, stream.now_ms)
        assert told.value.retryable
        assert stream.seconds - asked <= STILL_SECONDS + 5
    stream.lag = 0
    land(consumer, owner, group.group, stream.now_ms)
    assert rig.records(freeze(consumer, owner).batch_id or "") == sent


@settings(max_examples=20, deadline=None)
@given(
    records=st.lists(st.integers(0, 2), max_size=14),
    cuts=st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=3, max_size=3),
    split=st.integers(0, 14),
    interval=st.booleans(),
    fail=st.booleans(),
)
def test_whatever_is_cut_where_every_record_is_in_one_batch_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[int],
    cuts: list[list[int]],
    split: int,
    interval: bool,
    fail: bool,
) -> None:
    stream = Cut(shards=2)
    rig = Rig(tmp_path_factory.mktemp("cut") / "staging", stream)
    rig.options = {"options": ONE_TASK, "limits": ReadLimits(concurrency=1), "policies": FAIL if fail else Policies()}
    sent: list[str] = []
    for at, which in enumerate(records):
        if at == split:
            stream.split(next(iter(stream.shards)))
        still = [name for name, shard in stream.shards.items() if not shard.closed]
        sent += stream.put("x", shard_id=still[which % len(still)])
    stream.cuts = {name: list(some) for name, some in zip(stream.shards, cuts, strict=False)}
    shard_of = {str(i.sequence_number): s.shard_id for s in stream.shards.values() for i in s.items}
    if interval:
        if not sent:
            return
        found = backfill(rig, *beside(rig), tries=20)
    else:
        for number in range(20):
            run = f"r{number}"
            claimed = rig.claim(run)
            try:
                rig.land(run, claimed)
            except SourceError:
                rig.over(run)
                continue
            frozen = rig.freeze(run)
            if frozen.batch_id is not None:
                rig.work(frozen)
                rig.commit(run, frozen)
            rig.over(run)
        found = rig.committed()
    assert sorted(found, key=int) == sent
    for name in stream.shards:
        of_shard = [number for number in found if shard_of[number] == name]
        assert of_shard == sorted(of_shard, key=int)
