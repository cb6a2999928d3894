# SPDX-License-Identifier: Apache-2.0
"""What single answers of Kinesis mean: listings that a reshard cuts in two, empty answers, denials, `LATEST`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from shardbatch.core.position import LATEST, TRIM_HORIZON, after, at_timestamp
from tests.integration.sources.kinesis_world import FIRST, World, payloads, stopped_server, take, until


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server() as server:
        yield World(server)


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


def answering(world: World, operation: str, *bodies: dict[str, Any]) -> None:
    """The next calls of an operation get these answers, then the server's own."""
    waiting = list(bodies)

    def answer(request: Any, **_: Any) -> AWSResponse | None:
        if not waiting:
            return None
        raw = json.dumps(waiting.pop(0)).encode()
        return AWSResponse(request.url, 200, {"content-length": str(len(raw))}, _Raw(raw))

    world.client.meta.events.register_last(f"before-send.kinesis.{operation}", answer)


def listed(shard_id: str, *, ends: str | None = None, parent: str | None = None) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": "1", **({"EndingSequenceNumber": ends} if ends else {})}
    whole = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
    return {
        **({"ParentShardId": parent} if parent else {}),
        "ShardId": shard_id,
        "HashKeyRange": whole,
        "SequenceNumberRange": numbers,
    }


@pytest.mark.parametrize("closed_first", [False, True])
def test_a_shard_that_two_listing_pages_show_is_closed_if_one_of_them_says_so(world: World, closed_first: bool) -> None:
    open_page, closed_page = [listed("s-0")], [listed("s-0", ends="9"), listed("s-1", parent="s-0")]
    first, second = (closed_page, open_page) if closed_first else (open_page, closed_page)
    answering(world, "ListShards", {"Shards": first, "NextToken": "next"}, {"Shards": second})  # K-10
    found = {shard.shard_id: shard.closed for shard in world.source().list_shards()}
    assert found == {"s-0": True, "s-1": False}


def test_a_trimmed_checkpoint_is_told_also_after_answers_without_records(world: World) -> None:  # K-7
    sent = world.put(b"gone", b"gone too", b"kept")
    record = {"SequenceNumber": sent[2], "Data": "a2VwdA==", "PartitionKey": "k", "ApproximateArrivalTimestamp": 1.0}
    empty = {"Records": [], "NextShardIterator": "i", "MillisBehindLatest": 5000}
    answering(world, "GetRecords", empty, empty, {**empty, "Records": [record], "MillisBehindLatest": 0})
    pages = take(world.source().read(FIRST, after(sent[0])), 3)
    assert [page.checkpoint_gone for page in pages] == [False, False, True]
    assert payloads(pages) == [b"kept"]


@pytest.mark.parametrize("closed", [False, True])
def test_one_denial_of_a_listed_shard_does_not_end_it(world: World, closed: bool) -> None:
    world.put(b"a", b"b")
    if closed:
        world.split()
    world.server.faults.add("GetRecords", "error", error="ResourceNotFoundException", status=400, times=1)
    pages = until(world.source().read(FIRST, TRIM_HORIZON), 2)
    assert payloads(pages) == [b"a", b"b"]
    assert not any(page.gone for page in pages)


def test_latest_leaves_out_nothing_that_comes_after_it_however_soon(world: World) -> None:  # K-32
    now = datetime.fromtimestamp(world.time.clock.now_ms() // 1000, UTC)

    def dated(parsed: dict[str, Any], **_: Any) -> None:
        """As the service answers: its time, in whole seconds."""
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = format_datetime(now, usegmt=True)

    world.client.meta.events.register_last("after-call.kinesis.DescribeStreamSummary", dated)
    start = world.source().resolve(LATEST)
    assert start == at_timestamp(round(now.timestamp() * 1000))
    world.put(b"at once")
    world.time.sleep(0.4)
    world.put(b"a moment later")
    pages = until(world.source().read(FIRST, start), 2)
    assert payloads(pages) == [b"at once", b"a moment later"]


def test_a_lag_of_zero_beside_records_is_no_tip_and_one_beside_nothing_is(world: World) -> None:  # R33
    world.put(b"a", b"b")
    records, nothing = take(world.source().read(FIRST, TRIM_HORIZON), 2)
    assert (records.records.num_rows, records.lag_ms, records.at_tip) == (2, 0, False)
    assert (nothing.records.num_rows, nothing.lag_ms, nothing.at_tip) == (0, 0, True)
