# SPDX-License-Identifier: Apache-2.0
"""What every server with DynamoDB and its streams has to do, as boto3 sees it; a clause names no server, only what it
needs beyond the least."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.local.conftest import Json, TableTarget
from tests.integration.local.test_conformance import refused

VIEWS = ("KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
EVERY_TYPE: Json = {
    "text": {"S": "é\n"},
    "empty": {"S": ""},
    "number": {"N": "-12345678901234567890.123456789012345678"},
    "binary": {"B": b"\x00\xff"},
    "yes": {"BOOL": True},
    "nothing": {"NULL": True},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2.5"]},
    "binaries": {"BS": [b"\x00", b"\xff"]},
    "list": {"L": [{"S": "a"}, {"L": []}, {"M": {}}]},
    "map": {"M": {"deep": {"M": {"n": {"N": "1"}}}}},
}


def key(name: str, at: int = 1) -> Json:
    return {"id": {"S": name}, "at": {"N": str(at)}}


def item(name: str, at: int = 1, **attributes: Json) -> Json:
    return {**key(name, at), **attributes}


A, B = {"S": "a"}, {"S": "b"}


def make_changes(target: TableTarget, table: str) -> list[tuple[str, Json, Json | None, Json | None]]:
    """Calls of every kind; the events that they make: name, key, old and new item."""
    tables = target.tables
    update = {"TableName": table, "Key": key("u")}
    tables.put_item(TableName=table, Item=item("p", **EVERY_TYPE))
    tables.put_item(TableName=table, Item=item("p", **EVERY_TYPE))  # the same
    tables.put_item(TableName=table, Item=item("p", v=A))
    tables.update_item(**update, UpdateExpression="SET v = :v", ExpressionAttributeValues={":v": A})  # a new item
    tables.update_item(**update, UpdateExpression="SET v = :v", ExpressionAttributeValues={":v": A})  # the same
    tables.update_item(
        **update,
        UpdateExpression="SET #w = v, v = :v",
        ExpressionAttributeNames={"#w": "w"},
        ExpressionAttributeValues={":v": B},
    )
    tables.update_item(**update, UpdateExpression="REMOVE v, absent")
    tables.update_item(**update, UpdateExpression="REMOVE absent")  # the same
    tables.update_item(TableName=table, Key=key("u", 2))  # a new item without attributes
    tables.delete_item(TableName=table, Key=key("missing"))  # nothing
    tables.delete_item(TableName=table, Key=key("p"))
    tables.batch_write_item(
        RequestItems={
            table: [
                {"PutRequest": {"Item": item("b", 1, v=A)}},
                {"PutRequest": {"Item": item("b", 2, v=A)}},
                {"PutRequest": {"Item": item("u", 1, w=A)}},  # the same
                {"DeleteRequest": {"Key": key("u", 2)}},
            ]
        }
    )
    return [
        ("INSERT", key("p"), None, item("p", **EVERY_TYPE)),
        ("MODIFY", key("p"), item("p", **EVERY_TYPE), item("p", v=A)),
        ("INSERT", key("u"), None, item("u", v=A)),
        ("MODIFY", key("u"), item("u", v=A), item("u", v=B, w=A)),
        ("MODIFY", key("u"), item("u", v=B, w=A), item("u", w=A)),
        ("INSERT", key("u", 2), None, key("u", 2)),
        ("REMOVE", key("p"), item("p", v=A), None),
        ("INSERT", key("b", 1), None, item("b", 1, v=A)),
        ("INSERT", key("b", 2), None, item("b", 2, v=A)),
        ("REMOVE", key("u", 2), key("u", 2), None),
    ]


def plain(value: Any) -> Any:
    """An item in which equal sets are equal."""
    if isinstance(value, dict):
        return {name: sorted(v) if name in ("SS", "NS", "BS") else plain(v) for name, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("view", VIEWS)
def test_changes_make_these_records(table_target: TableTarget, unique_name: str, view: str) -> None:
    arn = table_target.create(unique_name, view)
    expected = make_changes(table_target, unique_name)
    records = table_target.changes(arn)
    shown = []
    for name, changed, old, new in expected:
        images = {
            "NewImage": new if view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES") else None,
            "OldImage": old if view in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES") else None,
        }
        shown.append((name, changed, {image: value for image, value in images.items() if value is not None}))
    found = [
        (
            record["eventName"],
            record["dynamodb"]["Keys"],
            plain(
                {image: record["dynamodb"][image] for image in ("NewImage", "OldImage") if image in record["dynamodb"]}
            ),
        )
        for record in records
    ]
    assert found == shown


def test_a_record_has_these_members(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    make_changes(table_target, unique_name)
    records = table_target.changes(arn)
    for record in records:
        assert sorted(set(record) - {"userIdentity"}) == [
            "awsRegion",
            "dynamodb",
            "eventID",
            "eventName",
            "eventSource",
            "eventVersion",
        ]
        assert (record["eventVersion"], record["eventSource"]) == ("1.1", "aws:dynamodb")
        assert record["awsRegion"] == table_target.streams.meta.region_name
        change = record["dynamodb"]
        assert sorted(set(change) - {"NewImage", "OldImage"}) == [
            "ApproximateCreationDateTime",
            "Keys",
            "SequenceNumber",
            "SizeBytes",
            "StreamViewType",
        ]
        created = change["ApproximateCreationDateTime"]
        assert created.microsecond == 0
        assert abs(datetime.now(UTC) - created) < timedelta(minutes=5)
        assert 21 <= len(change["SequenceNumber"]) <= 40
        assert change["StreamViewType"] == "NEW_AND_OLD_IMAGES"
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in records]
    assert numbers == sorted(set(numbers))
    assert len({record["eventID"] for record in records}) == len(records)


def test_a_record_has_its_size(table_target: TableTarget, unique_name: str) -> None:
    table_target.need("sizes")
    arn = table_target.create(unique_name)
    table_target.tables.put_item(TableName=unique_name, Item=item("name", 101, Message={"S": "New item!"}))
    (record,) = table_target.changes(arn)
    assert record["dynamodb"]["SizeBytes"] == 2 * (2 + 4 + 2 + 3) + 7 + 9


def test_a_number_has_one_form(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    for number in ("100", "1E2", "0100.0"):
        table_target.tables.put_item(TableName=unique_name, Item=item("n", v={"N": number}))
    (record,) = table_target.changes(arn)
    assert record["dynamodb"]["NewImage"]["v"] == {"N": "100"}


def test_places_by_sequence_number(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    for at in range(4):
        table_target.tables.put_item(TableName=unique_name, Item=key("k", at))
    numbers = [record["dynamodb"]["SequenceNumber"] for record in table_target.changes(arn)]

    def seen(kind: str, **fields: Any) -> list[str]:
        return [record["dynamodb"]["SequenceNumber"] for record in table_target.changes(arn, kind, **fields)]

    assert seen("AT_SEQUENCE_NUMBER", SequenceNumber=numbers[1]) == numbers[1:]
    assert seen("AFTER_SEQUENCE_NUMBER", SequenceNumber=numbers[1]) == numbers[2:]
    assert seen("LATEST") == []


def test_a_place_by_time(table_target: TableTarget, unique_name: str) -> None:
    table_target.need("places by time")
    arn = table_target.create(unique_name)
    table_target.tables.put_item(TableName=unique_name, Item=key("k"))
    (record,) = table_target.changes(arn)
    created = record["dynamodb"]["ApproximateCreationDateTime"]
    assert len(table_target.changes(arn, "AT_TIMESTAMP", Timestamp=created)) == 1
    ahead = datetime.now(UTC) + timedelta(hours=1)
    assert refused(table_target.place, arn=arn, kind="AT_TIMESTAMP", Timestamp=ahead) == "ValidationException"


def test_a_reader_goes_on_from_page_to_page(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    for at in range(7):
        table_target.tables.put_item(TableName=unique_name, Item=key("k", at))
    iterator, found = table_target.place(arn), []
    for _ in range(4):
        answer = table_target.streams.get_records(ShardIterator=iterator, Limit=2)
        found.append([record["dynamodb"]["Keys"]["at"]["N"] for record in answer["Records"]])
        iterator = answer["NextShardIterator"]
    assert found == [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]
    table_target.tables.put_item(TableName=unique_name, Item=key("k", 7))
    (late,) = table_target.streams.get_records(ShardIterator=iterator)["Records"]
    assert late["dynamodb"]["Keys"] == key("k", 7)


def test_a_stream_is_listed_and_described(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name, "NEW_IMAGE")
    (listed,) = table_target.streams.list_streams(TableName=unique_name)["Streams"]
    label = arn.partition("/stream/")[2]
    assert listed == {"StreamArn": arn, "TableName": unique_name, "StreamLabel": label}
    shown = table_target.streams.describe_stream(StreamArn=arn)["StreamDescription"]
    assert (shown["StreamArn"], shown["StreamLabel"], shown["TableName"]) == (arn, label, unique_name)
    assert (shown["StreamStatus"], shown["StreamViewType"]) == ("ENABLED", "NEW_IMAGE")
    assert [part["AttributeName"] for part in shown["KeySchema"]] == ["id", "at"]
    (shard,) = shown["Shards"]
    assert 28 <= len(shard["ShardId"]) <= 65
    assert "EndingSequenceNumber" not in shard["SequenceNumberRange"]


def test_a_shard_without_children_has_none(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    (shard,) = table_target.streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    shard_filter = {"Type": "CHILD_SHARDS", "ShardId": shard["ShardId"]}
    answer = table_target.streams.describe_stream(StreamArn=arn, ShardFilter=shard_filter)
    assert answer["StreamDescription"]["Shards"] == []


def test_an_open_shard_has_a_starting_number(table_target: TableTarget, unique_name: str) -> None:
    table_target.need("starting numbers")
    arn = table_target.create(unique_name)
    (shard,) = table_target.streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    start = shard["SequenceNumberRange"]["StartingSequenceNumber"]
    table_target.tables.put_item(TableName=unique_name, Item=key("k"))
    assert len(table_target.changes(arn, "AT_SEQUENCE_NUMBER", SequenceNumber=start)) == 1


def switch(target: TableTarget, table: str, view: str | None) -> Json:
    wanted = {"StreamEnabled": False} if view is None else {"StreamEnabled": True, "StreamViewType": view}
    shown: Json = target.tables.update_table(TableName=table, StreamSpecification=wanted)["TableDescription"]
    return shown


def test_a_disabled_stream_is_read_to_its_end(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    table_target.tables.put_item(TableName=unique_name, Item=key("k"))
    switch(table_target, unique_name, None)
    shown = table_target.streams.describe_stream(StreamArn=arn)["StreamDescription"]
    assert shown["StreamStatus"] == "DISABLED"
    (shard,) = shown["Shards"]
    (record,) = table_target.changes(arn)
    assert shard["SequenceNumberRange"]["EndingSequenceNumber"] == record["dynamodb"]["SequenceNumber"]
    answer = table_target.streams.get_records(ShardIterator=table_target.place(arn))
    assert answer.get("NextShardIterator") is None
    table_target.tables.put_item(TableName=unique_name, Item=key("k", 2))
    assert table_target.changes(arn) == [record]


def test_a_disabled_stream_is_listed(table_target: TableTarget, unique_name: str) -> None:
    table_target.need("disabled streams listed")
    arn = table_target.create(unique_name)
    switch(table_target, unique_name, None)
    listed = table_target.streams.list_streams(TableName=unique_name)["Streams"]
    assert [stream["StreamArn"] for stream in listed] == [arn]


def test_a_stream_that_is_enabled_again_has_another_arn(table_target: TableTarget, unique_name: str) -> None:
    first = table_target.create(unique_name)
    table_target.tables.put_item(TableName=unique_name, Item=key("k", 1))
    switch(table_target, unique_name, None)
    second = switch(table_target, unique_name, "KEYS_ONLY")["LatestStreamArn"]
    table_target.tables.put_item(TableName=unique_name, Item=key("k", 2))
    assert first != second
    keys = [[record["dynamodb"]["Keys"] for record in table_target.changes(arn)] for arn in (first, second)]
    assert keys == [[key("k", 1)], [key("k", 2)]]


def test_a_stream_is_not_enabled_or_disabled_twice(table_target: TableTarget, unique_name: str) -> None:
    table_target.need("one stream at a time")
    table_target.create(unique_name)
    table = {"target": table_target, "table": unique_name}
    assert refused(switch, **table, view="KEYS_ONLY") == "ValidationException"
    switch(table_target, unique_name, None)
    assert refused(switch, **table, view=None) == "ValidationException"


def test_what_is_not_there_is_not_found(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    streams, missing = table_target.streams, "ResourceNotFoundException"
    assert refused(streams.describe_stream, StreamArn=arn[:-1] + ("1" if arn[-1] != "1" else "2")) == missing
    shard = {"ShardId": "shardId-00000001541626099285-f35f62ee", "ShardIteratorType": "LATEST"}
    assert refused(streams.get_shard_iterator, StreamArn=arn, **shard) == missing
    assert refused(table_target.tables.put_item, TableName=f"{unique_name}-x", Item=key("k")) == missing
    assert refused(table_target.tables.describe_table, TableName=f"{unique_name}-x") == missing


def test_what_is_no_request_is_refused(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    tables, table = table_target.tables, {"TableName": unique_name}
    invalid = "ValidationException"
    assert refused(table_target.streams.get_records, ShardIterator="garbage") == invalid
    assert refused(table_target.place, arn=arn, kind="AT_SEQUENCE_NUMBER") == invalid
    assert refused(tables.put_item, **table, Item={"id": A}) == invalid
    assert refused(tables.put_item, **table, Item={"id": {"S": ""}, "at": {"N": "1"}}) == invalid
    assert refused(tables.get_item, **table, Key={"id": A}) == invalid
    assert refused(tables.put_item, **table, Item=item("k", v={"N": "x"})) == invalid
    update = {**table, "Key": key("k"), "ExpressionAttributeValues": {":v": A}}
    assert refused(tables.update_item, **update, UpdateExpression="SET id = :v") == invalid
    assert refused(tables.update_item, **update, UpdateExpression="SET v = :w") == invalid
    assert refused(tables.update_item, **update, UpdateExpression="REMOVE v") == invalid
    twice = [{"PutRequest": {"Item": key("k")}}, {"DeleteRequest": {"Key": key("k")}}]
    assert refused(tables.batch_write_item, RequestItems={unique_name: twice}) == invalid
    assert table_target.changes(arn) == []


def test_an_update_changes_an_attribute_once(table_target: TableTarget, unique_name: str) -> None:
    table_target.need("one change of an attribute")
    table_target.create(unique_name)
    update = {"TableName": unique_name, "Key": key("k"), "ExpressionAttributeValues": {":v": A}}
    code = refused(table_target.tables.update_item, **update, UpdateExpression="SET v = :v, v = :v")
    assert code == "ValidationException"


def test_old_and_new_items_are_returned(table_target: TableTarget, unique_name: str) -> None:
    table_target.create(unique_name)
    tables, table = table_target.tables, {"TableName": unique_name}
    tables.put_item(**table, Item=item("k", v=A))
    old = {**table, "ReturnValues": "ALL_OLD"}
    assert tables.put_item(**old, Item=item("k", v=B))["Attributes"] == item("k", v=A)
    new = tables.update_item(**table, Key=key("k"), UpdateExpression="REMOVE v", ReturnValues="ALL_NEW")
    assert new["Attributes"] == key("k")
    assert tables.get_item(**table, Key=key("k"))["Item"] == key("k")
    assert tables.delete_item(**old, Key=key("k"))["Attributes"] == key("k")
    assert "Item" not in tables.get_item(**table, Key=key("k"))


def test_the_stream_of_a_deleted_table_can_still_be_read(table_target: TableTarget, unique_name: str) -> None:
    arn = table_target.create(unique_name)
    table_target.tables.put_item(TableName=unique_name, Item=key("k"))
    table_target.tables.delete_table(TableName=unique_name)
    assert len(table_target.changes(arn)) == 1
    assert refused(table_target.tables.describe_table, TableName=unique_name) == "ResourceNotFoundException"
