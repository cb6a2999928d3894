# SPDX-License-Identifier: Apache-2.0
"""What only the DynamoDB store has: its table, its permissions, what AWS refuses; and that it works on moto."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from shardbatch.core import batch, lease
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Namespace
from shardbatch.core.shard import Shard
from shardbatch.errors import StoreError, StoreNotFound
from shardbatch.stores.dynamodb import DynamoDBStore
from tests.support.aws import AwsServer

SPACE = Namespace("orders-etl", "orders")
ROW = lease.add(SPACE, "", Shard("shardId-000"), TRIM_HORIZON, 1, 7)
DOCS = Path(__file__).parents[3] / "docs" / "stores.md"

Call = tuple[str, dict[str, Any]]


@pytest.fixture
def store(dynalite: AwsServer, unique_name: str) -> DynamoDBStore:
    opened = DynamoDBStore(dynalite.client("dynamodb", attempts=2), unique_name, page_size=3)
    opened.prepare()
    return opened


@pytest.fixture
def calls(store: DynamoDBStore) -> Iterator[list[Call]]:
    """Every request of the store: its operation and its parameters."""
    seen: list[Call] = []

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        seen.append((model.name, json.loads(params["body"])))

    store.client.meta.events.register("before-call.dynamodb", note)
    yield seen
    store.client.meta.events.unregister("before-call.dynamodb", note)


def use_all(store: DynamoDBStore, space: Namespace = SPACE) -> None:
    """Each call of the store at least once."""
    rows = [lease.add(space, "", Shard(f"s-{n}"), TRIM_HORIZON, 1, 7) for n in range(8)]
    for each in rows:
        assert store.create(each)
    held = Batch(space, "", "b-1", "w1", 1, BatchState.FROZEN)
    assert store.create(held)
    assert store.create(Application(space, "arn:1", TRIM_HORIZON, 1))
    taken = lease.take(rows[0], "w1", None, 8)
    assert store.replace(rows[0], taken)
    assert not store.replace(rows[0], taken)
    assert list(store.list(SHARD_LEASE, space)) == [taken, *rows[1:]]
    assert list(store.list(SHARD_LEASE, space, lease_owner="w1")) == [taken]
    assert list(store.list(BATCH, space, owner="w1", state="FROZEN")) == [held]
    assert len(list(store.list(APPLICATION, space))) == 1
    adopted = batch.adopt(held, "w2")
    assert store.replace(held, adopted)
    assert store.delete(adopted)
    assert store.get(adopted.key) is None
    store.prepare()


def test_nothing_is_asked_that_the_documented_policy_does_not_allow(store: DynamoDBStore, calls: list[Call]) -> None:
    use_all(store)
    (policy,) = re.findall(r"```json\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    allowed: set[str] = set()
    for statement in json.loads(policy)["Statement"]:
        actions = statement["Action"]
        allowed |= {action.partition(":")[2] for action in ([actions] if isinstance(actions, str) else actions)}
    assert {name for name, _ in calls} == allowed


def test_every_request_stays_inside_the_fence_of_its_namespace(store: DynamoDBStore, calls: list[Call]) -> None:
    # R54: dynamodb:LeadingKeys is compared with the partition key of the table or the index
    use_all(store)
    leading = []
    for name, body in calls:
        if name == "Query":
            values = body["ExpressionAttributeValues"]
            leading.append(values[":k" if "IndexName" in body else ":pk"]["S"])
            assert "IndexName" in body or body["ConsistentRead"] is True
        elif name != "DescribeTable":
            leading.append(body["Key"]["pk"]["S"])
    assert {key for key in leading if not key.startswith("orders-etl/orders#")} == {"orders-etl/orders"}
    assert "orders-etl/orders#w1" in leading


def test_every_row_is_read_as_it_stands_now(store: DynamoDBStore, calls: list[Call]) -> None:
    use_all(store)
    reads = [body for name, body in calls if name == "GetItem" or (name == "Query" and "IndexName" not in body)]
    assert any("Key" in body for body in reads)
    assert all(body["ConsistentRead"] is True for body in reads)


def test_lists_go_page_by_page(store: DynamoDBStore, calls: list[Call]) -> None:
    for n in range(10):
        assert store.create(lease.add(SPACE, "", Shard(f"s-{n}"), TRIM_HORIZON, 1, 7))
    assert len(list(store.list(SHARD_LEASE, SPACE))) == 10
    queries = [body for name, body in calls if name == "Query"]
    assert [body["Limit"] for body in queries] == [3, 3, 3, 3]
    assert ["ExclusiveStartKey" in body for body in queries] == [False, True, True, True]


def test_a_table_is_used_by_its_arn_and_never_made_by_it(ministack: AwsServer, unique_name: str) -> None:
    client = ministack.client("dynamodb")
    DynamoDBStore(client, unique_name).prepare()
    arn = client.describe_table(TableName=unique_name)["Table"]["TableArn"]

    use_all(DynamoDBStore(client, arn))

    for create in (True, False):
        with pytest.raises(StoreNotFound, match="by its ARN is not made") as told:
            DynamoDBStore(client, arn + "-2", create=create).prepare()
        assert told.value.remedy
    assert DynamoDBStore(client, arn).pending() == ()
    assert unique_name + "-2" not in client.list_tables()["TableNames"]


def test_the_table_is_on_demand(store: DynamoDBStore) -> None:
    table = store.client.describe_table(TableName=store.table)["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TableStatus"] == "ACTIVE"


def test_a_table_that_another_makes_just_now_is_waited_for(dynalite: AwsServer, unique_name: str) -> None:
    from shardbatch.stores.dynamodb_table import definition

    dynalite.client("dynamodb").create_table(**definition(unique_name))
    waiting = DynamoDBStore(dynalite.client("dynamodb"), unique_name, create=False)
    waiting.prepare()
    assert waiting.create(ROW)


def test_a_table_of_another_kind_is_refused(dynalite: AwsServer, unique_name: str) -> None:
    client = dynalite.client("dynamodb")
    client.create_table(
        TableName=unique_name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
    )
    client.get_waiter("table_exists").wait(TableName=unique_name, WaiterConfig={"Delay": 1})
    with pytest.raises(StoreError, match=r"not a lease table.*pk and sk.*by_owner"):
        DynamoDBStore(client, unique_name).prepare()


def test_the_server_is_asked_whether_a_row_is_too_large(store: DynamoDBStore) -> None:
    # The row alone would fit; with the attribute of a later version it does not.
    assert store.create(ROW)
    store.client.update_item(
        TableName=store.table,
        Key={"pk": {"S": str(SPACE)}, "sk": {"S": "shard_lease##shardId-000"}},
        UpdateExpression="SET later = :v",
        ExpressionAttributeValues={":v": {"S": "x" * 200_000}},
    )
    large = dataclasses.replace(lease.take(ROW, "w1", None, 8), lease_owner="y" * 300_000)
    with pytest.raises(StoreError, match="400 KB") as told:
        store.replace(ROW, large)
    assert store.table in str(told.value)
    assert store.get(ROW.key) == ROW


def answering(status: int, code: str, message: str) -> Any:
    """A handler that answers in place of the server."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}).encode()

    class Raw:
        def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
            yield body

    return lambda request, **_: AWSResponse(request.url, status, {"content-type": "application/json"}, Raw())


@pytest.mark.parametrize("operation", ["UpdateItem", "GetItem", "Query", "DeleteItem", "DescribeTable"])
def test_what_aws_does_not_allow_is_named(store: DynamoDBStore, operation: str) -> None:
    assert store.create(ROW)
    acts = {
        "UpdateItem": lambda: store.replace(ROW, lease.take(ROW, "w1", None, 8)),
        "GetItem": lambda: store.get(ROW.key),
        "Query": lambda: list(store.list(SHARD_LEASE, SPACE)),
        "DeleteItem": lambda: store.delete(ROW),
        "DescribeTable": store.prepare,
    }
    refuse = answering(400, "AccessDeniedException", "User: someone is not authorized")
    store.client.meta.events.register(f"before-send.dynamodb.{operation}", refuse)
    with pytest.raises(StoreError, match=f"dynamodb:{operation} on the table {store.table}") as told:
        acts[operation]()
    assert not isinstance(told.value, StoreNotFound)
    assert "policy" in str(told.value)


@pytest.mark.parametrize(
    ("status", "code"), [(400, "ProvisionedThroughputExceededException"), (503, "ServiceUnavailable")]
)
def test_a_write_that_is_refused_for_a_while_is_sent_again(store: DynamoDBStore, status: int, code: str) -> None:
    left = [3]
    refuse = answering(status, code, "slow down")

    def some(request: Any, **_: Any) -> Any:
        left[0] -= 1
        return refuse(request) if left[0] >= 0 else None

    store.client.meta.events.register("before-send.dynamodb.UpdateItem", some)
    assert store.create(ROW)
    assert store.get(ROW.key) == ROW
    assert left[0] < 0


def test_a_server_that_does_not_answer_is_told(store: DynamoDBStore) -> None:
    store.client.meta.events.register("before-send.dynamodb.GetItem", answering(500, "InternalServerError", "sorry"))
    with pytest.raises(StoreError, match="does not answer: InternalServerError: sorry"):
        store.get(ROW.key)


def test_it_works_on_moto(moto_server: AwsServer, unique_name: str) -> None:
    # One thread only: moto's conditional writes are not atomic.
    store = DynamoDBStore(moto_server.client("dynamodb"), unique_name, page_size=3)
    with pytest.raises(StoreNotFound, match=unique_name):
        store.get(ROW.key)
    store.prepare()
    use_all(store)
    store.close()
