# SPDX-License-Identifier: Apache-2.0
"""Tables and their streams on the wire: shapes, faults, and steering from outside."""

from __future__ import annotations

import http.client
import json
import signal
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from shardbatch.local import StreamServer
from tests.integration.local.conftest import Json
from tests.integration.local.test_server import process, steer
from tests.support.aws import AwsServer
from tests.support.pages import DOCS, blocks

EARLIEST = 1_000_000_000
KEY_OF_A = {"id": {"S": "a"}}


@pytest.fixture
def tables(server: StreamServer) -> Any:
    return AwsServer("shardbatch.local", server.endpoint_url).client("dynamodb", attempts=1)


@pytest.fixture
def streams(server: StreamServer) -> Any:
    return AwsServer("shardbatch.local", server.endpoint_url).client("dynamodbstreams", attempts=1)


def check_shape(shape: Any, value: Any, path: str) -> None:
    """See that a JSON value has the shape that the service publishes, and no members beyond it."""
    if shape.type_name == "structure":
        assert set(value) <= set(shape.members), path
        assert set(shape.required_members) <= set(value), path
        for name, inner in value.items():
            if inner is not None:
                check_shape(shape.members[name], inner, f"{path}.{name}")
    elif shape.type_name == "list":
        for index, inner in enumerate(value):
            check_shape(shape.member, inner, f"{path}[{index}]")
    elif shape.type_name == "map":
        for name, inner in value.items():
            check_shape(shape.value, inner, f"{path}.{name}")
    elif shape.type_name == "timestamp":
        assert isinstance(value, (int, float)), path
        assert value > EARLIEST, path
    elif shape.type_name in ("string", "blob"):
        assert isinstance(value, str), path
        known = getattr(shape, "enum", None)
        assert not known or value in known, path
        least, most = shape.metadata.get("min", 0), shape.metadata.get("max", len(value))
        assert least <= len(value) <= most, path
    else:
        assert isinstance(value, bool if shape.type_name == "boolean" else int), path


class Wire:
    """Calls the server without an SDK and checks each answer's shape."""

    def __init__(self, server: StreamServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        session = botocore.session.get_session()
        self._models = [session.get_service_model(name) for name in ("dynamodb", "dynamodbstreams")]

    def close(self) -> None:
        self._connection.close()

    def ask(self, operation: str, **fields: Any) -> Json:
        model = next(model for model in self._models if operation in model.operation_names)
        headers = {"X-Amz-Target": f"{model.metadata['targetPrefix']}.{operation}"}
        self._connection.request("POST", "/", json.dumps(fields), headers)
        reply = self._connection.getresponse()
        answer: Json = json.loads(reply.read())
        assert reply.status == 200, answer
        assert reply.getheader("Content-Type") == f"application/x-amz-json-{model.metadata['jsonVersion']}"
        check_shape(model.operation_model(operation).output_shape, answer, operation)
        return answer


def test_answers_have_the_shapes_that_the_service_publishes(server: StreamServer) -> None:
    wire = Wire(server)
    table: Json = {"TableName": "orders"}
    view: Json = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    key_schema = [{"AttributeName": "id", "KeyType": "HASH"}]
    types = [{"AttributeName": "id", "AttributeType": "S"}]
    wire.ask("CreateTable", **table, KeySchema=key_schema, AttributeDefinitions=types, StreamSpecification=view)
    wire.ask("UpdateTable", **table, StreamSpecification={"StreamEnabled": False})
    made = wire.ask("UpdateTable", **table, StreamSpecification=view)["TableDescription"]
    wire.ask("DescribeTable", **table)
    item = {"id": {"S": "a"}, "v": {"L": [{"N": "1"}, {"B": "AA=="}, {"BOOL": True}, {"NULL": True}, {"SS": ["a"]}]}}
    wire.ask("PutItem", **table, Item=item, ReturnValues="ALL_OLD")
    wire.ask("UpdateItem", **table, Key=KEY_OF_A, UpdateExpression="REMOVE v", ReturnValues="ALL_OLD")
    wire.ask("GetItem", **table, Key=KEY_OF_A)
    server.faults.add("BatchWriteItem", "partial", keep=0)
    wire.ask("BatchWriteItem", RequestItems={"orders": [{"PutRequest": {"Item": item}}]})
    server.tables.expire("orders")
    server.tables.split("orders")
    assert len(wire.ask("ListStreams", Limit=1)["Streams"]) == 1
    stream = {"StreamArn": made["LatestStreamArn"]}
    shards = wire.ask("DescribeStream", **stream, Limit=3)["StreamDescription"]["Shards"]
    place = {"ShardId": shards[0]["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    iterator = wire.ask("GetShardIterator", **stream, **place)
    records = wire.ask("GetRecords", **iterator)["Records"]
    assert [record["eventName"] for record in records] == ["INSERT", "MODIFY", "REMOVE"]
    assert records[2]["userIdentity"]["PrincipalId"] == "dynamodb.amazonaws.com"
    wire.ask("DeleteItem", **table, Key=KEY_OF_A)
    wire.ask("DeleteTable", **table)
    wire.close()


def test_the_example_of_the_page_runs(server: StreamServer, tables: Any, streams: Any) -> None:
    (block,) = [block for block in blocks(DOCS / "local-server.md", "python") if "def test_my_changes" in block.text]
    space: dict[str, Any] = {"__name__": "a_page"}
    exec(compile(block.text, block.name, "exec"), space)
    space["test_my_changes"](tables, streams, server)


def test_errors_reach_boto3_as_classes_of_its_clients(server: StreamServer, tables: Any, streams: Any) -> None:
    arn = str(server.tables.create("orders", region=streams.meta.region_name))
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    place = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    iterator = streams.get_shard_iterator(**place)["ShardIterator"]
    tables.put_item(TableName="orders", Item=KEY_OF_A)
    server.tables.trim("orders", region=streams.meta.region_name)
    with pytest.raises(streams.exceptions.TrimmedDataAccessException):
        streams.get_records(ShardIterator=iterator)
    server.clock.advance(901)
    with pytest.raises(streams.exceptions.ExpiredIteratorException):
        streams.get_records(ShardIterator=iterator)
    server.tables.trim("orders", region=streams.meta.region_name)
    with pytest.raises(streams.exceptions.LimitExceededException):
        streams.get_records(ShardIterator=iterator, Limit=1_001)
    with pytest.raises(tables.exceptions.ResourceInUseException):
        tables.create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
    with pytest.raises(ClientError, match="no 'Query' here"):
        tables.query(TableName="orders")


def test_boto3_gets_over_faults_of_a_stream(server: StreamServer) -> None:
    patient = AwsServer("shardbatch.local", server.endpoint_url).client("dynamodbstreams", attempts=4)
    server.faults.add("ListStreams", "reset")
    server.faults.add("ListStreams", "error", error="InternalServerError")
    server.faults.add("ListStreams", "error", after=1, error="ThrottlingException")
    assert patient.list_streams()["Streams"] == []
    assert [(call.status, call.error) for call in server.calls.list("ListStreams")][-1] == (200, None)
    assert server.calls.count("ListStreams") == 3


def test_tables_are_steered_from_outside(server: StreamServer) -> None:
    url = server.endpoint_url

    def tell(path: str, **fields: Any) -> Json:
        status, answer = steer(url, "POST", f"tables/{path}", **fields)
        assert status == 200, answer
        return dict(answer)

    arn = tell("create", table="orders", shards=2)["stream"]
    items = [{"id": {"S": f"{number}"}, "end": {"N": f"{number}"}} for number in range(10)]
    assert tell("fill", table="orders", items=items) == {"written": 10}
    assert tell("expire", table="orders", keys=[{"id": {"S": "3"}}, {"id": {"S": "x"}}]) == {"expired": 1}
    assert len(tell("roll", table="orders")["children"]) == 2
    (shown,) = steer(url, "GET", "tables")[1]
    (stream,) = shown["Streams"]
    assert (shown["ItemCount"], stream["StreamArn"]) == (9, arn)
    assert sum(shard["Records"] for shard in stream["Shards"]) == 11
    first, _, third, _ = (shard["ShardId"] for shard in stream["Shards"])
    assert len(tell("split", table="orders", shard=third)["children"]) == 2
    held = stream["Shards"][0]["Records"]
    assert tell("trim", table="orders", shard=first, forget=True) == {"trimmed": held}
    assert tell("disable", table="orders") == {}
    again = tell("enable", table="orders", view="KEYS_ONLY")["stream"]
    (shown,) = steer(url, "GET", "tables")[1]
    assert sorted((s["StreamArn"], s["StreamStatus"], len(s["Shards"])) for s in shown["Streams"]) == [
        (arn, "DISABLED", 5),
        (again, "ENABLED", 1),
    ]
    assert steer(url, "POST", "reset") == (200, {})
    assert steer(url, "GET", "tables") == (200, [])


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("roll", {"table": "missing"}),
        ("roll", {}),
        ("roll", {"table": "orders", "shard": "missing"}),
        ("create", {"table": "orders"}),
        ("create", {"table": "other", "view": "ODD"}),
        ("trim", {"table": "orders", "odd": 1}),
        ("fill", {"table": "orders", "items": [{"v": {"S": "a"}}]}),
        ("expire", {"table": "orders", "keys": [{}]}),
        ("enable", {"table": "orders"}),
    ],
)
def test_bad_steering_of_tables_is_refused_with_a_reason(server: StreamServer, path: str, fields: Json) -> None:
    server.tables.create("orders", region=server.options.region)
    status, answer = steer(server.endpoint_url, "POST", f"tables/{path}", **fields)
    assert status == 400
    assert answer["error"]


def test_the_process_makes_tables() -> None:
    with process("--table", "orders:3", "--table", "others", "--stream", "orders") as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        shown = {table["TableName"]: table for table in steer(url, "GET", "tables")[1]}
        assert {name: len(table["Streams"][0]["Shards"]) for name, table in shown.items()} == {"orders": 3, "others": 1}
        assert shown["orders"]["AttributeDefinitions"] == [{"AttributeName": "id", "AttributeType": "S"}]
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--table", "ab"], "3 characters"),
        (["--table", "abc:0"], "SHARDS"),
        (["--table", "abc", "--table", "abc"], "exists"),
    ],
)
def test_a_bad_table_on_the_command_line_is_one_clear_error(arguments: list[str], reason: str) -> None:
    with process(*arguments) as running:
        _, errors = running.communicate(timeout=20)
    assert running.returncode == 2
    assert reason in errors
    assert "Traceback" not in errors
