# SPDX-License-Identifier: Apache-2.0
"""What the Kinesis source does when the service refuses, fails, or answers wrongly."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.errors import InvalidAnswer, SourceError, StreamNotFound, Throttled
from shardbatch.sources.aws.refusals import Unreachable
from shardbatch.sources.kinesis.options import FanOut
from tests.integration.sources.kinesis_world import FIRST, STREAM, World, payloads, stopped_server, take, until

RECORDS = [b"r%d" % n for n in range(6)]


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server() as server:
        yield World(server)


def iterators(world: World) -> list[str]:
    """From now on, the iterators that GetRecords is called with."""
    seen: list[str] = []
    world.client.meta.events.register(
        "provide-client-params.kinesis.GetRecords", lambda params, **_: seen.append(params["ShardIterator"])
    )
    return seen


def answering(world: World, *bodies: dict[str, Any] | None) -> None:
    """The next GetRecords calls get these answers; ``None`` is the server's own."""
    waiting = list(bodies)

    def answer(request: Any, **_: Any) -> AWSResponse | None:
        body = waiting.pop(0) if waiting else None
        if body is None:
            return None
        raw = json.dumps(body).encode()
        return AWSResponse(request.url, 200, {"content-length": str(len(raw))}, _Raw(raw))

    world.client.meta.events.register_last("before-send.kinesis.GetRecords", answer)


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


# refusals


def test_twenty_refusals_in_a_row_are_waited_out_with_growing_jittered_spacing(world: World) -> None:  # R61
    world.put(*RECORDS)
    world.server.faults.add("GetRecords", "error", error="ProvisionedThroughputExceededException", status=400, times=20)
    source = world.source()
    pages = until(iter(source.read(FIRST, TRIM_HORIZON)), 6)
    assert payloads(pages) == RECORDS
    # Each refusal shows as an empty page of unknown lag, so that the reader can look at its limits.
    assert [page.lag_ms for page in pages[:-1]] == [None] * 20
    assert [page.records.num_rows for page in pages[:-1]] == [0] * 20
    spacing = world.spacing_ms()
    assert len(spacing) == 20
    assert min(spacing) >= 200
    assert max(spacing[:3]) <= 1_000 < 2_500 <= min(spacing[-10:])
    assert max(spacing) <= 5_001
    assert len(set(spacing[-10:])) > 5
    assert source.calls["GetRecords"] == 21


def test_refusals_without_end_are_an_error_that_says_so(world: World) -> None:
    world.server.faults.add("GetRecords", "error", error="LimitExceededException", status=400, times=1000)
    source = world.source(throttles=5)
    with pytest.raises(Throttled, match=STREAM):
        list(source.read(FIRST, TRIM_HORIZON))
    assert source.calls["GetRecords"] == 6


def test_botocores_own_retries_keep_the_pace(world: World) -> None:  # R61
    world.put(*RECORDS)
    error = "ProvisionedThroughputExceededException"
    world.server.faults.add("GetRecords", "error", error=error, status=400, times=4)
    source = world.source(attempts=3)
    pages = until(iter(source.read(FIRST, TRIM_HORIZON)), 6)
    assert payloads(pages) == RECORDS
    assert len(world.spacing_ms()) == 4
    assert min(world.spacing_ms()) >= 200
    assert source.calls["GetRecords"] == 5
    assert sum(page.requests for page in pages) == 6


def test_iterators_are_asked_for_again_when_refused(world: World) -> None:
    world.put(*RECORDS)
    error = "ProvisionedThroughputExceededException"
    world.server.faults.add("GetShardIterator", "error", error=error, status=400, times=3)
    assert payloads(until(iter(world.source().read(FIRST, TRIM_HORIZON)), 6)) == RECORDS
    assert min(world.spacing_ms("GetShardIterator")) >= 100


def test_listings_are_asked_for_again_when_refused(world: World) -> None:
    world.server.faults.add("ListShards", "error", error="LimitExceededException", status=400, times=3)
    assert len(world.source().list_shards()) == 1
    assert sum(world.time.slept) > 0


@pytest.mark.parametrize("operation", ["DescribeStreamSummary", "ListShards", "GetShardIterator"])
def test_every_answer_that_is_cut_short_is_asked_for_again(world: World, operation: str) -> None:
    world.put(*RECORDS)
    world.server.faults.add(operation, "cut", keep=0.5, times=2)
    source = world.source()
    assert source.identity()
    assert [shard.shard_id for shard in source.list_shards()] == [FIRST]
    assert payloads(until(iter(source.read(FIRST, TRIM_HORIZON)), 6)) == RECORDS
    assert source.calls[operation] == 3


def test_a_refusal_that_is_cut_short_is_asked_for_again(world: World) -> None:
    world.put(*RECORDS)
    world.server.faults.add("GetRecords", "error", error="LimitExceededException", status=400, times=2)
    world.server.faults.add("GetRecords", "cut", keep=0.5, times=2)
    assert payloads(until(iter(world.source().read(FIRST, TRIM_HORIZON)), 6)) == RECORDS


def test_what_is_not_permitted_fails_at_once_with_a_remedy(world: World) -> None:
    world.server.faults.add("GetRecords", "error", error="AccessDeniedException", status=400)
    source = world.source()
    with pytest.raises(SourceError, match="AccessDeniedException") as caught:
        next(iter(source.read(FIRST, TRIM_HORIZON)))
    assert not caught.value.retryable
    assert "permissions" in caught.value.remedy
    assert source.calls["GetRecords"] == 1


# failures


@pytest.mark.parametrize("fault", [{"kind": "error", "status": 500}, {"kind": "reset"}, {"kind": "cut", "keep": 0.5}])
def test_a_failed_answer_is_asked_for_again_from_the_same_iterator(world: World, fault: dict[str, Any]) -> None:
    world.put(*RECORDS)
    used = iterators(world)
    source = world.source(page_records=2)
    world.server.faults.add("GetRecords", after=1, times=3, **fault)
    assert payloads(until(iter(source.read(FIRST, TRIM_HORIZON)), 6)) == RECORDS
    assert len(used) == 6
    assert len(set(used)) == 3
    assert len(set(used[1:5])) == 1
    assert source.calls["GetShardIterator"] == 1
    assert min(world.spacing_ms()) >= 200


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_a_body_that_is_always_cut_short_is_an_error_never_an_end(world: World, keep: float) -> None:
    world.put(*RECORDS)
    world.split()
    world.server.faults.add("GetRecords", "cut", keep=keep, times=1000)
    source = world.source(attempts=1)
    with pytest.raises(InvalidAnswer):
        list(source.read(FIRST, TRIM_HORIZON))
    assert source.calls["GetRecords"] == 6


@pytest.mark.parametrize("fault", [{"kind": "error", "status": 503}, {"kind": "reset"}])
def test_a_service_that_stays_away_is_an_error_naming_stream_and_endpoint(world: World, fault: dict[str, Any]) -> None:
    world.server.faults.add("GetRecords", times=1000, **fault)
    with pytest.raises(Unreachable, match=STREAM) as caught:
        list(world.source().read(FIRST, TRIM_HORIZON))
    assert world.server.endpoint_url in str(caught.value)
    assert caught.value.retryable


def test_a_server_that_is_not_there_is_an_error_naming_the_endpoint(world: World) -> None:
    source = world.source()
    world.server.stop()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        source.list_shards()


@pytest.mark.parametrize("field", ["Records", "MillisBehindLatest"])
def test_an_answer_that_lacks_a_field_is_asked_for_again(world: World, field: str) -> None:
    world.put(*RECORDS)
    wrong = {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "not used"}
    del wrong[field]
    answering(world, wrong, wrong)
    used = iterators(world)
    assert payloads(until(iter(world.source().read(FIRST, TRIM_HORIZON)), 6)) == RECORDS
    assert len(used) == 3
    assert len(set(used)) == 1


# iterators


def test_every_empty_answer_is_followed_by_its_own_iterator(world: World) -> None:  # R31
    world.server.options.empty_pages = 3
    world.put(*RECORDS)
    used = iterators(world)
    pages = until(iter(world.source().read(FIRST, TRIM_HORIZON)), 6)
    assert [page.records.num_rows for page in pages] == [0, 0, 0, 6]
    assert [page.next for page in pages[:3]] == [TRIM_HORIZON] * 3
    assert len(set(used)) == 4


def test_iterators_that_are_always_expired_are_an_error(world: World) -> None:
    world.server.faults.add("GetRecords", "error", error="ExpiredIteratorException", status=400, times=1000)
    source = world.source()
    with pytest.raises(InvalidAnswer, match="expired"):
        list(source.read(FIRST, TRIM_HORIZON))
    assert source.calls["GetRecords"] == 6


def test_a_reader_that_pauses_for_long_goes_on_where_it_was(world: World) -> None:  # R27
    world.put(*RECORDS)
    reading = iter(world.source(page_records=4).read(FIRST, TRIM_HORIZON))
    first = take(reading, 1)
    world.server.clock.advance(301)
    assert payloads(first + until(reading, 2)) == RECORDS


# ends


CHILD = {"ShardId": "shardId-000000000009", "ParentShards": [FIRST]}


@pytest.mark.parametrize(  # KV-7
    "wrong",
    [
        {"ChildShards": [{"ShardId": "shardId-000000000009", "ParentShards": []}]},
        {"NextShardIterator": "it", "ChildShards": [CHILD]},
        {},
        {"NextShardIterator": None, "ChildShards": []},
    ],
)
def test_a_contradictory_end_is_asked_for_again_from_the_same_iterator(world: World, wrong: dict[str, Any]) -> None:
    world.put(*RECORDS)
    answer = {"Records": [], "MillisBehindLatest": 0, **wrong}
    answering(world, answer, answer)
    used = iterators(world)
    pages = until(iter(world.source().read(FIRST, TRIM_HORIZON)), 6)
    assert payloads(pages) == RECORDS
    assert not any(page.ended for page in pages)
    assert len(used) == 3
    assert len(set(used)) == 1


def test_a_missing_iterator_on_an_open_shard_is_not_its_end(world: World) -> None:  # R30
    world.put(*RECORDS)
    world.server.faults.add("GetRecords", "no_iterator", times=2)
    world.server.faults.add("GetRecords", "empty", times=2)
    source = world.source()
    pages = until(iter(source.read(FIRST, TRIM_HORIZON)), 6)
    assert payloads(pages) == RECORDS
    assert not any(page.ended for page in pages)
    assert source.calls["ListShards"] == 2


def test_an_open_shard_that_never_gives_an_iterator_is_an_error(world: World) -> None:  # R30
    world.put(*RECORDS)
    world.server.faults.add("GetRecords", "no_iterator", times=1000)
    pages: list[Page] = []
    with pytest.raises(InvalidAnswer, match=FIRST):
        pages.extend(world.source().read(FIRST, TRIM_HORIZON))


@pytest.mark.parametrize("ends_with_records", [True, False])
@pytest.mark.parametrize("names_children", [True, False])
def test_a_closed_shard_ends_in_every_way_of_ending(
    world: World, ends_with_records: bool, names_children: bool
) -> None:  # R30, K-34, R09
    world.server.options.update(end_with_records=ends_with_records, name_children=names_children)
    world.put(*RECORDS)
    world.split()
    source = world.source()
    pages = list(source.read(FIRST, TRIM_HORIZON))
    assert payloads(pages) == RECORDS
    if names_children:
        assert len(pages) == (1 if ends_with_records else 2)
    assert pages[-1].ended
    assert not pages[-1].gone
    assert len(pages[-1].children) == 2
    assert source.calls["ListShards"] == (0 if names_children else 1)


def test_an_end_that_the_listing_does_not_show_yet_waits_for_it(world: World) -> None:  # K-10
    world.server.options.update(name_children=False)
    world.put(*RECORDS)
    world.split()
    world.server.faults.add("ListShards", "open_parent", times=3)
    source = world.source()
    pages = list(source.read(FIRST, TRIM_HORIZON))
    assert payloads(pages) == RECORDS
    assert (pages[-1].ended, source.calls["ListShards"]) == (True, 4)


def test_a_shard_that_left_the_stream_ends_as_gone(world: World) -> None:  # K-35
    numbers = world.put(*RECORDS)
    world.split()
    world.server.trim(STREAM, FIRST, forget=True)
    (page,) = world.source().read(FIRST, after(numbers[0]))
    assert (page.records.num_rows, page.ended, page.gone, page.children) == (0, True, True, ())
    assert page.next == after(numbers[0])


def test_a_shard_that_leaves_while_it_is_read_ends_as_gone(world: World) -> None:  # K-35
    world.put(*RECORDS)
    world.split()
    reading = iter(world.source(page_records=2).read(FIRST, TRIM_HORIZON))
    first = take(reading, 1)
    world.server.trim(STREAM, FIRST, forget=True)
    (last,) = list(reading)
    assert payloads(first) == RECORDS[:2]
    assert (last.ended, last.gone) == (True, True)


def test_a_listed_shard_that_the_service_denies_is_not_gone(world: World) -> None:
    world.server.faults.add("GetRecords", "error", error="ResourceNotFoundException", status=400, times=1000)
    with pytest.raises(InvalidAnswer, match=FIRST):
        list(world.source().read(FIRST, TRIM_HORIZON))


def test_a_shard_that_one_listing_lacks_is_not_gone(world: World) -> None:  # W11
    world.split()
    child = world.source().list_shards()[-1].shard_id
    world.server.faults.add("GetShardIterator", "error", error="ResourceNotFoundException", status=400)
    world.server.faults.add("ListShards", "hide_children")
    page = next(iter(world.source().read(child, TRIM_HORIZON)))
    assert not page.ended


def test_a_stream_that_is_being_deleted_is_missing(world: World) -> None:
    world.server.options.delete_seconds = 30.0
    world.client.delete_stream(StreamName=STREAM)
    with pytest.raises(StreamNotFound, match="deleted"):
        world.source().identity()


def test_a_stream_that_is_not_created_in_time_is_an_error(world: World) -> None:
    world.server.options.create_seconds = 600.0
    world.client.create_stream(StreamName="slow", ShardCount=1)
    source = type(world.source())(world.client, "slow", clock=world.time.clock)
    with pytest.raises(SourceError, match="still being created") as caught:
        source.identity()
    assert caught.value.retryable
    assert 55 < sum(world.time.slept) < 65
    world.server.clock.advance(600)
    assert len(source.list_shards()) == 1


def test_a_stream_in_updating_is_read_and_listed(world: World) -> None:  # K-9
    world.server.options.reshard_seconds = 600.0
    world.put(*RECORDS)
    world.split()
    source = world.source()
    status = world.client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamStatus"]
    assert status == "UPDATING"
    reading = iter(source.read(FIRST, TRIM_HORIZON))
    assert payloads(until(reading, 6)) == RECORDS
    assert [shard.closed for shard in source.list_shards()] == [False]
    assert source.identity()
    world.put(b"later")
    assert payloads(until(reading, 1)) == [b"later"]
    world.server.clock.advance(600)
    assert list(reading)[-1].ended


# logs


def test_no_record_bytes_stand_in_logs_or_errors(world: World, caplog: pytest.LogCaptureFixture) -> None:
    secret = b"a very secret value"
    world.put(secret)
    world.server.faults.add("GetRecords", "cut", keep=0.9, times=2)
    with caplog.at_level(logging.DEBUG):
        caplog.clear()
        assert payloads(until(iter(world.source().read(FIRST, TRIM_HORIZON)), 1)) == [secret]
        world.server.faults.add("GetRecords", "cut", keep=0.9, times=1000)
        with pytest.raises(InvalidAnswer) as caught:
            list(world.source().read(FIRST, TRIM_HORIZON))
    assert "GetRecords" in caplog.text
    for text in (caplog.text, str(caught.value)):
        assert "a very secret" not in text
        assert "YSB2ZXJ5IHNlY3JldCB2YWx1ZQ" not in text


@pytest.mark.parametrize("fan_out", [FanOut.NEVER, FanOut.ALWAYS])
def test_a_closed_shard_does_not_end_at_an_answer_that_lacks_its_iterator(
    world: World, fan_out: FanOut
) -> None:  # KV-7
    """The listing says that it is closed, and it has more records."""
    world.put(b"a", b"b")
    world.split()
    world.server.options.heartbeat_seconds = 0.02
    operation = "GetRecords" if fan_out is FanOut.NEVER else "SubscribeToShardEvent"
    world.server.faults.add(operation, "no_iterator")
    if fan_out is FanOut.NEVER:
        world.server.faults.add(operation, "empty")
    pages = list(world.source(fan_out=fan_out, app_name="etl").read(FIRST, TRIM_HORIZON))
    assert payloads(pages) == [b"a", b"b"]
    assert [child.shard_id[-1] for child in pages[-1].children] == ["1", "2"]
