# SPDX-License-Identifier: Apache-2.0
"""What every Kinesis server has to do, ours and others; a clause names no server, only what it needs beyond the
least."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.local.conftest import Target
from tests.support.waiting import wait_until

HASH_END = 2**128 - 1
ROOT = "shardId-000000000000"


def refused(call: Any, **fields: Any) -> str:
    """The error name of a call that must fail."""
    with pytest.raises(ClientError) as raised:
        call(**fields)
    return str(raised.value.response["Error"]["Code"])


def data(records: list[dict[str, Any]]) -> list[bytes]:
    return [record["Data"] for record in records]


def test_a_record_comes_back_from_the_shard_that_was_named(target: Target, unique_name: str) -> None:
    target.create(unique_name, 4)
    ranges = {item["ShardId"]: item["HashKeyRange"] for item in target.shards(unique_name)}
    sent: dict[str, list[bytes]] = {shard: [] for shard in ranges}
    for number in range(40):
        put = target.client.put_record(StreamName=unique_name, PartitionKey=f"key-{number}", Data=b"%d" % number)
        sent[put["ShardId"]].append(b"%d" % number)
    for shard, expected in sent.items():
        records, _ = target.drain(target.iterator(unique_name, shard))
        assert data(records) == expected
        numbers = [int(record["SequenceNumber"]) for record in records]
        assert numbers == sorted(set(numbers))


def test_explicit_hash_keys_choose_the_shard(target: Target, unique_name: str) -> None:  # K-3
    target.create(unique_name, 2)
    entries = [
        {"PartitionKey": "same", "Data": b"", "ExplicitHashKey": str(key)} for key in (0, 2**127 - 2, 2**127, HASH_END)
    ]
    answer = target.client.put_records(StreamName=unique_name, Records=entries)
    shards = [item["ShardId"][-1] for item in answer["Records"]]
    assert shards == ["0", "0", "1", "1"]


def test_eight_writers_lose_nothing(target: Target, unique_name: str) -> None:
    target.create(unique_name, 2)

    def write(writer: int) -> list[tuple[str, str]]:
        entries = [{"PartitionKey": f"{writer}-{number}", "Data": b"x"} for number in range(25)]
        answer = target.client.put_records(StreamName=unique_name, Records=entries)
        return [(item["ShardId"], item["SequenceNumber"]) for item in answer["Records"]]

    with ThreadPoolExecutor(8) as pool:
        acknowledged = [place for places in pool.map(write, range(8)) for place in places]
    stored = [
        (shard["ShardId"], record["SequenceNumber"])
        for shard in target.shards(unique_name)
        for record in target.drain(target.iterator(unique_name, shard["ShardId"]))[0]
    ]
    assert len(set(acknowledged)) == 200
    assert sorted(stored) == sorted(acknowledged)


def test_a_split_parent_is_drained_to_its_end(target: Target, unique_name: str) -> None:  # K-34
    target.create(unique_name)
    for number in range(3):
        target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"%d" % number)
    before = target.iterator(unique_name, ROOT)
    children = target.split(unique_name, ROOT)
    assert len(children) == 2
    for iterator in (before, target.iterator(unique_name, ROOT)):
        records, last = target.drain(iterator)
        assert data(records) == [b"0", b"1", b"2"]
        assert last.get("NextShardIterator") is None
    put = target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"new")
    assert put["ShardId"] == children[0]
    shown = {item["ShardId"]: item for item in target.shards(unique_name)}
    assert [shown[child]["ParentShardId"] for child in children] == [ROOT, ROOT]
    assert "EndingSequenceNumber" in shown[ROOT]["SequenceNumberRange"]


def test_the_end_of_a_shard_names_its_children(target: Target, unique_name: str) -> None:  # KV-7
    target.need("children")
    target.create(unique_name)
    children = target.split(unique_name, ROOT)
    _, last = target.drain(target.iterator(unique_name, ROOT))
    assert sorted(child["ShardId"] for child in last["ChildShards"]) == children
    assert [child["ParentShards"] for child in last["ChildShards"]] == [[ROOT], [ROOT]]


def test_a_merged_child_names_both_parents(target: Target, unique_name: str) -> None:
    target.create(unique_name, 2)
    first, second = (item["ShardId"] for item in target.shards(unique_name))
    target.client.merge_shards(StreamName=unique_name, ShardToMerge=first, AdjacentShardToMerge=second)
    target.wait_active(unique_name)
    child = target.shards(unique_name)[-1]
    assert (child["ParentShardId"], child["AdjacentParentShardId"]) == (first, second)


def test_shards_that_do_not_touch_are_not_merged(target: Target, unique_name: str) -> None:
    target.create(unique_name, 3)
    first, _, third = (item["ShardId"] for item in target.shards(unique_name))
    code = refused(target.client.merge_shards, StreamName=unique_name, ShardToMerge=first, AdjacentShardToMerge=third)
    assert code == "InvalidArgumentException"


def test_a_shard_count_update_keeps_the_hash_ranges_whole(target: Target, unique_name: str) -> None:
    target.need("UpdateShardCount")
    target.create(unique_name, 4)
    for count in (2, 4, 3):
        target.client.update_shard_count(StreamName=unique_name, TargetShardCount=count, ScalingType="UNIFORM_SCALING")
        target.wait_active(unique_name)
        edges = sorted(
            (int(item["HashKeyRange"]["StartingHashKey"]), int(item["HashKeyRange"]["EndingHashKey"]))
            for item in target.shards(unique_name)
            if "EndingSequenceNumber" not in item["SequenceNumberRange"]
        )
        assert (len(edges), edges[0][0]) == (count, 0)
        assert [low[1] + 1 for low in edges[:-1]] == [high[0] for high in edges[1:]]


def test_a_closed_shard_read_from_its_tip_ends_at_once(target: Target, unique_name: str) -> None:  # K-36
    target.create(unique_name)
    put = target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"x")
    target.split(unique_name, ROOT)
    after = {"StartingSequenceNumber": put["SequenceNumber"]}
    for iterator in (
        target.iterator(unique_name, ROOT, "LATEST"),
        target.iterator(unique_name, ROOT, "AFTER_SEQUENCE_NUMBER", **after),
    ):
        answer = target.client.get_records(ShardIterator=iterator)
        assert (answer["Records"], answer.get("NextShardIterator")) == ([], None)


def test_sequence_numbers_are_places_to_start_from(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    numbers = [
        target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"%d" % number)["SequenceNumber"]
        for number in range(3)
    ]
    for kind, expected in (("AT_SEQUENCE_NUMBER", [b"1", b"2"]), ("AFTER_SEQUENCE_NUMBER", [b"2"])):
        iterator = target.iterator(unique_name, ROOT, kind, StartingSequenceNumber=numbers[1])
        assert data(target.drain(iterator)[0]) == expected


def test_the_starting_number_of_a_shard_is_a_place_to_start_from(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    start = target.shards(unique_name)[0]["SequenceNumberRange"]["StartingSequenceNumber"]
    target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"x")
    iterator = target.iterator(unique_name, ROOT, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=start)
    assert data(target.drain(iterator)[0]) == [b"x"]


def test_the_sequence_number_of_another_shard_is_refused(target: Target, unique_name: str) -> None:
    target.need("foreign sequence numbers refused as arguments")
    target.create(unique_name, 2)
    put = target.client.put_record(StreamName=unique_name, PartitionKey="b", Data=b"x")  # KV-11: upper half
    code = refused(
        target.client.get_shard_iterator,
        StreamName=unique_name,
        ShardId=ROOT,
        ShardIteratorType="AT_SEQUENCE_NUMBER",
        StartingSequenceNumber=put["SequenceNumber"],
    )
    assert code == "InvalidArgumentException"


def test_timestamps_are_places_to_start_from_unless_they_lie_ahead(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"x")
    past = target.iterator(unique_name, ROOT, "AT_TIMESTAMP", Timestamp=datetime.now(UTC) - timedelta(minutes=5))
    assert data(target.drain(past)[0]) == [b"x"]
    code = refused(
        target.client.get_shard_iterator,
        StreamName=unique_name,
        ShardId=ROOT,
        ShardIteratorType="AT_TIMESTAMP",
        Timestamp=datetime.now(UTC) + timedelta(hours=1),
    )
    assert code == "InvalidArgumentException"


def test_listing_pages_are_followed_by_token_alone(target: Target, unique_name: str) -> None:  # R19
    target.need("listing pages")
    target.create(unique_name, 5)
    assert [int(item["ShardId"][-12:]) for item in target.shards(unique_name, MaxResults=2)] == [0, 1, 2, 3, 4]
    token = target.client.list_shards(StreamName=unique_name, MaxResults=2)["NextToken"]
    code = refused(target.client.list_shards, StreamName=unique_name, NextToken=token)
    assert code == "InvalidArgumentException"


def test_descriptions_come_in_pages(target: Target, unique_name: str) -> None:
    target.need("description pages")
    target.create(unique_name, 3)
    first = target.client.describe_stream(StreamName=unique_name, Limit=2)["StreamDescription"]
    last = target.client.describe_stream(
        StreamName=unique_name, Limit=2, ExclusiveStartShardId=first["Shards"][-1]["ShardId"]
    )["StreamDescription"]
    assert [len(first["Shards"]), first["HasMoreShards"]] == [2, True]
    assert [len(last["Shards"]), last["HasMoreShards"]] == [1, False]


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("shard_filter", "shown", "needed"),
    [
        ({"Type": "AT_LATEST"}, [1, 2], ["shard filters"]),
        ({"Type": "FROM_TRIM_HORIZON"}, [0, 1, 2], []),
        ({"Type": "AT_TRIM_HORIZON"}, [0], ["shard filters", "shard filter AT_TRIM_HORIZON"]),
        ({"Type": "AFTER_SHARD_ID", "ShardId": ROOT}, [1, 2], ["shard filters"]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": LONG_AGO}, [0, 1, 2], []),
        ({"Type": "AT_TIMESTAMP", "Timestamp": LONG_AGO}, [0], ["shard filters", "shard filter AT_TRIM_HORIZON"]),
    ],
)
def test_listing_filters(
    target: Target, unique_name: str, shard_filter: dict[str, Any], shown: list[int], needed: list[str]
) -> None:
    for trait in needed:
        target.need(trait)
    target.create(unique_name)
    target.split(unique_name, ROOT)
    listed = target.shards(unique_name, ShardFilter=shard_filter)
    assert [int(item["ShardId"][-12:]) for item in listed] == shown


@pytest.mark.parametrize("kind", ["AT_TIMESTAMP", "FROM_TIMESTAMP"])
def test_listing_filters_of_a_time_after_a_split(target: Target, unique_name: str, kind: str) -> None:
    target.need("shard filters")
    target.create(unique_name)
    target.split(unique_name, ROOT)
    target.advance(10)
    moment = datetime.now(UTC) + timedelta(seconds=9)
    listed = target.shards(unique_name, ShardFilter={"Type": kind, "Timestamp": moment})
    assert [int(item["ShardId"][-12:]) for item in listed] == [1, 2]


def test_an_iterator_expires_after_five_minutes(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    iterator = target.iterator(unique_name, ROOT)
    target.client.get_records(ShardIterator=iterator)
    target.advance(301)
    assert refused(target.client.get_records, ShardIterator=iterator) == "ExpiredIteratorException"


def test_records_leave_with_the_retention(target: Target, unique_name: str) -> None:
    target.need("retention")
    target.create(unique_name)
    target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"old")
    target.advance(13 * 3600)
    target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"new")
    target.advance(12 * 3600)
    assert data(target.drain(target.iterator(unique_name, ROOT))[0]) == [b"new"]


def test_raising_the_retention_revives_nothing(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    target.client.increase_stream_retention_period(StreamName=unique_name, RetentionPeriodHours=48)
    summary = target.client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    assert summary["RetentionPeriodHours"] == 48
    target.client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"old")
    target.advance(36 * 3600)
    assert data(target.drain(target.iterator(unique_name, ROOT))[0]) == [b"old"]
    target.need("retention")
    target.client.decrease_stream_retention_period(StreamName=unique_name, RetentionPeriodHours=24)
    assert data(target.drain(target.iterator(unique_name, ROOT))[0]) == []
    target.client.increase_stream_retention_period(StreamName=unique_name, RetentionPeriodHours=48)
    assert data(target.drain(target.iterator(unique_name, ROOT))[0]) == []


def test_a_retention_below_a_day_or_the_wrong_way_is_refused(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    for call, hours in (
        (target.client.decrease_stream_retention_period, 23),
        (target.client.decrease_stream_retention_period, 25),
        (target.client.increase_stream_retention_period, 8761),
    ):
        code = refused(call, StreamName=unique_name, RetentionPeriodHours=hours)
        assert code in ("InvalidArgumentException", "ValidationException")


def test_an_on_demand_stream_opens_with_four_shards(target: Target, unique_name: str) -> None:
    target.need("on-demand")
    target.client.create_stream(StreamName=unique_name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    target.wait_active(unique_name)
    summary = target.client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    assert (summary["StreamModeDetails"], summary["OpenShardCount"]) == ({"StreamMode": "ON_DEMAND"}, 4)
    mode = {"StreamMode": "PROVISIONED"}
    target.client.update_stream_mode(StreamARN=summary["StreamARN"], StreamModeDetails=mode)
    target.wait_active(unique_name)
    summary = target.client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    assert summary["StreamModeDetails"] == mode


def test_a_sixth_read_within_a_second_is_refused(target: Target, unique_name: str) -> None:
    target.need("throttling")
    target.limit()
    target.create(unique_name)
    iterator = target.iterator(unique_name, ROOT)

    def six_reads() -> None:
        for _ in range(6):
            target.client.get_records(ShardIterator=iterator)

    assert refused(six_reads) == "ProvisionedThroughputExceededException"


def test_records_beyond_a_shards_rate_fail_alone(target: Target, unique_name: str) -> None:
    target.need("throttling")
    target.limit()
    target.create(unique_name)
    entries = [{"PartitionKey": "a", "Data": b"x" * 10_000}] * 200
    answer = target.client.put_records(StreamName=unique_name, Records=entries)
    codes = [item.get("ErrorCode") for item in answer["Records"]]
    assert answer["FailedRecordCount"] == sum(code is not None for code in codes)
    assert set(codes) == {None, "ProvisionedThroughputExceededException"}
    stored, _ = target.drain(target.iterator(unique_name, ROOT))
    assert len(stored) == 200 - answer["FailedRecordCount"]


def test_a_garbage_iterator_is_refused(target: Target) -> None:
    target.need("garbage iterators refused")
    assert refused(target.client.get_records, ShardIterator="nonsense") == "InvalidArgumentException"


def test_requests_beyond_the_limits_are_refused(target: Target, unique_name: str) -> None:
    target.create(unique_name)
    refused(target.client.get_records, ShardIterator=target.iterator(unique_name, ROOT), Limit=10_001)
    refused(target.client.put_record, StreamName=unique_name, PartitionKey="a", Data=b"x" * (1024 * 1024 + 1))
    target.need("501 records refused")
    refused(target.client.put_records, StreamName=unique_name, Records=[{"PartitionKey": "a", "Data": b""}] * 501)


def test_an_arn_serves_in_place_of_a_name(target: Target, unique_name: str) -> None:
    target.need("ARNs")
    target.create(unique_name)
    summary = target.client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    arn = summary["StreamARN"]
    target.client.put_record(StreamARN=arn, PartitionKey="a", Data=b"x")
    assert len(target.client.list_shards(StreamARN=arn)["Shards"]) == 1
    answer = target.client.get_shard_iterator(StreamARN=arn, ShardId=ROOT, ShardIteratorType="TRIM_HORIZON")
    records = target.client.get_records(ShardIterator=answer["ShardIterator"], StreamARN=arn)["Records"]
    assert data(records) == [b"x"]


def test_a_deleted_stream_is_gone_and_its_successor_is_another(target: Target, unique_name: str) -> None:  # R49
    target.create(unique_name)

    def gone() -> bool:
        try:
            target.client.describe_stream_summary(StreamName=unique_name)
        except target.client.exceptions.ResourceNotFoundException:
            return True
        return False

    first = target.client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    target.client.delete_stream(StreamName=unique_name)
    wait_until(gone, 10, "the stream to be gone")
    target.advance(2)
    target.create(unique_name)
    second = target.client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    assert second["StreamCreationTimestamp"] > first["StreamCreationTimestamp"]
