# SPDX-License-Identifier: Apache-2.0
"""The table front: what changes an item, what record that makes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.caller import NOW, Json, RefusedError
from tests.unit.local.table_caller import BOTH, TableCaller, key_of, names

A, B = {"S": "a"}, {"S": "b"}
SCHEMA = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}]
TYPES = [{"AttributeName": "p", "AttributeType": "N"}, {"AttributeName": "s", "AttributeType": "B"}]


def create(caller: TableCaller, name: str = "pairs", **fields: Any) -> Json:
    answer = caller.call(
        "CreateTable", **{"TableName": name, "KeySchema": SCHEMA, "AttributeDefinitions": TYPES, **fields}
    )
    shown: Json = answer["TableDescription"]
    return shown


def test_an_insert_a_change_and_a_deletion_are_a_record_each() -> None:
    caller = TableCaller()
    caller.put_item("1", v=A)
    caller.clock.advance(1.9)
    caller.put_item("1", v=B)
    caller.delete_item("1")
    inserted, modified, removed = caller.changes()
    assert inserted == {
        "eventID": inserted["eventID"],
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": int(NOW),
            "Keys": {"id": {"S": "1"}},
            "NewImage": {"id": {"S": "1"}, "v": A},
            "SequenceNumber": inserted["dynamodb"]["SequenceNumber"],
            "SizeBytes": 8,
            "StreamViewType": BOTH,
        },
    }
    assert modified["dynamodb"]["OldImage"] == inserted["dynamodb"]["NewImage"]
    assert modified["dynamodb"]["NewImage"]["v"] == B
    assert modified["dynamodb"]["ApproximateCreationDateTime"] == int(NOW) + 1
    assert removed["dynamodb"]["OldImage"] == modified["dynamodb"]["NewImage"]
    assert names([inserted, modified, removed]) == ["INSERT", "MODIFY", "REMOVE"]
    assert len({record["eventID"] for record in (inserted, modified, removed)}) == 3


@pytest.mark.parametrize(
    ("view", "images"),
    [
        ("KEYS_ONLY", [[], [], []]),
        ("NEW_IMAGE", [["NewImage"], ["NewImage"], []]),
        ("OLD_IMAGE", [[], ["OldImage"], ["OldImage"]]),
        (BOTH, [["NewImage"], ["NewImage", "OldImage"], ["OldImage"]]),
    ],
)
def test_a_view_carries_its_images(view: str, images: list[list[str]]) -> None:  # B-2
    caller = TableCaller(view=view)
    caller.put_item("1", v=A)
    caller.put_item("1", v=B)
    caller.delete_item("1")
    shown = [record["dynamodb"] for record in caller.changes()]
    assert [sorted({"NewImage", "OldImage"} & set(part)) for part in shown] == images
    assert {part["StreamViewType"] for part in shown} == {view}
    assert [part["Keys"] for part in shown] == [key_of("1")] * 3


def test_what_changes_nothing_makes_no_record() -> None:
    caller = TableCaller()
    caller.put_item("1", v={"NS": ["1", "2.50"]}, w={"N": "1E2"})
    caller.put_item("1", w={"N": "100.0"}, v={"NS": ["2.5", "1"]})
    caller.update("1", "SET w = :w", w={"N": "0100"})
    caller.update("1", "REMOVE nothing")
    caller.delete_item("missing")
    assert names(caller.changes()) == ["INSERT"]
    assert caller.item("1") == {"id": {"S": "1"}, "v": {"NS": ["1", "2.5"]}, "w": {"N": "100"}}


def test_an_update_of_nothing_is_one_insert() -> None:
    caller = TableCaller()
    caller.update("1", "SET v = :v", v=A)
    caller.update("2", "REMOVE v")
    caller.call("UpdateItem", TableName="orders", Key=key_of("3"))
    assert names(caller.changes()) == ["INSERT"] * 3
    assert [caller.item(key) for key in "123"] == [{**key_of("1"), "v": A}, key_of("2"), key_of("3")]


def test_an_update_sets_copies_and_removes_attributes() -> None:
    caller = TableCaller()
    caller.put_item("1", v=A, w=B, gone=A)
    caller.update(
        "1", "remove gone, #x SET #v = w, w=v , fresh = :new", names={"#x": "no", "#v": "v"}, new={"NULL": True}
    )
    assert caller.item("1") == {"id": {"S": "1"}, "v": B, "w": A, "fresh": {"NULL": True}}


@pytest.mark.parametrize(
    ("expression", "values", "reason"),
    [
        ("ADD n :n", {"n": A}, "does not do ADD"),
        ("DELETE n :n", {"n": A}, "does not do DELETE"),
        ("SET n = n + :n", {"n": A}, "does not do arithmetic"),
        ("SET a.b = :n", {"n": A}, "does not do paths"),
        ("REMOVE a[0]", {}, "does not do paths"),
        ("SET a = if_not_exists(a, :n)", {"n": A}, "does not do the function if_not_exists"),
        ("SET id = :n", {"n": A}, "part of the key"),
        ("SET a = :n, a = :n", {"n": A}, "twice"),
        ("SET a = :n REMOVE a", {"n": A}, "twice"),
        ("SET a = :n SET b = :n", {"n": A}, "once each"),
        ("SET a = :n b = :n", {"n": A}, "clause must begin"),
        ("SET a = :missing", {}, "has no :missing"),
        ("SET #a = :n", {"n": A}, "has no #a"),
        ("SET a = missing", {}, "which the item does not have"),
        ("SET a = :n", {"n": A, "m": A}, ":m"),
        ("SET a :n", {"n": A}, "'='"),
        ("SET a =", {}, "too early"),
        ("SET = :n", {"n": A}, "where an attribute must"),
        (" ", {}, "may not be empty"),
        ("REMOVE a,", {}, "too early"),
    ],
)
def test_an_update_that_is_not_done_says_why(expression: str, values: Json, reason: str) -> None:
    caller = TableCaller()
    caller.put_item("1", n={"N": "1"})
    with pytest.raises(RefusedError) as raised:
        caller.update("1", expression, **values)
    assert (raised.value.code, raised.value.status) == ("ValidationException", 400)
    assert reason in raised.value.message
    assert names(caller.changes()) == ["INSERT"]


def test_old_and_new_items_are_returned_when_asked_for() -> None:
    caller = TableCaller()
    put = {"TableName": "orders", "ReturnValues": "ALL_OLD"}
    assert caller.call("PutItem", Item={**key_of("1"), "v": A}, **put) == {}
    assert caller.call("PutItem", Item={**key_of("1"), "v": B}, **put) == {"Attributes": {**key_of("1"), "v": A}}
    update = {"TableName": "orders", "Key": key_of("1"), "UpdateExpression": "REMOVE v"}
    assert caller.call("UpdateItem", ReturnValues="ALL_NEW", **update) == {"Attributes": key_of("1")}
    assert caller.call("DeleteItem", Key=key_of("1"), **put) == {"Attributes": key_of("1")}
    assert caller.call("DeleteItem", Key=key_of("1"), **put) == {}
    assert caller.item("1") is None


def test_a_batch_writes_all_or_nothing_that_is_wrong() -> None:
    caller = TableCaller()
    create(caller)
    caller.put_item("1", v=A)
    pair = {"p": {"N": "1"}, "s": {"B": "AA=="}}
    writes = [{"PutRequest": {"Item": key_of("2")}}, {"DeleteRequest": {"Key": key_of("1")}}]
    request = {"orders": writes, "pairs": [{"PutRequest": {"Item": pair}}]}
    assert caller.call("BatchWriteItem", RequestItems=request) == {"UnprocessedItems": {}}
    assert [caller.item(key) for key in "12"] == [None, key_of("2")]
    assert caller.call("GetItem", TableName="pairs", Key=pair)["Item"] == pair
    for bad in (
        {"orders": [*writes, writes[0]]},
        {"orders": []},
        {"orders": [{"PutRequest": {"Item": key_of(str(number))}} for number in range(26)]},
        {"orders": [{}]},
        {"orders": [{"PutRequest": {"Item": key_of("3")}, "DeleteRequest": {"Key": key_of("3")}}]},
        {"orders": [{"PutRequest": {"Item": key_of("3")}}, {"PutRequest": {"Item": {"id": {"N": "3"}}}}]},
        {},
    ):
        assert caller.refused("BatchWriteItem", RequestItems=bad) == "ValidationException"
    assert caller.refused("BatchWriteItem", RequestItems={"missing": writes}) == "ResourceNotFoundException"
    assert caller.item("3") is None


def test_a_batch_can_be_taken_in_part() -> None:
    caller = TableCaller()
    writes = [{"PutRequest": {"Item": key_of(key)}} for key in "1234"]
    caller.faults.add("BatchWriteItem", "partial", stream="orders", keep=0.5)
    assert caller.call("BatchWriteItem", RequestItems={"orders": writes}) == {
        "UnprocessedItems": {"orders": writes[2:]}
    }
    assert len(caller.changes()) == 2


@pytest.mark.parametrize(
    ("operation", "fields", "member"),
    [
        ("PutItem", {"Item": {}, "ConditionExpression": "attribute_exists(a)"}, "ConditionExpression"),
        ("DeleteItem", {"Key": {}, "Expected": {}}, "Expected"),
        ("UpdateItem", {"Key": {}, "AttributeUpdates": {}}, "AttributeUpdates"),
        ("GetItem", {"Key": {}, "ProjectionExpression": "a"}, "ProjectionExpression"),
        ("CreateTable", {"GlobalSecondaryIndexes": []}, "GlobalSecondaryIndexes"),
        ("UpdateTable", {"BillingMode": "PROVISIONED"}, "BillingMode"),
    ],
)
def test_what_the_front_does_not_do_is_named(operation: str, fields: Json, member: str) -> None:
    with pytest.raises(RefusedError) as raised:
        TableCaller().call(operation, TableName="orders", **fields)
    assert raised.value.code == "ValidationException"
    assert f"does not do {member} of {operation}" in raised.value.message


def test_a_scan_shows_each_item_once_page_by_page_while_others_come_and_go() -> None:
    caller = TableCaller()
    for number in range(10):
        caller.put_item(str(number), v=A)
    whole = caller.call("Scan", TableName="orders")
    assert sorted(item["id"]["S"] for item in whole["Items"]) == sorted(map(str, range(10)))
    assert (whole["Count"], whole["ScannedCount"], "LastEvaluatedKey" in whole) == (10, 10, False)

    found, cursor = [], {}
    while True:
        page = caller.call("Scan", TableName="orders", Limit=3, **cursor)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            break
        cursor = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        caller.delete_item(page["LastEvaluatedKey"]["id"]["S"])  # its place is known without it
        caller.update(found[0]["id"]["S"], "SET v = :v", v=B)
    assert found == whole["Items"]
    assert caller.call("Scan", TableName="orders", **cursor)["Count"] == 1
    for more in ({"FilterExpression": "v = :v"}, {"Limit": 0}, {"ExclusiveStartKey": {"p": A}}):
        assert caller.refused("Scan", TableName="orders", **more) == "ValidationException"


def test_a_page_of_a_scan_has_a_megabyte() -> None:
    caller = TableCaller()
    for number in range(5):
        caller.put_item(str(number), v={"S": "x" * 300_000})
    page = caller.call("Scan", TableName="orders")
    assert page["Count"] == 4
    assert caller.call("Scan", TableName="orders", ExclusiveStartKey=page["LastEvaluatedKey"])["Count"] == 1


@pytest.mark.parametrize("operation", ["Query", "TransactWriteItems", "UpdateTimeToLive"])
def test_an_operation_that_is_missing_is_named(operation: str) -> None:
    with pytest.raises(RefusedError) as raised:
        TableCaller().call(operation, TableName="orders")
    assert raised.value.code == "UnknownOperationException"
    assert operation in raised.value.message
    assert "PutItem" in raised.value.message


def test_a_table_is_described_as_it_was_made() -> None:
    caller = TableCaller()
    assert "LatestStreamArn" not in create(caller, BillingMode="PAY_PER_REQUEST", Tags=[])
    shown = caller.call("DescribeTable", TableName="orders")["Table"]
    assert shown["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert shown["AttributeDefinitions"] == [{"AttributeName": "id", "AttributeType": "S"}]
    assert (shown["TableStatus"], shown["ItemCount"], shown["LatestStreamArn"]) == ("ACTIVE", 0, caller.arn)
    assert shown["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": BOTH}
    pairs = caller.call("DescribeTable", TableName="arn:aws:dynamodb:us-east-1:123456789012:table/pairs")["Table"]
    assert (pairs["KeySchema"], pairs["AttributeDefinitions"]) == (SCHEMA, TYPES)


@pytest.mark.parametrize(
    "fields",
    [
        {"KeySchema": SCHEMA[1:]},
        {"KeySchema": [SCHEMA[0], {"AttributeName": "p", "KeyType": "RANGE"}]},
        {"KeySchema": [{}]},
        {"AttributeDefinitions": TYPES[:1]},
        {"AttributeDefinitions": [TYPES[0], {"AttributeName": "s", "AttributeType": "BOOL"}]},
        {"StreamSpecification": {"StreamEnabled": True}},
        {"StreamSpecification": {"StreamEnabled": False, "StreamViewType": BOTH}},
        {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "ALL"}},
        {"StreamSpecification": {"StreamEnabled": "yes", "StreamViewType": BOTH}},
        {"TableName": "a"},
    ],
)
def test_a_bad_table_is_refused(fields: Json) -> None:
    caller = TableCaller()
    given = {"TableName": "pairs", "KeySchema": SCHEMA, "AttributeDefinitions": TYPES, **fields}
    assert caller.refused("CreateTable", **given) == "ValidationException"


def test_tables_have_their_names_to_themselves_in_a_region_of_an_account() -> None:
    caller = TableCaller()
    assert caller.refused("CreateTable", TableName="orders", KeySchema=SCHEMA, AttributeDefinitions=TYPES) == (
        "ResourceInUseException"
    )
    with pytest.raises(RefusedError):
        caller.call("DescribeTable", TableName="orders", region="eu-west-1")
    with pytest.raises(RefusedError):
        caller.call("DescribeTable", TableName="orders", key="111122223333")
    create(caller)
    caller.call("DeleteTable", TableName="pairs")
    assert caller.refused("DescribeTable", TableName="pairs") == "ResourceNotFoundException"
    create(caller)


def test_a_table_takes_its_time_to_come_and_to_go() -> None:
    caller = TableCaller(create_seconds=10, delete_seconds=5, enable_seconds=2)
    put = {"TableName": "orders", "Item": key_of("1")}
    stream = {"TableName": "orders", "StreamSpecification": {"StreamEnabled": False}}

    def status() -> str:
        return str(caller.call("DescribeTable", TableName="orders")["Table"]["TableStatus"])

    assert (status(), caller.describe()["StreamStatus"]) == ("CREATING", "ENABLING")
    assert caller.refused("PutItem", **put) == "ResourceNotFoundException"
    caller.clock.advance(10)
    caller.call("PutItem", **put)
    caller.call("UpdateTable", **stream)
    assert (status(), caller.describe()["StreamStatus"]) == ("UPDATING", "DISABLING")
    assert caller.refused("UpdateTable", **stream) == "ResourceInUseException"
    caller.clock.advance(2)
    assert (status(), caller.describe()["StreamStatus"]) == ("ACTIVE", "DISABLED")
    caller.call("DeleteTable", TableName="orders")
    assert (status(), caller.refused("DeleteTable", TableName="orders")) == ("DELETING", "ResourceInUseException")
    caller.clock.advance(5)
    assert caller.refused("DescribeTable", TableName="orders") == "ResourceNotFoundException"


@pytest.mark.parametrize(
    "item",
    [{}, {"v": A}, {"id": {"N": "1"}}, {"id": {"S": ""}}, {"id": {"S": "1"}, "": A}, {"id": {"S": "x" * 410_000}}],
)
def test_an_item_needs_its_key_and_has_a_largest_size(item: Json) -> None:
    caller = TableCaller()
    assert caller.refused("PutItem", TableName="orders", Item=item) == "ValidationException"
    assert caller.changes() == []


@pytest.mark.parametrize("key", [{}, {"id": A, "v": A}, {"id": {"N": "1"}}])
def test_a_key_is_the_key_and_nothing_else(key: Json) -> None:
    for operation in ("GetItem", "DeleteItem", "UpdateItem"):
        assert TableCaller().refused(operation, TableName="orders", Key=key) == "ValidationException"


def test_an_item_whose_time_is_over_is_deleted_by_the_service() -> None:
    caller = TableCaller()
    for key, end in (("past", "1600000000"), ("ahead", "1800000000.5"), ("odd", None)):
        caller.put_item(key, **({"end": {"N": end}} if end else {"end": A}))
    assert caller.tables.expire("orders", attribute="end") == 1
    caller.delete_item("odd")
    expired, deleted = caller.changes()[3:]
    assert (expired["eventName"], expired["dynamodb"]["Keys"]) == ("REMOVE", key_of("past"))
    assert expired["userIdentity"] == {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert "userIdentity" not in deleted
    assert caller.tables.expire("orders", [key_of("missing"), key_of("ahead")]) == 1
    assert caller.tables.expire("orders") == 0
