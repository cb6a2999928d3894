# SPDX-License-Identifier: Apache-2.0
"""Places that the service refuses, and records that it sends from before a place."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import CredentialRetrievalError, NoCredentialsError

from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.slice import Oddities
from shardbatch.core.waiting import Waiting
from shardbatch.errors import SourceError, StreamNotFound
from shardbatch.sources.aws.refusals import Unreachable
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.options import FanOut, KinesisOptions
from shardbatch.sources.kinesis.refusals import PlaceRefused
from shardbatch.sources.kinesis.source import KinesisSource
from tests.integration.sources.kinesis_world import FIRST, STREAM, World, payloads, stopped_server, take, until
from tests.support.aws import ACCOUNT, REGION, SECRET

REFUSED = {"kind": "error", "error": "InvalidArgumentException", "status": 400}


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server(heartbeat_seconds=0.02) as server:
        yield World(server)


@pytest.mark.parametrize("fan_out", [FanOut.NEVER, FanOut.ALWAYS])
def test_a_refused_checkpoint_that_expired_is_a_gap(world: World, fan_out: FanOut) -> None:
    sent = world.put(b"read", b"expired", b"held")
    world.server.trim(STREAM, FIRST, keep=1)
    operation = "GetShardIterator" if fan_out is FanOut.NEVER else "SubscribeToShard"
    world.server.faults.add(operation, **REFUSED)
    source = world.source(fan_out=fan_out, app_name="etl")
    pages = until(source.read(FIRST, after(sent[0])), 1)
    assert payloads(pages) == [b"held"]
    assert [page.checkpoint_gone for page in pages].count(True) == 1


def test_a_refused_checkpoint_of_a_shard_that_holds_nothing_is_a_gap(world: World) -> None:
    sent = world.put(b"read", b"expired")
    world.server.trim(STREAM, FIRST)
    world.server.faults.add("GetShardIterator", **REFUSED)
    (page,) = take(world.source().read(FIRST, after(sent[0])), 1)
    assert (page.records.num_rows, page.checkpoint_gone, page.next) == (0, True, after(sent[0]))


def test_a_refused_checkpoint_that_is_the_oldest_record_is_read_on_from(world: World) -> None:
    sent = world.put(b"expired", b"read", b"held")
    world.server.trim(STREAM, FIRST, keep=2)
    world.server.faults.add("GetShardIterator", **REFUSED)
    pages = until(world.source().read(FIRST, after(sent[1])), 1)
    assert payloads(pages) == [b"held"]
    assert not any(page.checkpoint_gone for page in pages)


def test_a_place_beyond_the_end_is_an_error_that_says_so(world: World) -> None:
    (last,) = world.put(b"the only one")
    beyond = after(str(int(last) + 2**20))
    with pytest.raises(SourceError, match="does not know the place") as caught:
        next(world.source().read(FIRST, beyond))
    assert str(beyond) in str(caught.value)
    assert FIRST in caught.value.remedy
    assert "TRIM_HORIZON" in caught.value.remedy
    assert "permission" not in str(caught.value)
    assert not caught.value.retryable
    assert len(world.server.calls.list("GetShardIterator")) == 2


def test_a_place_that_is_refused_in_mid_read_is_compared_with_what_is_held(world: World) -> None:
    sent = world.put(b"a", b"b")
    reading = world.source().read(FIRST, TRIM_HORIZON)
    assert payloads(until(reading, 2)) == [b"a", b"b"]
    world.put(b"expired", b"held")
    world.server.trim(STREAM, FIRST, keep=1)
    world.server.faults.add("GetRecords", "error", error="ExpiredIteratorException", status=400)
    world.server.faults.add("GetShardIterator", **REFUSED)
    pages = until(reading, 1)
    assert payloads(pages) == [b"held"]
    assert [page.checkpoint_gone for page in pages].count(True) == 1
    assert pages[-1].next > after(sent[1])


def test_a_call_that_is_refused_at_the_oldest_record_too_is_malformed(world: World) -> None:
    sent = world.put(b"a", b"b")
    for start in (TRIM_HORIZON, after(sent[0])):
        world.server.faults.add("GetShardIterator", times=3, **REFUSED)
        with pytest.raises(SourceError, match="malformed") as caught:
            next(world.source().read(FIRST, start))
        assert not caught.value.retryable
        assert "clock" not in str(caught.value)
        world.server.faults.clear()


def test_a_start_in_the_future_is_an_error_that_waiting_mends(world: World) -> None:
    ahead = at_timestamp(world.time.clock.now_ms() + 60_000)
    with pytest.raises(PlaceRefused, match="future") as caught:
        next(world.source().read(FIRST, ahead))
    assert caught.value.retryable


def test_a_start_that_is_ahead_by_a_moment_is_waited_for(world: World) -> None:
    """Of two machines of the service one may be behind the other, and a claim goes by one of them."""
    instant = world.time.clock.now_ms() + 500
    reading = world.source().read(FIRST, at_timestamp(instant))
    world.put(b"before")
    assert next(reading).records.num_rows == 0
    assert world.time.clock.now_ms() >= instant
    world.put(b"then")
    assert payloads(until(reading, 1)) == [b"then"]


def below(source: KinesisSource, start: str) -> None:
    """The first answer that is asked for at a place also has what stands before it."""
    honest, polled = source._caller.records, []

    def records(*args: Any) -> Decoded:
        found = honest(*args)
        if polled:
            return found
        polled.append(start)
        iterator = source._caller.client.get_shard_iterator(
            StreamName=STREAM, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return replace(found, records=honest(iterator, args[1]).records)

    source._caller.records = records  # type: ignore[method-assign]


def test_records_below_the_place_that_was_asked_for_are_counted(world: World) -> None:
    sent = world.put(b"a", b"b", b"c", b"d")
    source = world.source()
    below(source, sent[2])
    pages = until(source.read(FIRST, after(sent[2])), 1)
    assert payloads(pages) == [b"d"]
    assert sum((page.oddities for page in pages), Oddities()) == Oddities(below=2)
    assert not any(page.checkpoint_gone for page in pages)


def test_records_below_do_not_hide_that_the_checkpoint_is_gone(world: World) -> None:
    sent = world.put(b"a", b"b", b"c", b"d")
    source = world.source()
    honest = source._caller.records

    def without_c(*args: Any) -> Decoded:
        found = honest(*args)
        kept = [n for n, number in enumerate(found.records.column(0).to_pylist()) if number != sent[2]]
        return replace(found, records=found.records.take(kept))

    source._caller.records = without_c  # type: ignore[method-assign]
    below(source, sent[2])
    pages = until(source.read(FIRST, after(sent[2])), 1)
    assert payloads(pages) == [b"d"]
    assert [page.checkpoint_gone for page in pages] == [True]


# waiting


def waited(pages: list[Any]) -> Waiting:
    return sum((page.waiting for page in pages), Waiting())


def test_what_the_services_limits_cost_is_told(world: World) -> None:
    world.put(*(b"r%d" % n for n in range(6)))
    error = "ProvisionedThroughputExceededException"
    world.server.faults.add("GetRecords", "error", error=error, status=400, times=3)
    pages = until(world.source(page_records=2).read(FIRST, TRIM_HORIZON), 6)
    found = waited(pages)
    assert (found.refused, found.resubscribed) == (3, 0)
    assert found.seconds == pytest.approx(sum(world.time.slept), abs=0.02)


def test_waiting_for_new_records_is_not_told_as_waiting_for_limits(world: World) -> None:
    pages = take(world.source(calls_per_second=5).read(FIRST, TRIM_HORIZON), 10)
    assert sum(world.time.slept) > 8
    assert waited(pages).seconds < 2.5


def test_renewed_subscriptions_are_told(world: World) -> None:
    world.put(b"a", b"b")
    world.server.faults.add("SubscribeToShardEvent", "cut", keep=0.5, times=2)
    pages = until(world.source(fan_out=FanOut.ALWAYS, app_name="etl").read(FIRST, TRIM_HORIZON), 2)
    assert waited(pages).resubscribed == 2
    assert waited(pages).seconds > 5


# silence and passing faults


def test_a_subscription_that_stays_silent_ends(world: World) -> None:
    world.server.options.heartbeat_seconds = 60.0
    session = boto3.session.Session(aws_access_key_id=ACCOUNT, aws_secret_access_key=SECRET, region_name=REGION)
    impatient = Config(retries={"total_max_attempts": 1}, read_timeout=0.2)
    client = session.client("kinesis", endpoint_url=world.server.endpoint_url, config=impatient)
    options = KinesisOptions(fan_out=FanOut.ALWAYS, app_name="etl")
    source = KinesisSource(client, STREAM, clock=world.time.clock, options=options)
    assert waited(take(source.read(FIRST, TRIM_HORIZON), 15)).resubscribed == 2  # each began with an event


@pytest.mark.parametrize("code", ["InvalidSignatureException", "ExpiredTokenException", "UnrecognizedClientException"])
def test_a_refusal_that_passes_is_waited_out(world: World, code: str) -> None:
    world.put(b"a")
    for operation in ("DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"):
        world.server.faults.add(operation, "error", error=code, status=400, times=2)
    source = world.source()
    assert source.identity()
    assert len(source.list_shards()) == 1
    assert payloads(until(source.read(FIRST, TRIM_HORIZON), 1)) == [b"a"]
    world.server.faults.add("GetRecords", "error", error=code, status=400, times=1000)
    with pytest.raises(Unreachable, match=code) as caught:
        list(world.source().read(FIRST, TRIM_HORIZON))
    assert caught.value.retryable


@pytest.mark.parametrize(
    "fault",
    [
        CredentialRetrievalError(provider="assume-role", error_msg="busy"),
        NoCredentialsError(),
        RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired."),
    ],
)
def test_credentials_that_cannot_be_had_for_a_moment_are_waited_for(world: World, fault: Exception) -> None:
    world.put(b"a", b"b")
    reading = world.source(page_records=1).read(FIRST, TRIM_HORIZON)
    got = payloads(until(reading, 1))
    left = [fault] * 3

    def fail(**_: Any) -> None:
        if left:
            raise left.pop()

    world.client.meta.events.register("before-call.kinesis.GetRecords", fail)
    got += payloads(until(reading, 1))
    assert (got, left) == ([b"a", b"b"], [])
    left += [fault] * 1000
    with pytest.raises(Unreachable, match="could not be sent") as caught:
        until(reading, 1)
    assert caught.value.retryable


def test_a_stream_that_is_denied_once_is_not_missing(world: World) -> None:
    world.server.faults.add("DescribeStreamSummary", "error", error="ResourceNotFoundException", status=400, times=2)
    assert world.source().identity()
    world.server.faults.add("ListShards", "error", error="ResourceNotFoundException", status=400)
    assert len(world.source().list_shards()) == 1
    world.client.delete_stream(StreamName=STREAM)
    with pytest.raises(StreamNotFound):
        world.source().list_shards()


def test_a_missing_stream_is_not_told_as_a_shard_whose_retention_has_passed(world: World) -> None:
    source = KinesisSource(world.client, "ordres", clock=world.time.clock)
    for ask in (source.identity, source.list_shards, lambda: next(source.read(FIRST, TRIM_HORIZON))):
        with pytest.raises(StreamNotFound) as caught:
            ask()
        told = "".join(traceback.format_exception(caught.value))
        assert "Check the stream's name" in told
        assert "Its retention" not in told
