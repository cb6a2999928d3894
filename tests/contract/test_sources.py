# SPDX-License-Identifier: Apache-2.0
"""What every source does with a stream, as `core.ports.Source` says it. No clause names a service.

What is special about a service is tested beside its source (`test_kinesis.py`, `test_fan_out.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise

import pyarrow as pa
import pytest

from shardbatch.core.ports import Page, Source
from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Kind, Position
from shardbatch.core.position import after as place_of
from shardbatch.core.shard import Shard
from shardbatch.errors import StreamNotFound
from shardbatch.sources.records import SCHEMA
from tests.contract.source_worlds import WORLDS, AnyWorld
from tests.contract.sources_servers import only, to_end, to_tip


@pytest.fixture(scope="module", params=sorted(WORLDS))
def shared_world(request: pytest.FixtureRequest) -> Iterator[AnyWorld]:
    with ExitStack() as stack:
        yield WORLDS[request.param](stack, request)


@pytest.fixture
def world(shared_world: AnyWorld) -> Iterator[AnyWorld]:
    yield shared_world
    shared_world.restore()


@pytest.fixture
def lineage(world: AnyWorld) -> None:
    """What a clause needs that closes shards in favour of children."""
    if not world.unmade("any").source().capabilities.lineage:
        pytest.skip("shards of this service never end in favour of children")


#: The place after a record that `AnyStream.put` told.
after = Position.parse


def by_parents(source: Source) -> dict[tuple[str, ...], list[Shard]]:
    found: dict[tuple[str, ...], list[Shard]] = {}
    for shard in source.list_shards():
        found.setdefault(tuple(sorted(shard.parent_shard_ids)), []).append(shard)
    return found


def children_of(source: Source, end: Page, *parents: str) -> list[Shard]:
    """The children of shards that have ended, as the stream lists them; those that the end names are the same."""
    listed = by_parents(source)[tuple(sorted(parents))]
    named = {child.shard_id: child for child in end.children}
    assert not named or named.keys() == {child.shard_id for child in listed}
    assert all(sorted(child.parent_shard_ids) == sorted(parents) for child in named.values())
    return listed


def latest(source: Source, shard_id: str) -> Position:
    """Where a shard begins of which only what comes from now on is wanted."""
    start = source.resolve(LATEST)
    if source.capabilities.instants:
        assert start.kind is Kind.AT_TIMESTAMP
        return start
    assert start == LATEST
    return source.resolve(LATEST, shard_id)


def answers(pages: Iterable[Page]) -> list[Page]:
    """The pages that are answers; the others tell nothing."""
    found = list(pages)
    for page in found:
        assert not (page.silent and (page.records.num_rows or page.ended or page.at_tip or page.lag_ms is not None))
    return [page for page in found if not page.silent]


def records_of(*pages: Page) -> list[Position]:
    """The places of the records of some pages, by their columns."""
    columns = [page.records.select(["sequence_number", "sub_sequence_number"]).to_pydict().values() for page in pages]
    return [place_of(number, sub) for numbers, subs in columns for number, sub in zip(numbers, subs, strict=True)]


def places(pages: Sequence[Page], start: Position) -> bool:
    """Whether each page's place is that of its last record, and an empty page's that of the page before."""
    here = start
    for page in pages:
        here = records_of(page)[-1] if page.records.num_rows else here
        if page.next != here:
            return False
    return True


# what the stream is


def test_the_identity_stays_until_the_stream_is_recreated(world: AnyWorld) -> None:  # K-1, R49
    stream = world.stream()
    first = stream.source().identity()
    assert first == stream.source().identity()
    assert first != world.stream().source().identity()
    if not world.can.tells_recreation:
        pytest.skip("the service does not tell a stream from an earlier one of its name")
    stream.delete()
    stream.create(1)
    assert stream.source().identity() != first


def test_a_missing_stream_is_named(world: AnyWorld) -> None:
    source = world.unmade("not-there").source()
    shard_id = world.stream().source().list_shards()[0].shard_id
    for ask in (source.identity, source.list_shards, lambda: next(source.read(shard_id, TRIM_HORIZON))):
        with pytest.raises(StreamNotFound, match="not-there"):
            ask()


def test_what_it_tells_of_times_is_told_in_milliseconds(world: AnyWorld) -> None:
    source = world.stream().source()
    retention_ms, clock_ms, least = source.retention_ms(), source.clock_ms(), source.capabilities.least_retention
    assert clock_ms is None or clock_ms >= 1_000_000_000_000
    assert retention_ms is None or retention_ms >= 1_000
    assert least is None or retention_ms is None or retention_ms >= least.total_seconds() * 1000


# listing


def test_a_new_stream_has_open_shards_without_parents(world: AnyWorld) -> None:
    source = world.stream(3).source()
    shards = source.list_shards()
    assert len({shard.shard_id for shard in shards}) == 3
    assert not any(shard.closed or shard.parent_shard_ids for shard in shards)


@pytest.mark.usefixtures("lineage")
def test_a_split_shows_a_closed_parent_and_two_children(world: AnyWorld) -> None:  # K-2
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    stream.split(parent)
    shards = by_parents(source)
    (listed,) = shards.pop(())
    assert listed.shard_id == parent.shard_id
    assert listed.closed
    children = shards.pop((parent.shard_id,))
    assert [child.closed for child in children] == [False, False]
    assert not shards


@pytest.mark.usefixtures("lineage")
def test_a_merge_shows_a_child_with_both_parents(world: AnyWorld) -> None:  # K-2
    if not world.can.merges:
        pytest.skip("the service makes no shard of two")
    stream = world.stream(2)
    source = stream.source()
    left, right = source.list_shards()
    stream.merge(left, right)
    shards = by_parents(source)
    assert all(shard.closed for shard in shards[()])
    (child,) = shards[tuple(sorted((left.shard_id, right.shard_id)))]
    assert not child.closed


# reading


def test_all_records_come_once_in_order_with_their_columns(world: AnyWorld) -> None:  # K-5
    stream = world.stream()
    numbers = stream.put(*(f"r{n}" for n in range(20)))
    source = stream.source()
    pages = answers(to_tip(source.read(only(source).shard_id, TRIM_HORIZON)))
    assert world.texts(*pages) == [f"r{n}" for n in range(20)]
    assert all(page.records.select(SCHEMA.names).schema.equals(SCHEMA) for page in pages)
    assert {name for page in pages for name in page.records.schema.names} <= {*SCHEMA.names, "attributes"}
    rows = pa.Table.from_batches([page.records for page in pages])
    found = records_of(*pages)
    assert [str(place) for place in found] == numbers
    assert all(one < other for one, other in pairwise(found))
    assert rows.column("partition_key").to_pylist() == [world.key(f"r{n}") for n in range(20)]
    told = [arrival is not None for arrival in rows.column("arrival_time").to_pylist()]
    assert set(told) == {source.capabilities.arrival_times}
    assert places(pages, TRIM_HORIZON)
    assert pages[-1].at_tip


def test_a_read_resumes_after_any_page_without_loss_or_repetition(world: AnyWorld) -> None:  # KV-2, K-32
    stream = world.stream()
    stream.put(*(f"r{n}" for n in range(10)))
    source = stream.source(page_records=3)
    shard_id = only(source).shard_id
    position, got = TRIM_HORIZON, []
    for _ in range(30):
        page = next(iter(source.read(shard_id, position)))
        got += world.texts(page)
        assert page.records.num_rows <= 3
        assert not page.checkpoint_gone
        position = page.next
        if len(got) == 10 and not page.records.num_rows:
            break
    assert got == [f"r{n}" for n in range(10)]
    assert position.kind is Kind.AFTER_SEQUENCE_NUMBER


def test_each_record_can_be_the_checkpoint(world: AnyWorld) -> None:  # KV-2
    stream = world.stream()
    numbers = stream.put("a", "b", "c")
    source = stream.source()
    shard_id = only(source).shard_id
    left = [world.texts(*to_tip(source.read(shard_id, after(number)))) for number in numbers]
    assert left == [["b", "c"], ["c"], []]


def test_records_are_delivered_although_nothing_is_behind_them(world: AnyWorld) -> None:  # R33
    stream = world.stream()
    stream.put("a", "b", "c")
    source = stream.source()
    for page in source.read(only(source).shard_id, TRIM_HORIZON):
        if page.records.num_rows:
            assert world.texts(page) == ["a", "b", "c"]
            assert not page.ended
            break


def test_the_tip_is_seen_and_is_not_the_end(world: AnyWorld) -> None:  # R34
    stream = world.stream()
    source = stream.source()
    reading = iter(source.read(only(source).shard_id, TRIM_HORIZON))
    assert not to_tip(reading)[-1].ended
    numbers = stream.put("later")
    pages = to_tip(reading)
    assert world.texts(*pages) == ["later"]
    assert pages[-1].at_tip
    stream.put("next run")
    assert world.texts(*to_tip(source.read(only(source).shard_id, after(numbers[-1])))) == ["next run"]


def test_no_page_before_the_last_record_is_at_the_tip(world: AnyWorld) -> None:  # R33, R37
    stream = world.stream()
    stream.put(*(f"r{n}" for n in range(7)))
    source = stream.source(page_records=2)
    unread = 7
    for page in to_tip(source.read(only(source).shard_id, TRIM_HORIZON)):
        unread -= page.records.num_rows
        assert not (page.at_tip and unread)


def test_idle_shards_keep_their_position(world: AnyWorld) -> None:  # R26
    stream = world.stream(3)
    source = stream.source()
    shards = source.list_shards()
    starts = {s.shard_id: latest(source, s.shard_id) if world.can.looks_ahead else TRIM_HORIZON for s in shards}
    stream.put("one", into=shards[1])
    for shard in shards:
        start = starts[shard.shard_id]
        pages = to_tip(source.read(shard.shard_id, start))
        assert world.texts(*pages) == (["one"] if shard is shards[1] else [])
        assert (pages[-1].next == start) is (shard is not shards[1])


# starts


def test_latest_is_where_the_stream_stands_when_it_is_resolved(world: AnyWorld) -> None:  # K-32
    stream = world.stream()
    stream.put("before")
    source = stream.source()
    shard_id = only(source).shard_id
    start = latest(source, shard_id)
    assert start == source.resolve(start) == source.resolve(start, shard_id)
    stream.put("after")
    found = world.texts(*to_tip(source.read(shard_id, start)))
    assert found[-1] == "after"
    assert found == ["after"] or source.capabilities.instants  # an instant may be told in whole seconds, cut off


def test_latest_of_a_shard_without_records_is_before_all_that_come(world: AnyWorld) -> None:  # R24
    if not world.can.looks_ahead:
        pytest.skip("the server does not answer AT_TIMESTAMP before there is a record")
    stream = world.stream()
    source = stream.source()
    shard_id = only(source).shard_id
    start = latest(source, shard_id)
    stream.put("a", "b")
    assert world.texts(*to_tip(source.read(shard_id, start))) == ["a", "b"]


def test_other_starts_stay_as_they_are(world: AnyWorld) -> None:
    source = world.stream().source()
    for start in (TRIM_HORIZON, after("7"), SHARD_END):
        assert source.resolve(start) == source.resolve(start, only(source).shard_id) == start


# ends


@pytest.mark.usefixtures("lineage")
def test_a_split_parent_ends_after_its_last_record_and_its_children_go_on(world: AnyWorld) -> None:  # K-34, R09, K-5
    stream = world.stream()
    source = stream.source(page_records=2)
    parent = only(source)
    stream.put(*(f"p{n}" for n in range(5)))
    stream.split(parent)
    low, high = by_parents(source)[(parent.shard_id,)]
    stream.put("low", into=low)
    stream.put("high", into=high)
    pages = to_end(source, parent.shard_id, TRIM_HORIZON)
    assert world.texts(*pages) == [f"p{n}" for n in range(5)]
    assert [page.ended for page in pages] == [False] * (len(pages) - 1) + [True]
    assert not pages[-1].gone
    children = children_of(source, pages[-1], parent.shard_id)
    found = [world.texts(*to_tip(source.read(child.shard_id, TRIM_HORIZON))) for child in children]
    assert sorted(found) == [["high"], ["low"]]


@pytest.mark.usefixtures("lineage")
def test_both_parents_of_a_merge_end_before_their_child(world: AnyWorld) -> None:  # R02, K-2
    if not world.can.merges:
        pytest.skip("the service makes no shard of two")
    stream = world.stream(2)
    source = stream.source()
    left, right = source.list_shards()
    stream.put("l", into=left)
    stream.put("r", into=right)
    stream.merge(left, right)
    stream.put("child", into=only(source))
    for parent, text in ((left, "l"), (right, "r")):
        pages = to_end(source, parent.shard_id, TRIM_HORIZON)
        assert world.texts(*pages) == [text]
        (child,) = children_of(source, pages[-1], left.shard_id, right.shard_id)
        assert world.texts(*to_tip(source.read(child.shard_id, TRIM_HORIZON))) == ["child"]


@pytest.mark.usefixtures("lineage")
def test_a_merge_that_is_split_again_is_read_generation_by_generation(world: AnyWorld) -> None:  # R02, KV-4
    if not world.can.merges:
        pytest.skip("the service makes no shard of two")
    stream = world.stream(2)
    source = stream.source()
    left, right = source.list_shards()
    stream.put("1l", into=left)
    stream.put("1r", into=right)
    stream.merge(left, right)
    merged = only(source)
    stream.put("2", into=merged)
    stream.split(merged)
    for text, child in zip(("3l", "3r"), by_parents(source)[(merged.shard_id,)], strict=True):
        stream.put(text, into=child)
    generation, read = {left.shard_id, right.shard_id}, []
    while generation:
        found = []
        for shard_id in generation:
            found += world.texts(*to_tip(source.read(shard_id, TRIM_HORIZON)))
        read.append(sorted(found))
        generation = {s.shard_id for s in source.list_shards() if generation.intersection(s.parent_shard_ids)}
    assert read == [["1l", "1r"], ["2"], ["3l", "3r"]]


@pytest.mark.usefixtures("lineage")
def test_a_closed_shard_without_records_ends(world: AnyWorld) -> None:  # R08, K-16
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    stream.split(parent)
    pages = to_end(source, parent.shard_id, TRIM_HORIZON)
    assert world.texts(*pages) == []
    assert pages[-1].ended
    assert pages[-1].next == TRIM_HORIZON
    assert len(children_of(source, pages[-1], parent.shard_id)) == 2


@pytest.mark.usefixtures("lineage")
def test_a_closed_shard_ends_although_its_last_record_is_the_checkpoint(world: AnyWorld) -> None:  # K-36, R03, R05
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    numbers = stream.put("a", "b")
    stream.split(parent)
    pages = to_end(source, parent.shard_id, after(numbers[-1]))
    assert world.texts(*pages) == []
    assert pages[-1].ended
    assert pages[-1].next == after(numbers[-1])
    assert not any(page.checkpoint_gone for page in pages)


@pytest.mark.usefixtures("lineage")
def test_a_shard_that_closes_while_it_is_read_ends(world: AnyWorld) -> None:  # K-34
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    stream.put("a")
    reading = iter(source.read(parent.shard_id, TRIM_HORIZON))
    got = to_tip(reading)
    stream.put("b")
    stream.split(parent)
    got += list(reading)
    assert world.texts(*got) == ["a", "b"]
    assert got[-1].ended


def test_a_shard_whose_checkpoint_is_its_end_is_not_asked(world: AnyWorld) -> None:  # KV-2
    source = world.stream().source()
    (page,) = source.read(only(source).shard_id, SHARD_END)
    assert (page.ended, page.next, page.records.num_rows, page.requests) == (True, SHARD_END, 0, 0)


# what is gone


def test_a_trimmed_checkpoint_is_told(world: AnyWorld) -> None:  # K-7, R50
    if not world.can.trims:
        pytest.skip("the server keeps records for ever")
    stream = world.stream()
    source = stream.source()
    shard_id = only(source).shard_id
    numbers = stream.put("a", "b")
    stream.expire()
    stream.put("c")
    pages = to_tip(source.read(shard_id, after(numbers[-1])))
    assert world.texts(*pages) == ["c"]
    assert [page.checkpoint_gone for page in pages].count(True) == 1


def test_a_trimmed_checkpoint_is_told_when_nothing_came_after_it(world: AnyWorld) -> None:  # K-7
    if not world.can.trims:
        pytest.skip("the server keeps records for ever")
    stream = world.stream()
    source = stream.source()
    numbers = stream.put("a", "b")
    stream.expire()
    pages = to_tip(source.read(only(source).shard_id, after(numbers[-1])))
    assert world.texts(*pages) == []
    assert [page.checkpoint_gone for page in pages].count(True) == 1
    assert pages[-1].next == after(numbers[-1])


def test_a_shard_that_the_stream_never_had_is_gone(world: AnyWorld) -> None:
    source = world.stream().source()
    other = world.stream(2).source().list_shards()[1].shard_id
    (page,) = source.read(other, TRIM_HORIZON)
    assert (page.ended, page.gone, page.records.num_rows) == (True, True, 0)


def test_a_stream_that_is_deleted_while_it_is_read_is_missing(world: AnyWorld) -> None:  # K-35
    if not world.can.deletes:
        pytest.xfail("a stream that was deleted is read for a day more, and the server's clock cannot be moved")
    stream = world.stream()
    source = stream.source()
    reading = iter(source.read(only(source).shard_id, TRIM_HORIZON))
    to_tip(reading)
    stream.delete()
    with pytest.raises(StreamNotFound, match=stream.name):
        to_tip(reading)


def test_nobody_is_asked_for_others_where_nothing_has_to_be_cleaned_up(world: AnyWorld) -> None:
    source = world.stream().source()
    source.end_reading(lambda: pytest.fail("others were asked for"))
