# SPDX-License-Identifier: Apache-2.0
"""Records: routing, iterators, reads, the end of a shard, limits of size."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from shardbatch.local.stream import hash_of
from tests.unit.local.caller import NOW, Caller, shard_id, texts

HASH_END = 2**128 - 1
MIB = 1024 * 1024


def encoded(size: int) -> str:
    return b64encode(b"x" * size).decode()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", 16955237001963240173058271559858726497),
        ("b", 195289424170611159128911017612795795343),
        ("cat", 277102220249073555409885156483852860632),
        ("user-1", 285573413173782752570879317399258818820),
    ],
)
def test_a_partition_key_hashes_to_its_md5(key: str, expected: int) -> None:  # K-3, KV-11
    assert hash_of(key) == expected


@pytest.mark.parametrize(("hash_key", "shard"), [(0, 0), (2**127 - 1, 0), (2**127, 1), (HASH_END, 1)])
def test_an_explicit_hash_key_overrides_the_partition_key(hash_key: int, shard: int) -> None:  # K-3
    caller = Caller()
    caller.create(shards=2)
    assert caller.put("x", hash_key=hash_key)[0]["ShardId"] == shard_id(shard)


@pytest.mark.parametrize("hash_key", [str(2**128), "-1", "01", "x", ""])
def test_a_bad_hash_key_is_refused(hash_key: str) -> None:
    caller = Caller()
    caller.create()
    refusal = caller.refused("PutRecord", StreamName="s", PartitionKey="k", Data="", ExplicitHashKey=hash_key)
    assert refusal == "InvalidArgumentException"


def test_records_come_back_as_they_went_in_and_in_order() -> None:
    caller = Caller()
    caller.create()
    keys = ["plain", 'quote"back\\slash', "ünïcode \U0001f600", "tab\tnull\x00"]
    for key in keys:
        caller.put(f"data of {key}", key=key)
    records = caller.get(caller.iterator())["Records"]
    assert [record["PartitionKey"] for record in records] == keys
    numbers = [int(record["SequenceNumber"]) for record in records]
    assert numbers == sorted(set(numbers))
    assert {len(record["SequenceNumber"]) for record in records} == {56}
    assert {record["ApproximateArrivalTimestamp"] for record in records} == {NOW}


def test_put_records_writes_all_entries_or_none() -> None:
    caller = Caller()
    caller.create(shards=2)
    entries = [{"PartitionKey": key, "Data": encoded(3)} for key in ("a", "b", "a")]
    answer = caller.call("PutRecords", StreamName="s", Records=entries)
    assert answer["FailedRecordCount"] == 0
    assert [item["ShardId"] for item in answer["Records"]] == [shard_id(0), shard_id(1), shard_id(0)]
    bad = [*entries, {"PartitionKey": "a", "Data": "no base64!"}]
    assert caller.refused("PutRecords", StreamName="s", Records=bad) == "SerializationException"
    assert [len(caller.read(number)) for number in (0, 1)] == [2, 1]


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"PartitionKey": "k"}, "ValidationException"),
        ({"Data": ""}, "ValidationException"),
        ({"PartitionKey": "", "Data": ""}, "ValidationException"),
        ({"PartitionKey": "k" * 257, "Data": ""}, "ValidationException"),
        ({"PartitionKey": 7, "Data": ""}, "SerializationException"),
        ({"PartitionKey": "half \ud800", "Data": ""}, "SerializationException"),
        ({"PartitionKey": "k", "Data": "YQ"}, "SerializationException"),
        ({"PartitionKey": "k", "Data": "é"}, "SerializationException"),
        ({"PartitionKey": "k", "Data": [1]}, "SerializationException"),
        ({"PartitionKey": "k", "Data": encoded(MIB + 1)}, "ValidationException"),
    ],
)
def test_bad_records_are_refused(entry: dict[str, Any], error: str) -> None:
    caller = Caller()
    caller.create()
    assert caller.refused("PutRecord", StreamName="s", **entry) == error
    assert caller.refused("PutRecords", StreamName="s", Records=[entry]) == error
    assert caller.read() == []


def test_sizes_up_to_the_limits_are_taken() -> None:
    caller = Caller()
    caller.create()
    caller.call("PutRecord", StreamName="s", PartitionKey="k", Data=encoded(MIB))
    small = [{"PartitionKey": "k", "Data": ""}] * 500
    caller.call("PutRecords", StreamName="s", Records=small)
    assert caller.refused("PutRecords", StreamName="s", Records=[*small, small[0]]) == "ValidationException"
    assert caller.refused("PutRecords", StreamName="s", Records=[]) == "ValidationException"
    big = [{"PartitionKey": "k", "Data": encoded(MIB)}] * 10
    assert caller.refused("PutRecords", StreamName="s", Records=big) == "InvalidArgumentException"


def test_a_stream_can_take_larger_records() -> None:
    caller = Caller()
    caller.create()
    caller.call("UpdateMaxRecordSize", StreamName="s", MaxRecordSizeInKiB=2048)
    caller.call("PutRecord", StreamName="s", PartitionKey="k", Data=encoded(2 * MIB))
    assert caller.refused("PutRecord", StreamName="s", PartitionKey="k", Data=encoded(2 * MIB + 1))


def test_iterators_start_where_they_say() -> None:
    caller = Caller()
    caller.create()
    numbers = [item["SequenceNumber"] for item in caller.put("a", "b", "c")]
    assert caller.read() == ["a", "b", "c"]
    assert caller.read(0, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == ["b", "c"]
    assert caller.read(0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == ["c"]
    assert caller.read(0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[2]) == []
    latest = caller.iterator(0, "LATEST")
    caller.put("d")
    assert texts(caller.get(latest)) == ["d"]


def test_the_start_of_a_shard_is_a_place_to_start_from() -> None:
    caller = Caller()
    caller.create()
    start = caller.shards()[0]["SequenceNumberRange"]["StartingSequenceNumber"]
    iterators = [
        caller.iterator(0, kind, StartingSequenceNumber=start)
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
    ]
    caller.put("a")
    assert [texts(caller.get(iterator)) for iterator in iterators] == [["a"], ["a"]]


def test_a_timestamp_starts_at_the_first_record_since() -> None:
    caller = Caller()
    caller.create()
    caller.put("a")
    caller.clock.advance(10)
    caller.put("b")
    caller.clock.advance(10)
    for ahead, expected in ((-50, ["a", "b"]), (0, ["a", "b"]), (0.001, ["b"]), (10, ["b"]), (11, [])):
        assert caller.read(0, "AT_TIMESTAMP", Timestamp=NOW + ahead) == expected
    refusal = caller.refused(
        "GetShardIterator", StreamName="s", ShardId=shard_id(0), ShardIteratorType="AT_TIMESTAMP", Timestamp=NOW + 21
    )
    assert refusal == "InvalidArgumentException"


def test_a_sequence_number_that_the_shard_never_gave_out_is_refused() -> None:
    caller = Caller()
    caller.create(shards=2)
    own, other = caller.put("a", hash_key=0)[0], caller.put("b", hash_key=HASH_END)[0]
    future = str(int(own["SequenceNumber"]) + (1 << 80))
    for number in (other["SequenceNumber"], future, "0", "12345", "9" * 56):
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            refusal = caller.refused(
                "GetShardIterator",
                StreamName="s",
                ShardId=shard_id(0),
                ShardIteratorType=kind,
                StartingSequenceNumber=number,
            )
            assert refusal == "InvalidArgumentException"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER"}, "InvalidArgumentException"),
        ({"ShardIteratorType": "AT_TIMESTAMP"}, "InvalidArgumentException"),
        ({"ShardIteratorType": "LATEST", "StartingSequenceNumber": "1"}, "InvalidArgumentException"),
        ({"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": float("nan")}, "SerializationException"),
        ({"ShardIteratorType": "NEWEST"}, "ValidationException"),
        ({}, "ValidationException"),
        ({"ShardIteratorType": "LATEST", "ShardId": shard_id(7)}, "ResourceNotFoundException"),
        ({"ShardIteratorType": "LATEST", "StreamName": "t"}, "ResourceNotFoundException"),
    ],
)
def test_bad_iterator_requests_are_refused(fields: dict[str, Any], error: str) -> None:
    caller = Caller()
    caller.create()
    assert caller.refused("GetShardIterator", **{"StreamName": "s", "ShardId": shard_id(0), **fields}) == error


def test_a_trimmed_position_yields_the_oldest_record_without_a_word() -> None:  # K-7
    caller = Caller()
    caller.create()
    numbers = [item["SequenceNumber"] for item in caller.put("a", "b", "c")]
    before = caller.iterator(0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0])
    stream = caller.engine.find(caller.engine.home(), "s")
    assert caller.api.records.trim(stream, before=numbers[2]) == 2
    assert texts(caller.get(before)) == ["c"]
    assert caller.read(0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0]) == ["c"]
    assert caller.api.records.trim(stream) == 1
    assert caller.read(0, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0]) == []
    caller.put("d")
    assert texts(caller.get(before)) == ["d"]


def test_an_iterator_lives_for_five_minutes() -> None:  # K-39, R27
    caller = Caller()
    caller.create()
    caller.put("a")
    iterator = caller.iterator()
    caller.clock.advance(300)
    onward = caller.get(iterator)["NextShardIterator"]
    caller.clock.advance(1)
    assert caller.refused("GetRecords", ShardIterator=iterator) == "ExpiredIteratorException"
    assert texts(caller.get(onward)) == []


@pytest.mark.parametrize("iterator", ["x", "AAAA", "é", "A" * 512])
def test_a_garbage_iterator_is_refused(iterator: str) -> None:
    caller = Caller()
    caller.create()
    assert caller.refused("GetRecords", ShardIterator=iterator) == "InvalidArgumentException"


def test_an_iterator_with_one_letter_changed_is_refused() -> None:
    caller = Caller()
    caller.create()
    iterator = caller.iterator()
    changed = iterator[:30] + ("A" if iterator[30] != "A" else "B") + iterator[31:]
    assert caller.refused("GetRecords", ShardIterator=changed) == "InvalidArgumentException"


@pytest.mark.parametrize(("limit", "error"), [(10_001, "InvalidArgumentException"), (0, "ValidationException")])
def test_a_limit_out_of_bounds_is_refused(limit: int, error: str) -> None:  # K-6
    caller = Caller()
    caller.create()
    assert caller.refused("GetRecords", ShardIterator=caller.iterator(), Limit=limit) == error


def test_a_page_ends_at_its_limit_and_at_10_mib() -> None:  # K-6
    caller = Caller()
    caller.create()
    caller.put("a", "b", "c")
    first = caller.get(caller.iterator(), Limit=2)
    assert texts(first) == ["a", "b"]
    assert texts(caller.get(first["NextShardIterator"])) == ["c"]
    for _ in range(12):
        caller.call("PutRecord", StreamName="s", PartitionKey="k", Data=encoded(MIB))
    pages = []
    answer = caller.get(caller.iterator())
    while answer["Records"]:
        pages.append(len(answer["Records"]))
        answer = caller.get(answer["NextShardIterator"])
    assert pages == [12, 3]


def test_trimmed_records_do_not_count_towards_the_size_of_a_page() -> None:
    caller = Caller()
    caller.create()
    for _ in range(12):
        caller.call("PutRecord", StreamName="s", PartitionKey="k", Data=encoded(MIB))
    caller.api.records.trim(caller.engine.find(caller.engine.home(), "s"), keep=6)
    assert len(caller.get(caller.iterator())["Records"]) == 6


def test_every_answer_has_an_iterator_of_its_own() -> None:  # R31
    caller = Caller()
    caller.create()
    seen = {caller.iterator()}
    iterator = next(iter(seen))
    for _ in range(3):
        iterator = caller.get(iterator)["NextShardIterator"]
        seen.add(iterator)
    assert len(seen) == 4


def test_the_lag_is_the_age_of_the_next_record() -> None:
    caller = Caller()
    caller.create()
    caller.put("a")
    caller.clock.advance(3)
    caller.put("b")
    caller.clock.advance(4)
    first = caller.get(caller.iterator(), Limit=1)
    assert first["MillisBehindLatest"] == 4000
    assert caller.get(first["NextShardIterator"])["MillisBehindLatest"] == 0


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    reply = Caller().api.answer("Kinesis_20131202.ListStreams", body)
    assert (reply.status, reply.error) == (400, "SerializationException")


@pytest.mark.parametrize("target", ["", "Kinesis_20131202.Nothing", "DynamoDB_20120810.ListStreams", "ListStreams"])
def test_an_unknown_operation_is_refused(target: str) -> None:
    reply = Caller().api.answer(target, b"{}")
    assert (reply.status, reply.error) == (400, "UnknownOperationException")
