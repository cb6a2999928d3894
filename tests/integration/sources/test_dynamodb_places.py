# SPDX-License-Identifier: Apache-2.0
"""Places in the stream of a table: those that were trimmed, iterators that expired, and instants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shardbatch.core.ports import Page
from shardbatch.core.position import LATEST, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.slice import Trimmed
from shardbatch.errors import ConfigurationError, SourceError, StreamNotFound
from shardbatch.local import StreamServer
from tests.integration.sources.dynamodb_world import TABLE, World, changes, to_tip
from tests.support.aws import REGION


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as running:
        yield running


@pytest.fixture
def world(server: StreamServer) -> World:
    return World(server)


def first(world: World) -> str:
    return world.shards()[0]


def second(world: World) -> int:
    """Move the clock to the beginning of another second; that second."""
    now = world.server.clock.now_ms()
    world.server.clock.advance(1 + (1000 - now % 1000) / 1000)
    return world.server.clock.now_ms() // 1000


def gone(pages: list[Page]) -> list[Trimmed | None]:
    return [page.trimmed for page in pages if page.checkpoint_gone]


# iterators


def test_an_iterator_that_expired_is_renewed_behind_the_last_record(world: World) -> None:  # BV-9, B-23, R28
    world.put("a", "b")
    reading = world.source(page_records=1).read(first(world), TRIM_HORIZON)
    got = [next(reading)]
    world.server.clock.advance(901)
    got += to_tip(reading)
    assert [name[0] for name in changes(*got)] == ["a", "b"]
    places = [call for call in world.server.calls.list("GetShardIterator") if call.status == 200]
    assert len(places) == 2
    assert not gone(got)


def test_an_iterator_that_expired_before_any_record_is_renewed_at_the_oldest(world: World) -> None:  # BV-9, R28
    reading = world.source().read(first(world), TRIM_HORIZON)
    got = to_tip(reading)
    world.server.clock.advance(901)
    world.put("a")
    assert [name[0] for name in changes(*got, *to_tip(reading))] == ["a"]


def test_empty_answers_of_iterators_that_expire_prove_no_tip(world: World) -> None:  # B-4
    world.server.options.empty_pages = 1000
    reading = world.source().read(first(world), TRIM_HORIZON)
    for _ in range(4):
        assert [next(reading).at_tip for _ in range(2)] == [False, False]
        world.server.clock.advance(901)
    assert len(to_tip(reading)) == 5


def test_empty_answers_before_records_do_not_end_a_read(world: World) -> None:  # B-4, BV-7
    world.server.options.empty_pages = 4
    sent = world.put("a", "b")
    pages = to_tip(world.source().read(first(world), TRIM_HORIZON))
    assert changes(*pages) == sent
    assert [page.at_tip for page in pages] == [False] * 9 + [True]
    assert not any(page.silent for page in pages)


def test_a_shard_with_nothing_new_costs_five_calls(world: World) -> None:  # BV-7
    pages = to_tip(world.source().read(first(world), TRIM_HORIZON))
    assert len(pages) == sum(call.status == 200 for call in world.server.calls.list("GetRecords")) == 5


@pytest.mark.parametrize("with_records", [False, True])
def test_a_closed_shard_ends_with_a_null_iterator_or_none(world: World, with_records: bool) -> None:  # BV-10
    world.server.options.end_with_records = with_records
    sent = world.put("a")
    children = world.roll()
    pages = to_tip(world.source().read(first(world), TRIM_HORIZON))
    assert changes(*pages) == sent
    assert [child.shard_id for child in pages[-1].children] == children
    world.server.faults.add("GetRecords", "no_iterator")  # absent rather than null
    pages = to_tip(world.source().read(first(world), TRIM_HORIZON))
    assert (pages[0].ended, len(pages)) == (True, 1)


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
@pytest.mark.parametrize("error", ["LimitExceededException", "ThrottlingException"])
def test_a_refusal_for_the_rate_is_waited_out_and_shown(world: World, operation: str, error: str) -> None:
    sent = world.put("a")
    world.server.faults.add(operation, "error", error=error, times=3)
    source = world.source()
    pages = to_tip(source.read(first(world), TRIM_HORIZON))
    assert changes(*pages) == sent
    assert [page.silent for page in pages[:4]] == [True, True, True, False]
    assert sum(page.waiting.refused for page in pages) == 3
    assert not any(page.at_tip or page.ended for page in pages[:3])
    assert sum(page.requests for page in pages) == sum(source.calls.values())


@pytest.mark.parametrize("kind", ["cut", "reset", "error"])
def test_an_answer_that_fails_is_asked_for_again(world: World, kind: str) -> None:
    sent = world.put("a", "b")
    more = {"error": "InternalServerError"} if kind == "error" else {}
    world.server.faults.add("GetRecords", kind, times=2, **more)
    assert changes(*to_tip(world.source(page_records=1).read(first(world), TRIM_HORIZON))) == sent


def test_a_shard_that_is_listed_is_not_gone_though_the_service_says_so_once(world: World) -> None:
    sent = world.put("a")
    world.server.faults.add("GetRecords", "error", error="ResourceNotFoundException")
    pages = to_tip(world.source().read(first(world), TRIM_HORIZON))
    assert changes(*pages) == sent
    assert not any(page.gone for page in pages)


def test_many_shards_that_left_the_stream_cost_two_listings(server: StreamServer) -> None:
    world = World(server, shards=5)
    old = world.shards()
    world.roll()
    world.trim(forget=True)
    source = world.source()
    before = world.calls("DescribeStream")
    for shard_id in old:
        (page,) = source.read(shard_id, TRIM_HORIZON)
        assert (page.ended, page.gone) == (True, True)
    assert world.calls("DescribeStream") - before == len(old) + 2


def test_the_records_in_hand_are_delivered_though_the_children_cannot_be_asked_for(world: World) -> None:
    sent = world.put("a")
    world.roll()
    shard_id, source = first(world), world.source()
    world.server.faults.add("DescribeStream", "error", error="AccessDeniedException", times=100)
    source._stream._arn = world.arn
    (page,) = source.read(shard_id, TRIM_HORIZON)
    assert (changes(page), page.ended, page.children, page.leaf) == (sent, True, (), False)


# trimmed


def test_a_place_that_was_trimmed_is_told_with_the_first_record_behind_it(world: World) -> None:
    world.put("a", "b", "c")
    place = to_tip(world.source(page_records=1).read(first(world), TRIM_HORIZON))[0].next
    world.trim(keep=1)
    pages = to_tip(world.source().read(first(world), place))
    assert [name[0] for name in changes(*pages)] == ["c"]
    assert gone(pages) == [Trimmed(unread=False)]


def test_what_is_trimmed_in_mid_read_was_never_read_for_sure(world: World) -> None:
    world.put("a", "b", "c", "d")
    reading = world.source(page_records=1).read(first(world), TRIM_HORIZON)
    got = [next(reading)]
    world.trim(keep=1)
    got += to_tip(reading)
    assert [name[0] for name in changes(*got)] == ["a", "d"]
    assert gone(got) == [Trimmed(unread=True)]
    assert got[0].next == after(got[0].records.column("sequence_number")[0].as_py())


def test_a_service_that_says_trimmed_and_has_the_place_loses_and_doubles_nothing(world: World) -> None:  # B-27
    world.put("a", "b", "c")
    whole = to_tip(world.source(page_records=1).read(first(world), TRIM_HORIZON))
    for operation in ("GetShardIterator", "GetRecords"):
        world.server.faults.add(operation, "error", error="TrimmedDataAccessException")
        pages = to_tip(world.source().read(first(world), whole[0].next))
        assert [name[0] for name in changes(*pages)] == ["b", "c"]
        assert gone(pages) == []
        assert sum(page.oddities.below for page in pages) == 1
    for operation in ("GetShardIterator", "GetRecords"):
        world.server.faults.add(operation, "error", error="TrimmedDataAccessException", times=2)
        pages = to_tip(world.source().read(first(world), TRIM_HORIZON))
        assert [name[0] for name in changes(*pages)] == ["a", "b", "c"]


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("said", ["ValidationException", "TrimmedDataAccessException"])
def test_the_integer_before_a_record_is_a_place_whatever_the_service_says_of_it(  # B-21
    world: World, at: int, said: str
) -> None:
    sent = world.put("a", "b", "c")
    whole = to_tip(world.source().read(first(world), TRIM_HORIZON))
    number = int(whole[0].records.column("sequence_number")[at].as_py()) - 1
    if said != "ValidationException":  # as some look-alikes say of a number that they never gave out
        world.server.faults.add("GetShardIterator", "error", error=said)
    pages = to_tip(world.source().read(first(world), after(str(number))))
    assert changes(*pages) == sent[at:]
    assert gone(pages) == []


def test_the_integer_before_a_record_that_expired_is_told(world: World) -> None:  # B-18
    world.put("a", "b", "c")
    whole = to_tip(world.source().read(first(world), TRIM_HORIZON))
    number = int(whole[0].records.column("sequence_number")[1].as_py()) - 1
    world.trim(keep=1)
    pages = to_tip(world.source().read(first(world), after(str(number))))
    assert [name[0] for name in changes(*pages)] == ["c"]
    assert gone(pages) == [Trimmed(unread=False)]


def test_a_service_that_says_trimmed_of_all_is_given_up(world: World) -> None:  # B-27
    world.put("a")
    world.server.faults.add("GetRecords", "error", error="TrimmedDataAccessException", times=100)
    with pytest.raises(SourceError, match="Trimmed"):
        to_tip(world.source().read(first(world), TRIM_HORIZON))
    assert world.calls("GetRecords") <= 10


def test_a_place_of_another_shard_is_refused_and_not_asked_again(world: World) -> None:
    world.put("a")
    with pytest.raises(SourceError, match="does not belong to this shard") as refused:
        to_tip(world.source().read(first(world), after("9" * 25)))
    assert refused.value.retryable is False


# instants


def seconds_of(world: World) -> list[int]:
    """Changes a and b in one second, c and d in the next ones; those seconds."""
    found = []
    for keys in ("ab", "c", "d"):
        found.append(second(world))
        world.put(*keys)
    second(world)
    return found


@pytest.mark.parametrize("scans", [False, True])
def test_a_time_begins_with_the_first_change_of_its_second(world: World, scans: bool) -> None:  # BV-4
    one, two, three = seconds_of(world)
    for instant_ms, wanted in (
        (0, "abcd"),
        (one * 1000, "abcd"),
        (one * 1000 + 999, "abcd"),
        (two * 1000 - 1, "abcd" if one == two - 1 else "cd"),
        (two * 1000, "cd"),
        (two * 1000 + 900, "cd"),
        (three * 1000, "d"),
        (three * 1000 + 1000, ""),
    ):
        pages = to_tip(world.source(scans=scans, page_records=1).read(first(world), at_timestamp(instant_ms)))
        assert "".join(name[0] for name in changes(*pages)) == wanted, instant_ms
        if wanted:
            assert not pages[-1].next.searching
        elif not scans:
            assert pages[-1].next == at_timestamp(instant_ms)


def test_a_time_costs_one_call_where_the_service_finds_it(world: World) -> None:
    _, _, three = seconds_of(world)
    to_tip(world.source(page_records=1).read(first(world), at_timestamp(three * 1000)))
    assert world.calls("GetRecords") == 1 + 5


def test_a_service_that_does_not_know_times_is_searched(world: World) -> None:
    _, two, _ = seconds_of(world)
    world.server.faults.add("GetShardIterator", "error", error="ValidationException")
    pages = to_tip(world.source().read(first(world), at_timestamp(two * 1000)))
    assert "".join(name[0] for name in changes(*pages)) == "cd"


def test_a_search_that_stops_midway_goes_on_where_it_stopped(world: World) -> None:
    _, _, three = seconds_of(world)
    source, place, found, read = world.source(scans=True, page_records=1), at_timestamp(three * 1000), [], 0
    while not found:
        page = next(source.read(first(world), place))  # a run that has time for one answer
        found += changes(page)
        read += 1
        assert read <= 4
        assert page.next.searching is not bool(found)
        place = Position.parse(str(page.next))
    assert [name[0] for name in found] == ["d"]


def test_a_search_at_the_tip_keeps_its_instant_until_it_is_found(world: World) -> None:
    world.put("a")
    bound = second(world) + 60
    source = world.source(scans=True)
    pages = to_tip(source.read(first(world), at_timestamp(bound * 1000)))
    assert changes(*pages) == []
    assert pages[-1].at_tip
    assert pages[-1].next.timestamp_ms == bound * 1000
    world.put("b")
    world.server.clock.advance(60)
    world.put("c")
    pages = to_tip(source.read(first(world), pages[-1].next))
    assert [name[0] for name in changes(*pages)] == ["c"]
    assert pages[-1].next.timestamp_ms is None


def test_a_closed_shard_is_not_searched_if_its_child_began_before_the_instant(world: World) -> None:
    old = first(world)
    world.put(*"abcd")
    (young,) = world.roll(old)
    second(world)
    world.put("e")
    world.server.clock.advance(60)  # arrival times may run backwards by as much
    bound = second(world)
    world.put("f")
    place = at_timestamp(bound * 1000)
    source = world.source(scans=True, page_records=1)
    pages = to_tip(source.read(old, place))
    assert [(page.ended, page.next, [c.shard_id for c in page.children]) for page in pages] == [(True, place, [young])]
    assert world.calls("GetRecords") == 1
    assert [name[0] for name in changes(*to_tip(source.read(young, place)))] == ["f"]


def test_a_closed_shard_whose_child_began_in_the_same_second_is_searched(world: World) -> None:
    old = first(world)
    bound = second(world)
    world.put("a")
    world.roll(old)
    world.put("b")
    pages = to_tip(world.source(scans=True).read(old, at_timestamp(bound * 1000 + 500)))
    assert [name[0] for name in changes(*pages)] == ["a"]


# the stream


def test_the_clock_is_that_of_the_service_in_whole_seconds(world: World) -> None:
    source = world.source()
    world.server.clock.advance(3600)
    now_ms = world.server.clock.now_ms()
    assert source.clock_ms() in (now_ms // 1000 * 1000, now_ms // 1000 * 1000 + 1000)
    assert (source.resolve(LATEST).timestamp_ms or 0) - now_ms in range(-1000, 10_000)
    assert source.resolve(TRIM_HORIZON) == TRIM_HORIZON


def test_a_service_that_tells_no_time_has_that_of_this_machine(world: World) -> None:
    def undated(parsed: dict[str, Any], **_: Any) -> None:
        del parsed["ResponseMetadata"]["HTTPHeaders"]["date"]

    world.streams.meta.events.register("after-call.dynamodb-streams.DescribeStream", undated)
    source = world.source()
    assert source.clock_ms() is None
    assert (source.resolve(LATEST).timestamp_ms or 0) - world.server.clock.now_ms() in range(-10_000, 1)


def test_a_table_is_named_by_its_name_its_arn_or_its_streams_arn(world: World) -> None:
    table = world.arn.partition("/stream/")[0]
    sources = [world.source(text) for text in (TABLE, table, world.arn)]
    assert {source.identity() for source in sources} == {world.arn}
    assert {source.name for source in sources} == {TABLE}
    assert [source.calls["DescribeTable"] for source in sources] == [1, 1, 0]


def test_a_table_without_a_stream_says_how_to_enable_one(world: World) -> None:
    world.server.tables.create("plain", {"id": "S"}, view=None, region=REGION)
    with pytest.raises(StreamNotFound, match=r"plain has no stream.*StreamEnabled=true"):
        world.source("plain").identity()


@pytest.mark.parametrize(
    ("carried", "refused"),
    [
        ("KEYS_ONLY", {"NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"}),
        ("NEW_IMAGE", {"OLD_IMAGE", "NEW_AND_OLD_IMAGES"}),
        ("OLD_IMAGE", {"NEW_IMAGE", "NEW_AND_OLD_IMAGES"}),
        ("NEW_AND_OLD_IMAGES", set()),
    ],
)
def test_images_that_the_stream_does_not_carry_are_refused(  # B-2
    server: StreamServer, carried: str, refused: set[str]
) -> None:
    from shardbatch.sources.dynamodb.options import StreamView

    world = World(server, view=carried)
    for view in StreamView:
        if view.value in refused:
            with pytest.raises(ConfigurationError, match=f"carries {carried}.*asks for {view}"):
                world.source(view=view).identity()
        else:
            assert world.source(view=view).identity() == world.arn


def test_a_stream_that_is_being_enabled_is_waited_for(server: StreamServer) -> None:
    server.options.enable_seconds = 20
    assert World(server).source().identity()
