# SPDX-License-Identifier: Apache-2.0
"""Enhanced fan-out: subscriptions, their renewal and their failures, and the consumer's life."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.errors import SourceError, StreamNotFound, Throttled
from shardbatch.sources.kinesis.options import FanOut
from shardbatch.sources.kinesis.registration import consumer_name
from shardbatch.sources.kinesis.source import KinesisSource
from tests.integration.sources.kinesis_world import FIRST, STREAM, World, payloads, stopped_server, take, until
from tests.support.aggregates import FIXTURE

RECORDS = [b"r%d" % n for n in range(6)]
EVENT = "SubscribeToShardEvent"
CONSUMER = consumer_name("etl")


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server(heartbeat_seconds=0.02) as server:
        yield World(server)


def fanned(world: World, **options: Any) -> KinesisSource:
    return world.source(**{"fan_out": FanOut.ALWAYS, "app_name": "etl", **options})


def consumers(world: World) -> list[str]:
    listed = world.client.list_stream_consumers(StreamARN=arn(world))["Consumers"]
    return [consumer["ConsumerName"] for consumer in listed]


def arn(world: World) -> str:
    summary = world.client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    return str(summary["StreamARN"])


def starts(world: World) -> list[dict[str, Any]]:
    """From now on, the places that subscriptions begin at."""
    seen: list[dict[str, Any]] = []
    world.client.meta.events.register(
        "provide-client-params.kinesis.SubscribeToShard", lambda params, **_: seen.append(params["StartingPosition"])
    )
    return seen


# records


def test_records_come_by_subscription_without_a_single_poll(world: World) -> None:
    numbers = world.put(*RECORDS)
    source = fanned(world)
    pages = source.read(FIRST, TRIM_HORIZON)
    first = until(pages, 6)
    assert payloads(first) == RECORDS
    assert first[-1].next == after(numbers[-1])
    assert first[-1].lag_ms == 0
    world.put(b"later")
    assert payloads(until(pages, 1)) == [b"later"]
    assert source.calls["GetRecords"] == source.calls["GetShardIterator"] == 0
    assert source.calls["SubscribeToShard"] == 1


def test_a_quiet_shard_still_gives_pages(world: World) -> None:
    pages = take(fanned(world).read(FIRST, TRIM_HORIZON), 3)
    assert [(page.records.num_rows, page.lag_ms) for page in pages] == [(0, 0)] * 3


def test_reading_goes_on_after_a_checkpoint(world: World) -> None:
    numbers = world.put(*RECORDS)
    page = next(iter(fanned(world).read(FIRST, after(numbers[2]))))
    assert payloads([page]) == RECORDS[3:]
    assert not page.checkpoint_gone


def test_an_aggregate_comes_as_its_records_and_reading_goes_on_inside_of_it(world: World) -> None:  # K-42, KV-10
    (sent,) = world.put(FIXTURE)
    pages = until(fanned(world, page_records=2).read(FIRST, TRIM_HORIZON), 3)
    assert payloads(pages) == [b"one", b"two", b"three"]
    assert [page.next for page in pages if page.records.num_rows] == [after(sent, 1), after(sent, 2)]
    assert payloads(until(fanned(world).read(FIRST, after(sent, 1)), 1)) == [b"three"]


def test_reading_goes_on_from_a_time(world: World) -> None:
    world.put(b"old")
    world.server.clock.advance(10)
    moment = world.server.clock.now_ms()
    world.put(b"new")
    assert payloads(until(fanned(world).read(FIRST, at_timestamp(moment)), 1)) == [b"new"]


def test_a_checkpoint_whose_record_expired_is_told(world: World) -> None:  # R16
    numbers = world.put(*RECORDS)
    world.server.trim(STREAM, keep=2)
    page = next(iter(fanned(world).read(FIRST, after(numbers[0]))))
    assert page.checkpoint_gone
    assert payloads([page]) == RECORDS[4:]


@pytest.mark.parametrize("names_children", [True, False])
def test_a_shard_ends_with_its_children(world: World, names_children: bool) -> None:  # KV-7
    world.server.options.name_children = names_children
    world.put(*RECORDS)
    world.split()
    pages = list(fanned(world).read(FIRST, TRIM_HORIZON))
    assert payloads(pages) == RECORDS
    assert [page.ended for page in pages] == [False] * (len(pages) - 1) + [True]
    assert [child.shard_id[-1] for child in pages[-1].children] == ["1", "2"]


def test_a_shard_that_ends_while_it_is_read_ends_the_read(world: World) -> None:
    world.put(*RECORDS)
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    until(pages, 6)
    world.put(b"last")
    world.split()
    rest = list(pages)
    assert payloads(rest) == [b"last"]
    assert rest[-1].ended


# subscriptions, one after the other


def test_a_subscription_that_is_over_is_renewed_where_it_ended(world: World) -> None:
    numbers = world.put(*RECORDS)
    places = starts(world)
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    until(pages, 6)
    world.server.clock.advance(301)
    world.put(b"later")
    assert payloads(until(pages, 1)) == [b"later"]
    assert places == [
        {"Type": "TRIM_HORIZON"},
        {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": numbers[-1]},
    ]


def test_an_empty_scan_is_not_made_again(world: World) -> None:
    places = starts(world)
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    take(pages, 2)
    world.server.clock.advance(301)
    world.put(b"later")
    assert payloads(until(pages, 1)) == [b"later"]
    assert [place["Type"] for place in places] == ["TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER"]


@pytest.mark.parametrize("kind", ["cut", "reset"])
def test_a_subscription_that_breaks_off_is_renewed_and_nothing_is_lost_or_doubled(world: World, kind: str) -> None:
    world.put(*RECORDS)
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    until(pages, 6)
    world.server.faults.add(EVENT, kind, keep=0.7)
    world.put(b"later")
    assert payloads(until(pages, 1)) == [b"later"]
    world.put(b"last")
    assert payloads(until(pages, 1)) == [b"last"]
    calls = [call.clock_ms for call in world.server.calls.list("SubscribeToShard")]
    assert len(calls) == 2
    assert calls[1] - calls[0] >= 5_000  # within that the service refuses


@pytest.mark.parametrize(
    "error",
    ["InternalFailureException", "ResourceInUseException", "KMSThrottlingException", "ResourceNotFoundException"],
)
def test_an_error_among_the_events_is_waited_out(world: World, error: str) -> None:
    world.put(*RECORDS)
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    until(pages, 6)
    world.server.faults.add(EVENT, "error", error=error, times=2)
    world.put(b"later")
    assert payloads(until(pages, 1)) == [b"later"]


def test_records_of_an_event_that_is_not_believed_are_asked_for_again(world: World) -> None:
    world.put(*RECORDS)
    world.server.faults.add(EVENT, "no_iterator", times=2)  # as at the end of a shard, but the listing shows it open
    pages = until(fanned(world).read(FIRST, TRIM_HORIZON), 6)
    assert payloads(pages) == RECORDS
    assert not pages[-1].ended


def test_an_error_that_does_not_pass_is_raised(world: World) -> None:
    world.server.faults.add(EVENT, "error", error="KMSAccessDeniedException", message="no key", times=100)
    with pytest.raises(SourceError, match=r"KMSAccessDeniedException: no key"):
        list(fanned(world).read(FIRST, TRIM_HORIZON))


def test_another_subscription_takes_the_place_and_gives_it_back(world: World) -> None:
    """As a zombie of the same application would: both go on, and neither loses a record."""
    world.put(*RECORDS)
    mine, other = fanned(world).read(FIRST, TRIM_HORIZON), fanned(world).read(FIRST, TRIM_HORIZON)
    assert payloads(until(mine, 6)) == RECORDS
    world.server.clock.advance(6)
    assert payloads(until(other, 6)) == RECORDS
    world.put(b"later")
    assert payloads(until(mine, 1)) == [b"later"]
    assert payloads(until(other, 1)) == [b"later"]


def test_a_refused_subscription_shows_as_a_page_of_unknown_lag(world: World) -> None:
    world.put(*RECORDS)
    world.server.faults.add("SubscribeToShard", "error", error="LimitExceededException", times=3)
    pages = until(fanned(world).read(FIRST, TRIM_HORIZON), 6)
    assert [page.lag_ms for page in pages[:-1]] == [None] * 3
    world.server.faults.add("SubscribeToShard", "error", error="LimitExceededException", times=100)
    with pytest.raises(Throttled, match="subscribe_to_shard"):
        list(fanned(world, throttles=3).read(FIRST, TRIM_HORIZON))


def test_a_read_that_stops_closes_its_subscription(world: World) -> None:
    world.put(*RECORDS)
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    until(pages, 6)
    pages.close()  # type: ignore[attr-defined]
    world.put(b"nobody listens")
    world.server.clock.advance(6)
    until(fanned(world).read(FIRST, TRIM_HORIZON), 7)
    events = [call.error for call in world.server.calls.list(EVENT)]
    assert "ResourceInUseException" not in events  # there was nothing to take over


# the consumer


def test_a_consumer_is_awaited_until_it_is_active_and_serves_every_shard(world: World) -> None:
    world.server.options.consumer_seconds = 7
    world.put(*RECORDS)
    source = fanned(world)
    pages = until(source.read(FIRST, TRIM_HORIZON), 6)
    assert {page.lag_ms for page in pages[:-1]} == {None}
    assert 7 <= sum(world.time.slept) <= 9
    assert payloads(until(source.read(FIRST, TRIM_HORIZON), 6)) == RECORDS
    assert source.calls["RegisterStreamConsumer"] == 1


def test_a_consumer_that_a_dead_run_left_is_used_and_removed(world: World) -> None:
    world.client.register_stream_consumer(StreamARN=arn(world), ConsumerName=CONSUMER)
    world.put(*RECORDS)
    source = fanned(world)
    assert payloads(until(source.read(FIRST, TRIM_HORIZON), 6)) == RECORDS
    source.end_reading(lambda: False)
    assert consumers(world) == []


def test_a_consumer_that_cannot_be_removed_yet_is_removed_a_little_later(world: World) -> None:
    source = fanned(world)
    next(iter(source.read(FIRST, TRIM_HORIZON)))
    world.server.faults.add("DeregisterStreamConsumer", "error", error="ResourceInUseException", times=3)
    source.end_reading(lambda: False)
    assert consumers(world) == []


def test_a_run_that_needs_no_consumer_removes_what_a_dead_one_left(world: World) -> None:
    for name in (CONSUMER, "somebody-else"):
        world.client.register_stream_consumer(StreamARN=arn(world), ConsumerName=name)
    source = fanned(world, fan_out=FanOut.AUTO)
    source.identity()
    source.end_reading(lambda: True)
    assert len(consumers(world)) == 2
    source.end_reading(lambda: False)
    assert consumers(world) == ["somebody-else"]


def test_a_stream_without_consumers_is_not_asked_to_remove_one(world: World) -> None:
    source = fanned(world, fan_out=FanOut.AUTO)
    source.identity()
    source.end_reading(lambda: False)
    assert source.calls["DeregisterStreamConsumer"] == 0


def test_a_consumer_stays_while_others_read(world: World) -> None:
    world.put(*RECORDS)
    source = fanned(world)
    until(source.read(FIRST, TRIM_HORIZON), 6)
    source.end_reading(lambda: True)
    assert consumers(world) == [CONSUMER]


def test_a_consumer_that_is_removed_under_a_read_is_registered_anew(world: World) -> None:
    world.server.options.consumer_seconds = 3
    world.put(*RECORDS)
    source = fanned(world)
    pages = source.read(FIRST, TRIM_HORIZON)
    until(pages, 6)
    fanned(world).end_reading(lambda: False)  # one that has used none leaves it
    world.client.deregister_stream_consumer(StreamARN=arn(world), ConsumerName=CONSUMER)
    world.put(b"later")
    assert payloads(until(pages, 1)) == [b"later"]
    assert source.calls["RegisterStreamConsumer"] >= 2


def test_a_stream_that_is_gone_is_named(world: World) -> None:
    pages = fanned(world).read(FIRST, TRIM_HORIZON)
    next(iter(pages))
    world.client.delete_stream(StreamName=STREAM, EnforceConsumerDeletion=True)
    with pytest.raises(StreamNotFound, match=STREAM):
        list(pages)


def test_a_consumer_that_cannot_be_registered_fails_the_read(world: World) -> None:
    world.server.faults.add("RegisterStreamConsumer", "error", error="AccessDeniedException", message="no", times=9)
    with pytest.raises(SourceError, match="AccessDeniedException"):
        list(fanned(world).read(FIRST, TRIM_HORIZON))


def test_a_removal_that_is_refused_is_said_and_fails_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    source = fanned(world)
    next(iter(source.read(FIRST, TRIM_HORIZON)))
    world.server.faults.add("DeregisterStreamConsumer", "error", error="AccessDeniedException", message="no")
    source.end_reading(lambda: False)
    assert "stays registered" in caplog.text


def test_a_person_who_removes_it_is_told_whether_it_was_there_and_what_was_refused(world: World) -> None:
    found = fanned(world)._registration
    assert found is not None
    assert (found.name, found.stands(), found.take_away()) == (CONSUMER, False, False)
    world.client.register_stream_consumer(StreamARN=arn(world), ConsumerName=CONSUMER)
    assert found.stands()
    for operation in ("DescribeStreamConsumer", "DeregisterStreamConsumer"):
        world.server.faults.add(operation, "error", error="AccessDeniedException", message="no")
    with pytest.raises(SourceError, match="AccessDeniedException"):
        found.stands()
    with pytest.raises(SourceError, match="AccessDeniedException"):
        found.take_away()
    assert consumers(world) == [CONSUMER]
    assert found.take_away()
    assert consumers(world) == []


def test_a_stream_that_is_gone_has_no_consumer(world: World) -> None:
    found = fanned(world)._registration
    assert found is not None
    world.client.delete_stream(StreamName=STREAM, EnforceConsumerDeletion=True)
    assert (found.stands(), found.take_away()) == (False, False)


def test_a_consumer_that_may_not_be_there_is_not_said_to_cost_money(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Under ``AUTO`` most roles may neither register nor remove; the stream has a consumer, but it is another's."""
    caplog.set_level("INFO")
    world.client.register_stream_consumer(StreamARN=arn(world), ConsumerName="somebody-else")
    world.server.faults.add("DeregisterStreamConsumer", "error", error="AccessDeniedException", message="no")
    source = fanned(world, fan_out=FanOut.AUTO)
    source.identity()
    source.end_reading(lambda: False)
    assert [record.levelname for record in caplog.records if CONSUMER in record.getMessage()] == ["INFO"]
    assert "costs money" not in caplog.text


@pytest.mark.parametrize("name", ["etl", "a b/ü", "x" * 200])
def test_a_consumers_name_is_one_that_the_service_takes(world: World, name: str) -> None:
    world.client.register_stream_consumer(StreamARN=arn(world), ConsumerName=consumer_name(name))
    assert consumer_name(name) != consumer_name(name + "?")


def test_record_bytes_stand_in_no_debug_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    world.put(b"secret")
    until(fanned(world).read(FIRST, TRIM_HORIZON), 1)
    assert "c2VjcmV0" not in caplog.text.replace(_sent(caplog.text), "")


def _sent(text: str) -> str:
    """What the producer's own request wrote into the log."""
    return next(line for line in text.splitlines() if "PutRecords" in line and "c2VjcmV0" in line)


# chosen by itself


def backlog(world: World, monkeypatch: pytest.MonkeyPatch) -> int:
    """240 records of 10 kB, ten a second: with the pace of :func:`choosing`, an hour of polling."""
    monkeypatch.setattr("shardbatch.sources.kinesis.fan_out.LEAST_BACKLOG", 1_000_000)
    for _ in range(24):
        world.put(*[b"x" * 10_000] * 10)
        world.server.clock.advance(1)
    return 240


def choosing(world: World, **options: Any) -> KinesisSource:
    options = {"page_records": 1, "calls_per_second": 0.5, "budget": timedelta(minutes=2), **options}
    return fanned(world, fan_out=FanOut.AUTO, **options)


def test_polling_that_cannot_finish_goes_over_to_fan_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    records = backlog(world, monkeypatch)
    world.server.options.consumer_seconds = 4
    source = choosing(world)
    pages = until(source.read(FIRST, TRIM_HORIZON), records)
    assert sum(page.records.num_rows for page in pages) == records
    numbers = [int(number) for page in pages for number in page.records.column("sequence_number").to_pylist()]
    assert numbers == sorted(set(numbers))
    assert source.calls["SubscribeToShard"] == 1
    # The first ten records arrived in one moment; then it can be measured, and polled on until the consumer is there.
    assert 11 < source.calls["GetRecords"] < 20
    assert sum(world.time.slept) < 40


def test_polling_that_will_finish_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    records = backlog(world, monkeypatch)
    source = choosing(world, page_records=100)
    until(source.read(FIRST, TRIM_HORIZON), records)
    assert source.calls["RegisterStreamConsumer"] == 0


def test_turns_of_other_shards_are_no_slowness(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that was just refused waits for its turn: only its own wait after the refusal counts."""
    records = backlog(world, monkeypatch)
    source = choosing(world, page_records=100)
    pages = source.read(FIRST, TRIM_HORIZON)
    until(pages, 100)
    world.server.faults.add("GetRecords", "error", error="ProvisionedThroughputExceededException")
    assert next(pages).lag_ms is None
    world.server.clock.advance(80)
    until(pages, records - 100)
    assert source.calls["RegisterStreamConsumer"] == 0


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("RegisterStreamConsumer", "AccessDeniedException"),
        ("RegisterStreamConsumer", "LimitExceededException"),
        ("SubscribeToShard", "AccessDeniedException"),  # a policy that names the stream, but not its consumers
        (EVENT, "KMSAccessDeniedException"),
    ],
)
def test_polling_goes_on_where_fan_out_may_not_be_used(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, operation: str, error: str
) -> None:
    records = backlog(world, monkeypatch)
    world.server.faults.add(operation, "error", error=error, times=9)
    source = choosing(world)
    pages = until(source.read(FIRST, TRIM_HORIZON), records)
    assert sum(page.records.num_rows for page in pages) == records
    assert source.calls["RegisterStreamConsumer"] == 1
    assert caplog.text.count("so polling goes on") == 1


def test_polling_goes_on_with_a_botocore_that_shows_no_body(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    records = backlog(world, monkeypatch)
    source = choosing(world)
    world.client.meta.events.unregister("before-parse.kinesis", unique_id="shardbatch-before-parse")
    assert sum(page.records.num_rows for page in until(source.read(FIRST, TRIM_HORIZON), records)) == records
    assert source.calls["SubscribeToShard"] == 1


@pytest.mark.parametrize("events", [0, 1])
def test_polling_goes_on_where_subscriptions_keep_failing(
    world: World, monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    records = backlog(world, monkeypatch)
    world.server.faults.add(EVENT, "cut", after=events, times=100)
    source = choosing(world)
    pages = until(source.read(FIRST, TRIM_HORIZON), records)
    numbers = [int(number) for page in pages for number in page.records.column("sequence_number").to_pylist()]
    assert (len(numbers), numbers) == (records, sorted(set(numbers)))
    assert source.calls["SubscribeToShard"] == 3


def test_without_an_application_shards_are_polled(world: World) -> None:
    world.put(*RECORDS)
    source = world.source(fan_out=FanOut.ALWAYS)
    until(source.read(FIRST, TRIM_HORIZON), 6)
    assert source.calls["SubscribeToShard"] == 0
