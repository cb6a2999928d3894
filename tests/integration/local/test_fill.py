# SPDX-License-Identifier: Apache-2.0
"""Filling a stream."""

from __future__ import annotations

import pytest

from shardbatch.local import Clock, FillError, StreamServer, fill_stream

ROOT = "shardId-000000000000"


def contents(server: StreamServer, stream: str) -> list[int]:
    """Records of each shard."""
    found = server.engine.find(server.engine.home(), stream)
    return [shard.next_count - shard.first_count for shard in found.shards.values()]


def test_every_record_is_put_once_and_in_order(server: StreamServer, client: object) -> None:
    server.engine.create("s")
    seen: list[int] = []
    records = ((f"key-{number % 7}", b"%d" % number) for number in range(1_234))
    assert fill_stream(server.endpoint_url, "s", records, progress=seen.append) == 1_234
    assert seen == [500, 1000, 1234]
    iterator = client.get_shard_iterator(StreamName="s", ShardId=ROOT, ShardIteratorType="TRIM_HORIZON")  # type: ignore[attr-defined]
    read = client.get_records(ShardIterator=iterator["ShardIterator"])["Records"]  # type: ignore[attr-defined]
    assert [int(record["Data"]) for record in read] == list(range(1_234))


def test_large_records_are_spread_over_several_calls(server: StreamServer) -> None:
    server.engine.create("s")
    assert fill_stream(server.endpoint_url, "s", [("k", b"x" * 1_000_000)] * 12) == 12
    assert contents(server, "s") == [12]
    assert [call.records for call in server.calls.list("PutRecords")] == [5, 5, 2]


def test_nothing_to_put_is_no_call(server: StreamServer) -> None:
    assert fill_stream(server.endpoint_url, "missing", []) == 0
    assert server.calls.count() == 0


def test_throttled_records_are_put_again(server: StreamServer) -> None:
    server.options.limits = True
    server.engine.create("s")
    assert fill_stream(server.endpoint_url, "s", [("k", b"%d" % number) for number in range(1_500)]) == 1_500
    assert contents(server, "s") == [1_500]


def test_throttling_without_end_is_an_error() -> None:
    with StreamServer(clock=Clock(lambda: 1_700_000_000.0), limits=True) as server:
        server.engine.create("s")
        with pytest.raises(FillError, match="throttling"):
            fill_stream(server.endpoint_url, "s", [("k", b"")] * 1_001, timeout=2)


def test_a_refusal_is_an_error_that_says_why(server: StreamServer) -> None:
    with pytest.raises(FillError, match="no stream missing"):
        fill_stream(server.endpoint_url, "missing", [("k", b"")])
