# SPDX-License-Identifier: Apache-2.0
"""Faults, throttling, options, clock, and the log of calls."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from shardbatch.local import Clock, Faults, Options
from tests.unit.local.caller import NOW, Caller, RefusedError, shard_id, texts

THROTTLED = "ProvisionedThroughputExceededException"
MIB = 1024 * 1024


def test_an_error_hits_the_next_calls_of_its_operation_and_shard() -> None:
    caller = Caller()
    caller.create(shards=2)
    first, second = caller.iterator(0), caller.iterator(1)
    caller.faults.add("GetRecords", "error", error=THROTTLED, times=2, shard=shard_id(1))
    caller.get(first)
    assert [caller.refused("GetRecords", ShardIterator=second) for _ in range(2)] == [THROTTLED, THROTTLED]
    caller.get(second)
    assert caller.faults.waiting() == []


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({}, 500),
        ({"error": "ServiceUnavailable"}, 503),
        ({"error": "AccessDeniedException"}, 400),
        ({"error": "Odd", "status": 502}, 502),
    ],
)
def test_an_error_has_the_status_of_its_name(fault: dict[str, Any], status: int) -> None:
    caller = Caller()
    caller.faults.add("*", "error", **fault)
    with pytest.raises(RefusedError) as raised:
        caller.call("ListStreams")
    assert raised.value.status == status


def test_a_fault_can_let_calls_pass_first() -> None:
    caller = Caller()
    caller.faults.add("ListStreams", "error", after=2, error="LimitExceededException")
    caller.call("ListStreams")
    caller.call("ListStreams")
    assert caller.refused("ListStreams") == "LimitExceededException"
    caller.call("ListStreams")


def test_an_applied_error_has_its_effect_and_another_one_has_none() -> None:
    caller = Caller()
    caller.create()
    for applied in (True, False):
        caller.faults.add("PutRecord", "error", applied=applied)
        assert caller.refused("PutRecord", StreamName="s", PartitionKey="k", Data="YQ==") == "InternalFailure"
    assert caller.read() == ["a"]


def test_an_empty_answer_moves_the_iterator_on() -> None:
    caller = Caller()
    caller.create()
    caller.put("a")
    caller.split(0)
    caller.faults.add("GetRecords", "empty", times=2)
    answer = caller.get(caller.iterator())
    assert answer["Records"] == []
    answer = caller.get(answer["NextShardIterator"])
    assert answer["Records"] == []
    assert texts(caller.get(answer["NextShardIterator"])) == ["a"]


def test_an_answer_can_lack_its_next_iterator() -> None:  # R30
    caller = Caller()
    caller.create()
    caller.put("a")
    caller.faults.add("GetRecords", "no_iterator")
    answer = caller.get(caller.iterator())
    assert (texts(answer), sorted(answer)) == (["a"], ["MillisBehindLatest", "Records"])


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "odd"},
        {"kind": "error", "times": 0},
        {"kind": "cut", "keep": 1},
        {"kind": "latency", "seconds": -1},
        {"kind": "error", "color": "red"},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Faults().add("GetRecords", **fault)


def test_five_reads_a_second_and_shard_are_answered() -> None:
    caller = Caller(limits=True)
    caller.create(shards=2)
    iterator, other = caller.iterator(0), caller.iterator(1)
    for _ in range(5):
        caller.get(iterator)
    assert caller.refused("GetRecords", ShardIterator=iterator) == THROTTLED
    caller.get(other)
    caller.clock.advance(0.999)
    assert caller.refused("GetRecords", ShardIterator=iterator) == THROTTLED
    caller.clock.advance(0.001)
    caller.get(iterator)


def test_five_iterators_a_second_and_shard_are_given() -> None:
    caller = Caller(limits=True)
    caller.create(shards=2)
    for _ in range(5):
        caller.iterator(0)
    fields = {"StreamName": "s", "ShardId": shard_id(0), "ShardIteratorType": "LATEST"}
    assert caller.refused("GetShardIterator", **fields) == THROTTLED
    caller.iterator(1)
    caller.clock.advance(1)
    caller.iterator(0)


def test_two_mib_a_second_are_read_from_a_shard() -> None:
    caller = Caller()
    caller.create()
    for _ in range(20):
        caller.call("PutRecord", StreamName="s", PartitionKey="k", Data=b64encode(b"x" * MIB).decode())
    caller.options.limits = True
    iterator = caller.get(caller.iterator(), Limit=4)["NextShardIterator"]
    caller.clock.advance(0.9)
    assert caller.refused("GetRecords", ShardIterator=iterator) == THROTTLED
    caller.clock.advance(0.2)
    assert len(caller.get(iterator, Limit=1)["Records"]) == 1


def test_after_a_10_mib_answer_a_shard_rests_for_five_seconds() -> None:
    caller = Caller()
    caller.create()
    for _ in range(12):
        caller.call("PutRecord", StreamName="s", PartitionKey="k", Data=b64encode(b"x" * MIB).decode())
    caller.options.limits = True
    answer = caller.get(caller.iterator())
    assert len(answer["Records"]) == 10
    caller.clock.advance(4.9)
    assert caller.refused("GetRecords", ShardIterator=answer["NextShardIterator"]) == THROTTLED
    caller.clock.advance(0.2)
    assert len(caller.get(answer["NextShardIterator"])["Records"]) == 2


def test_writes_beyond_the_limit_of_a_shard_fail_record_by_record() -> None:
    caller = Caller(limits=True)
    caller.create(shards=2)
    entries = [{"PartitionKey": "a", "Data": ""}] * 500
    assert [caller.call("PutRecords", StreamName="s", Records=entries)["FailedRecordCount"] for _ in range(2)] == [0, 0]
    mixed = caller.call("PutRecords", StreamName="s", Records=[entries[0], {"PartitionKey": "b", "Data": ""}])
    assert mixed["FailedRecordCount"] == 1
    assert [item.get("ErrorCode") for item in mixed["Records"]] == [THROTTLED, None]
    assert caller.refused("PutRecord", StreamName="s", **entries[0]) == THROTTLED
    caller.clock.advance(1)
    caller.call("PutRecord", StreamName="s", **entries[0])
    caller.call("PutRecord", StreamName="s", PartitionKey="b", Data=b64encode(b"x" * MIB).decode())
    assert caller.refused("PutRecord", StreamName="s", PartitionKey="b", Data="YQ==") == THROTTLED


def test_a_part_of_the_entries_fails_on_demand() -> None:
    caller = Caller()
    caller.create()
    caller.faults.add("PutRecords", "partial", keep=0.5, error="InternalFailure")
    entries = [{"PartitionKey": "a", "Data": b64encode(b"%d" % number).decode()} for number in range(4)]
    answer = caller.call("PutRecords", StreamName="s", Records=entries)
    assert answer["FailedRecordCount"] == 2
    assert [item.get("ErrorCode") for item in answer["Records"]] == [None, None, "InternalFailure", "InternalFailure"]
    assert caller.read() == ["0", "1"]


def test_the_log_tells_what_was_called_on_which_shard() -> None:
    caller = Caller()
    caller.create(shards=2)
    caller.put("x", hash_key=0)
    caller.get(caller.iterator(0))
    caller.get(caller.iterator(1))
    caller.faults.add("ListShards", "error", error="LimitExceededException")
    caller.refused("ListShards", StreamName="s")
    assert [call.operation for call in caller.calls.list()] == [
        "CreateStream",
        "PutRecord",
        *["GetShardIterator", "GetRecords"] * 2,
        "ListShards",
    ]
    (read,) = caller.calls.list("GetRecords", shard=shard_id(0))
    assert (read.stream, read.records, read.status, read.clock_ms) == ("s", 1, 200, int(NOW * 1000))
    assert caller.calls.list("ListShards")[0].error == "LimitExceededException"
    times = [call.monotonic for call in caller.calls.list()]
    assert times == sorted(times)
    caller.calls.clear()
    assert caller.calls.count() == 0


def test_a_later_page_of_a_listing_is_logged_under_its_stream() -> None:
    caller = Caller()
    caller.create(shards=2)
    token = caller.call("ListShards", StreamName="s", MaxResults=1)["NextToken"]
    caller.call("ListShards", NextToken=token)
    assert [call.shards for call in caller.calls.list("ListShards", stream="s")] == [1, 1]


@pytest.mark.parametrize(
    "change", [{"odd": 1}, {"limits": 1}, {"page_size": -1}, {"page_size": True}, {"iterator_seconds": float("nan")}]
)
def test_a_bad_option_is_refused_and_changes_nothing(change: dict[str, Any]) -> None:
    options = Options()
    with pytest.raises(ValueError):
        options.update(empty_pages=3, **change)
    assert options == Options()


@pytest.mark.parametrize("start_ms", range(1_700_000_000_000, 1_700_000_000_020))
def test_steps_of_a_fifth_of_a_second_lose_no_millisecond(start_ms: int) -> None:
    clock = Clock(lambda: start_ms / 1000)
    for step in range(1, 6):
        clock.advance(0.2)
        assert clock.now_ms() == start_ms + step * 200


def test_the_clock_never_goes_back() -> None:
    times = iter([100.0, 90.0, 101.0])
    clock = Clock(lambda: next(times))
    assert [clock.now_ms(), clock.now_ms(), clock.now_ms()] == [100_000, 100_000, 101_000]
    with pytest.raises(ValueError):
        clock.advance(-1)
