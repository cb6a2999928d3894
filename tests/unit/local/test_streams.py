# SPDX-License-Identifier: Apache-2.0
"""Life of a stream: states, resharding, lineage, retention."""

from __future__ import annotations

import pytest

from shardbatch.local.sequence import decode
from tests.unit.local.caller import Caller, shard_id
from tests.unit.local.test_lineage import assert_covered, ranges

HASH_END = 2**128 - 1
DAY = 86_400


def parents(caller: Caller) -> dict[int, list[int]]:
    """Both parents of each listed shard."""
    return {
        int(shard["ShardId"][-12:]): [
            int(shard[name][-12:]) for name in ("ParentShardId", "AdjacentParentShardId") if name in shard
        ]
        for shard in caller.shards()
    }


def test_a_stream_passes_through_its_states_on_the_clock() -> None:
    caller = Caller(create_seconds=10, reshard_seconds=20, delete_seconds=5)
    caller.create()
    assert caller.status() == "CREATING"
    assert caller.refused("ListShards", StreamName="s") == "ResourceInUseException"
    assert caller.refused("PutRecord", StreamName="s", PartitionKey="k", Data="") == "ResourceNotFoundException"
    caller.clock.advance(10)
    assert caller.status() == "ACTIVE"
    caller.put("before")
    caller.split(0)
    assert caller.status() == "UPDATING"
    assert caller.shard_ids() == [0]  # K-9: an updating stream is readable
    caller.put("during")
    assert caller.read() == ["before", "during"]
    caller.clock.advance(20)
    assert caller.status() == "ACTIVE"
    assert caller.shard_ids() == [0, 1, 2]
    caller.call("DeleteStream", StreamName="s")
    assert caller.status() == "DELETING"
    caller.clock.advance(5)
    assert caller.refused("DescribeStreamSummary", StreamName="s") == "ResourceNotFoundException"
    assert caller.call("ListStreams")["StreamNames"] == []


def test_resharding_is_refused_while_the_stream_is_updating() -> None:
    caller = Caller(reshard_seconds=20)
    caller.create(shards=2)
    caller.split(0)
    for operation, fields in (
        ("SplitShard", {"ShardToSplit": shard_id(1), "NewStartingHashKey": str(HASH_END - 1)}),
        ("MergeShards", {"ShardToMerge": shard_id(0), "AdjacentShardToMerge": shard_id(1)}),
        ("UpdateShardCount", {"TargetShardCount": 4, "ScalingType": "UNIFORM_SCALING"}),
    ):
        assert caller.refused(operation, StreamName="s", **fields) == "ResourceInUseException"


def test_a_stream_name_is_taken_until_the_stream_is_gone() -> None:
    caller = Caller(delete_seconds=5)
    caller.create()
    assert caller.refused("CreateStream", StreamName="s", ShardCount=1) == "ResourceInUseException"
    caller.call("DeleteStream", StreamName="s")
    assert caller.refused("CreateStream", StreamName="s", ShardCount=1) == "ResourceInUseException"
    caller.clock.advance(5)
    caller.create()


def test_a_stream_created_again_has_another_creation_time_and_forgets_old_iterators() -> None:  # R49
    caller = Caller()
    caller.create()
    caller.put("old")
    iterator, number = caller.iterator(), caller.put("older")[0]["SequenceNumber"]
    first = caller.call("DescribeStream", StreamName="s")["StreamDescription"]["StreamCreationTimestamp"]
    caller.call("DeleteStream", StreamName="s")
    caller.clock.advance(2)
    caller.create()
    second = caller.call("DescribeStream", StreamName="s")["StreamDescription"]["StreamCreationTimestamp"]
    assert second > first
    assert caller.read() == []
    assert caller.refused("GetRecords", ShardIterator=iterator) == "ResourceNotFoundException"
    assert caller.refused("ListShards", StreamName="s", StreamCreationTimestamp=first) == "ResourceNotFoundException"
    assert caller.shard_ids(StreamCreationTimestamp=second) == [0]
    refusal = caller.refused(
        "GetShardIterator",
        StreamName="s",
        ShardId=shard_id(0),
        ShardIteratorType="AFTER_SEQUENCE_NUMBER",
        StartingSequenceNumber=number,
    )
    assert refusal == "InvalidArgumentException"


def test_creation_times_differ_although_the_clock_stands_still() -> None:
    caller = Caller()
    seen = set()
    for _ in range(3):
        caller.create()
        seen.add(caller.call("DescribeStream", StreamName="s")["StreamDescription"]["StreamCreationTimestamp"])
        caller.call("DeleteStream", StreamName="s")
    assert len(seen) == 3


def test_a_split_closes_the_parent_and_sends_new_records_to_its_children() -> None:  # K-2
    caller = Caller()
    caller.create()
    caller.put("old", key="a")
    caller.split(0)
    assert parents(caller) == {0: [], 1: [0], 2: [0]}
    assert ranges(caller) == [(0, 2**127 - 1), (2**127, HASH_END)]
    assert caller.put("low", key="a")[0]["ShardId"] == shard_id(1)  # KV-11
    assert caller.put("high", key="b")[0]["ShardId"] == shard_id(2)
    assert caller.read(0) == ["old"]
    closed = caller.shards()[0]["SequenceNumberRange"]
    child = caller.shards()[1]["SequenceNumberRange"]
    assert int(closed["StartingSequenceNumber"]) < int(closed["EndingSequenceNumber"])
    assert int(closed["EndingSequenceNumber"]) < int(child["StartingSequenceNumber"])
    assert "EndingSequenceNumber" not in child


def test_a_merge_names_both_parents() -> None:
    caller = Caller()
    caller.create(shards=3)
    caller.merge(2, 1)
    assert parents(caller) == {0: [], 1: [], 2: [], 3: [2, 1]}
    assert_covered(caller)


@pytest.mark.parametrize(
    ("pair", "error"),
    [((0, 2), "InvalidArgumentException"), ((1, 1), "InvalidArgumentException"), ((0, 9), "ResourceNotFoundException")],
)
def test_shards_that_are_no_neighbours_do_not_merge(pair: tuple[int, int], error: str) -> None:
    caller = Caller()
    caller.create(shards=3)
    refusal = caller.refused(
        "MergeShards", StreamName="s", ShardToMerge=shard_id(pair[0]), AdjacentShardToMerge=shard_id(pair[1])
    )
    assert refusal == error


@pytest.mark.parametrize("middle", ["0", str(2**128), "x", "-1"])
def test_a_split_outside_the_shard_is_refused(middle: str) -> None:
    caller = Caller()
    caller.create()
    refusal = caller.refused("SplitShard", StreamName="s", ShardToSplit=shard_id(0), NewStartingHashKey=middle)
    assert refusal == "InvalidArgumentException"


def test_a_closed_shard_is_neither_split_nor_merged_again() -> None:
    caller = Caller()
    caller.create(shards=2)
    caller.split(0)
    assert (
        caller.refused("SplitShard", StreamName="s", ShardToSplit=shard_id(0), NewStartingHashKey="9")
        == "ResourceInUseException"
    )
    refusal = caller.refused("MergeShards", StreamName="s", ShardToMerge=shard_id(0), AdjacentShardToMerge=shard_id(1))
    assert refusal == "ResourceInUseException"


@pytest.mark.parametrize("target", [1, 9])
def test_a_shard_count_beyond_half_or_double_is_refused(target: int) -> None:
    caller = Caller()
    caller.create(shards=4)
    refusal = caller.refused("UpdateShardCount", StreamName="s", TargetShardCount=target, ScalingType="UNIFORM_SCALING")
    assert refusal == "InvalidArgumentException"


def test_a_change_of_mode_takes_its_time_and_two_a_day_are_the_most() -> None:
    caller = Caller(reshard_seconds=2, limits=True)
    caller.create()
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
    for mode in ("ON_DEMAND", "PROVISIONED"):
        caller.call("UpdateStreamMode", StreamARN=arn, StreamModeDetails={"StreamMode": mode})
        assert caller.status() == "UPDATING"
        caller.clock.advance(2)
        summary = caller.call("DescribeStreamSummary", StreamName="s")["StreamDescriptionSummary"]
        assert (summary["StreamStatus"], summary["StreamModeDetails"]["StreamMode"]) == ("ACTIVE", mode)
    third = {"StreamARN": arn, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
    assert caller.refused("UpdateStreamMode", **third) == "LimitExceededException"
    caller.clock.advance(86_400)
    caller.call("UpdateStreamMode", **third)


def test_with_limits_an_on_demand_stream_splits_a_shard_that_is_written_too_fast() -> None:
    caller = Caller(limits=True)
    caller.call("CreateStream", StreamName="s", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    entries = [{"PartitionKey": "a", "ExplicitHashKey": "0", "Data": ""}] * 500
    failed = [caller.call("PutRecords", StreamName="s", Records=entries)["FailedRecordCount"] for _ in range(3)]
    assert failed == [0, 0, 1]  # the record that was refused; those after it went to the child
    assert caller.shard_ids(ShardFilter={"Type": "AT_LATEST"}) == [1, 2, 3, 4, 5]


def test_with_limits_ten_shard_count_updates_a_day_are_the_most() -> None:
    caller = Caller(limits=True)
    caller.create(shards=2)
    update = {"StreamName": "s", "ScalingType": "UNIFORM_SCALING"}
    for number in range(10):
        caller.call("UpdateShardCount", TargetShardCount=3 - number % 2, **update)
    assert caller.refused("UpdateShardCount", TargetShardCount=3, **update) == "LimitExceededException"
    caller.clock.advance(DAY)
    caller.call("UpdateShardCount", TargetShardCount=3, **update)


def test_on_demand_streams_choose_their_shards_themselves() -> None:
    caller = Caller()
    caller.call("CreateStream", StreamName="s", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    assert len(caller.shards()) == 4
    refusal = caller.refused("SplitShard", StreamName="s", ShardToSplit=shard_id(0), NewStartingHashKey="9")
    assert refusal == "ValidationException"


def test_the_shard_limit_of_an_account_holds() -> None:
    caller = Caller(shard_limit=4)
    caller.create(shards=3)
    assert caller.refused("CreateStream", StreamName="t", ShardCount=2) == "LimitExceededException"
    caller.call("CreateStream", StreamName="t", ShardCount=2, key="999999999999")


def test_records_leave_when_the_retention_has_passed_and_closed_shards_leave_the_listing() -> None:
    caller = Caller()
    caller.create()
    caller.put("one")
    caller.clock.advance(DAY / 2)
    caller.put("two")
    caller.split(0)
    caller.clock.advance(DAY / 2)
    assert caller.read() == ["two"]
    assert caller.shard_ids() == [0, 1, 2]  # R16: closed and empty is still listed
    caller.clock.advance(DAY / 2)
    assert parents(caller) == {1: [0], 2: [0]}  # K-13: children go on naming a parent that has left
    refusal = caller.refused("GetShardIterator", StreamName="s", ShardId=shard_id(0), ShardIteratorType="TRIM_HORIZON")
    assert refusal == "ResourceNotFoundException"


def test_a_longer_retention_does_not_revive_records() -> None:
    caller = Caller()
    caller.create()
    caller.put("gone")
    caller.clock.advance(DAY)
    caller.call("IncreaseStreamRetentionPeriod", StreamName="s", RetentionPeriodHours=48)
    caller.put("kept")
    assert caller.read() == ["kept"]
    caller.clock.advance(DAY + 60)
    assert caller.read() == ["kept"]
    caller.call("DecreaseStreamRetentionPeriod", StreamName="s", RetentionPeriodHours=24)
    assert caller.read() == []


@pytest.mark.parametrize(
    ("operation", "hours"),
    [
        ("IncreaseStreamRetentionPeriod", 23),
        ("IncreaseStreamRetentionPeriod", 8761),
        ("DecreaseStreamRetentionPeriod", 23),
        ("DecreaseStreamRetentionPeriod", 25),
    ],
)
def test_a_retention_outside_its_bounds_is_refused(operation: str, hours: int) -> None:
    caller = Caller()
    caller.create()
    refusal = caller.refused(operation, StreamName="s", RetentionPeriodHours=hours)
    assert refusal == "InvalidArgumentException"


def test_an_arn_leads_to_another_account_and_a_name_does_not() -> None:
    caller = Caller()
    caller.call("CreateStream", StreamName="s", ShardCount=2, key="111122223333", region="eu-west-1")
    arn = "arn:aws:kinesis:eu-west-1:111122223333:stream/s"
    assert caller.refused("ListShards", StreamName="s") == "ResourceNotFoundException"
    assert len(caller.call("ListShards", StreamARN=arn)["Shards"]) == 2
    assert caller.call("DescribeStreamSummary", StreamARN=arn)["StreamDescriptionSummary"]["StreamARN"] == arn
    caller.call("PutRecord", StreamARN=arn, PartitionKey="a", Data="YQ==")
    iterator = caller.call("GetShardIterator", StreamARN=arn, ShardId=shard_id(0), ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    assert len(caller.get(iterator, StreamARN=arn)["Records"]) == 1
    other = "arn:aws:kinesis:eu-west-1:111122223333:stream/t"
    assert caller.refused("GetRecords", ShardIterator=iterator, StreamARN=other) == "InvalidArgumentException"
    assert caller.refused("ListShards", StreamName="t", StreamARN=arn) == "InvalidArgumentException"
    assert caller.refused("ListShards") == "InvalidArgumentException"


def test_regions_are_kept_apart() -> None:
    """A client of the wrong region finds nothing, as at AWS: a mistake in a connection shows before it is deployed."""
    caller = Caller()
    caller.create(shards=1)
    assert caller.refused("ListShards", StreamName="s", region="eu-west-1") == "ResourceNotFoundException"
    assert caller.call("ListStreams", region="eu-west-1")["StreamNames"] == []
    caller.call("CreateStream", StreamName="s", ShardCount=3, region="eu-west-1")
    assert len(caller.call("ListShards", StreamName="s", region="eu-west-1")["Shards"]) == 3
    assert len(caller.call("ListShards", StreamName="s")["Shards"]) == 1
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/s"
    assert len(caller.call("ListShards", StreamARN=arn)["Shards"]) == 3
    made = caller.call("RegisterStreamConsumer", StreamARN=arn, ConsumerName="c")["Consumer"]["ConsumerARN"]
    assert caller.call("DescribeStreamConsumer", ConsumerARN=made)["ConsumerDescription"]["ConsumerARN"] == made
    caller.call("DeleteStream", StreamName="s", EnforceConsumerDeletion=True, region="eu-west-1")
    assert len(caller.call("ListShards", StreamName="s")["Shards"]) == 1


def test_streams_are_listed_in_pages() -> None:
    caller = Caller()
    for name in ("c", "a", "b"):
        caller.create(name)
    first = caller.call("ListStreams", Limit=2)
    assert (first["StreamNames"], first["HasMoreStreams"]) == (["a", "b"], True)
    second = caller.call("ListStreams", NextToken=first["NextToken"])
    assert (second["StreamNames"], second["HasMoreStreams"]) == (["c"], False)
    assert caller.call("ListStreams", ExclusiveStartStreamName="b")["StreamNames"] == ["c"]
    assert second["StreamSummaries"][0]["StreamStatus"] == "ACTIVE"


def test_tags_are_kept() -> None:
    caller = Caller()
    caller.create()
    caller.call("AddTagsToStream", StreamName="s", Tags={"team": "flights", "cost": "7"})
    caller.call("RemoveTagsFromStream", StreamName="s", TagKeys=["cost"])
    assert caller.call("ListTagsForStream", StreamName="s")["Tags"] == [{"Key": "team", "Value": "flights"}]


def test_sequence_numbers_of_a_shard_carry_its_number() -> None:  # KV-12
    caller = Caller()
    caller.create(shards=4)
    for shard in caller.shards():
        number = shard["SequenceNumberRange"]["StartingSequenceNumber"]
        parts = decode(int(number))
        assert parts is not None
        assert (parts.shard_number, len(number)) == (int(shard["ShardId"][-12:]), 56)


@pytest.mark.parametrize(
    ("number", "shard"),
    [
        (49606519059088154242424702813598998791816825219170959362, 0),
        (49606519059110454987623233436740534510089473580676939794, 1),
        (49606519424864976988723983581067849899795321077725397026, 2),
        (49606519424887277733922514204209385618067969439231377458, 3),
    ],
)
def test_sequence_numbers_of_the_service_are_understood(number: int, shard: int) -> None:  # KV-12
    parts = decode(number)
    assert parts is not None
    assert parts.shard_number == shard


@pytest.mark.parametrize("number", [0, 12345, 2**185, 2**186 + 2])
def test_other_numbers_are_not_taken_for_sequence_numbers(number: int) -> None:  # KV-12
    assert decode(number) is None
