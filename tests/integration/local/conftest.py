# SPDX-License-Identifier: Apache-2.0
"""The servers that the conformance suite runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from shardbatch.local import StreamServer
from tests.support.aws import REGION, AwsServer
from tests.support.kinesis import KinesisServer
from tests.support.waiting import wait_until

Json = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A server under test."""

    name: str
    client: Any
    advance: Callable[[float], object]
    """Moves the server's clock ahead by seconds."""
    limit: Callable[[], object]
    """Makes it throttle, if it can."""
    quirks: Mapping[str, str]
    request: pytest.FixtureRequest

    def need(self, trait: str) -> None:
        """On a server whose quirk it is to lack the trait, the rest of the test must fail: else the quirk is gone."""
        if trait in self.quirks:
            reason = f"{self.name} lacks {trait}: {self.quirks[trait]}"
            self.request.node.add_marker(pytest.mark.xfail(strict=True, reason=reason))

    def wait_active(self, stream: str) -> None:
        """Until the stream's state has settled."""

        def active() -> bool:
            summary = self.client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
            return bool(summary["StreamStatus"] == "ACTIVE")

        wait_until(active, 20, f"{stream} to be active on {self.name}")

    def create(self, stream: str, shards: int = 1) -> None:
        self.client.create_stream(StreamName=stream, ShardCount=shards)
        self.wait_active(stream)

    def shards(self, stream: str, **fields: Any) -> list[Json]:
        """All pages of a listing."""
        page = self.client.list_shards(StreamName=stream, **fields)
        shards: list[Json] = page["Shards"]
        while page.get("NextToken"):
            page = self.client.list_shards(NextToken=page["NextToken"])
            shards = shards + page["Shards"]
        return shards

    def split(self, stream: str, shard: str) -> list[str]:
        """Splits in the middle; the children's ids."""
        before = {item["ShardId"]: item["HashKeyRange"] for item in self.shards(stream)}
        middle = (int(before[shard]["StartingHashKey"]) + int(before[shard]["EndingHashKey"]) + 1) // 2
        self.client.split_shard(StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle))
        self.wait_active(stream)
        return sorted({item["ShardId"] for item in self.shards(stream)} - set(before))

    def iterator(self, stream: str, shard: str, kind: str = "TRIM_HORIZON", **fields: Any) -> str:
        answer = self.client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType=kind, **fields)
        return str(answer["ShardIterator"])

    def drain(self, iterator: str | None, most: int = 20) -> tuple[list[Json], Json]:
        """Records up to the tip or the end, and the last answer."""
        records: list[Json] = []
        for _ in range(most):
            answer: Json = self.client.get_records(ShardIterator=iterator)
            records += answer["Records"]
            iterator = answer.get("NextShardIterator")
            if not iterator or (not answer["Records"] and not answer.get("MillisBehindLatest")):
                return records, answer
        raise AssertionError(f"{self.name} was not drained by {most} reads")


@dataclass(frozen=True)
class TableTarget:
    """A server with DynamoDB and its streams under test."""

    name: str
    tables: Any
    streams: Any
    quirks: Mapping[str, str]
    request: pytest.FixtureRequest

    need = Target.need

    def create(self, table: str, view: str = "NEW_AND_OLD_IMAGES") -> str:
        """A table whose key is the text ``id`` and the number ``at``; the ARN of its stream."""
        made = self.tables.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
            AttributeDefinitions=[
                {"AttributeName": "id", "AttributeType": "S"},
                {"AttributeName": "at", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": view},
        )
        return str(made["TableDescription"]["LatestStreamArn"])

    def place(self, arn: str, kind: str = "TRIM_HORIZON", **fields: Any) -> str:
        """An iterator of the stream's only shard."""
        (shard,) = self.streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        answer = self.streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType=kind, **fields
        )
        return str(answer["ShardIterator"])

    def changes(self, arn: str, kind: str = "TRIM_HORIZON", **fields: Any) -> list[Json]:
        """The records from a place on."""
        records: list[Json] = self.streams.get_records(ShardIterator=self.place(arn, kind, **fields))["Records"]
        return records


@pytest.fixture
def server() -> Iterator[StreamServer]:
    """Our server, fresh, on the system's clock."""
    with StreamServer(region=REGION) as running:
        yield running


@pytest.fixture
def client(server: StreamServer) -> Any:
    """A boto3 client of our server that does not retry."""
    return AwsServer("shardbatch.local", server.endpoint_url).client("kinesis", attempts=1)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    """A server by the name of its parameter; add one to `TARGETS` to run the suite on it."""
    return TARGETS[request.param](request)


def ours(request: pytest.FixtureRequest) -> Target:
    server: StreamServer = request.getfixturevalue("server")

    def limit() -> None:
        server.options.limits = True

    return Target("shardbatch.local", request.getfixturevalue("client"), server.clock.advance, limit, {}, request)


def theirs(fixture: str, quirks: Mapping[str, str]) -> Callable[[pytest.FixtureRequest], Target]:
    """A public look-alike, with what is known to be wrong there."""

    def start(request: pytest.FixtureRequest) -> Target:
        server: KinesisServer = request.getfixturevalue(fixture)
        ahead = [timedelta()]

        def advance(seconds: float) -> None:
            ahead[0] += timedelta(seconds=seconds)
            server.advance(ahead[0])

        request.addfinalizer(lambda: server.advance(timedelta()))
        client = server.client("kinesis", attempts=1)
        return Target(server.name, client, advance, lambda: None, quirks, request)

    return start


def ministack(request: pytest.FixtureRequest) -> Target:
    """A public look-alike whose clock cannot be moved; for fan-out only."""
    server: AwsServer = request.getfixturevalue("ministack")
    return Target(
        "ministack",
        server.client("kinesis", attempts=1),
        lambda _: pytest.skip("its clock cannot be moved"),
        lambda: None,
        MINISTACK,
        request,
    )


#: What the look-alikes are known to do otherwise than the service says: the trait that a clause needs, and what is
#: there instead. The numbers are sections of the project's notes on emulators (facts/emulators.md). Nothing else may
#: differ: it is a fault of ours.
KINESIS_LOCAL = {
    "foreign sequence numbers refused as arguments": "1.2, foreign sequence number: ResourceNotFoundException",
    "shard filter AT_TRIM_HORIZON": "1.2, ShardFilter: AT_TRIM_HORIZON gives every shard",
    "retention": "1.2, retention trim: it never trims",
    "garbage iterators refused": "1.2, garbage iterator: HTTP 500",
    "501 records refused": "1.2, PutRecords of 501 entries: accepted",
    "throttling": "1.2, throttling: none",
    "initial-response": "1.3, SubscribeToShard: it sends no initial-response, which botocore waits for",
}
KINESALITE = {
    "children": "1.2, ChildShards: none",
    "UpdateShardCount": "1.2, UpdateShardCount: unknown operation",
    "listing pages": "1.2, ListShards: MaxResults is ignored, all on one page",
    "description pages": "1.2, DescribeStream: Limit is ignored",
    "shard filters": "1.2, ShardFilter: ignored",
    "ARNs": "1.2, StreamARN in place of StreamName: not taken",
    "throttling": "1.2, throttling: none",
    "on-demand": "1.2, ON_DEMAND: none",
}
MINISTACK = {
    "throttling": "1.2, throttling: none",
    "lineage": "1.2, SplitShard: the parent is deleted with its records",
}
#: Of its tables and their streams; what has no number was found by this suite.
MINISTACK_TABLES = {
    "sizes": "3.1, SizeBytes is 0",
    "starting numbers": "3.1, SequenceNumberRange is empty",
    "places by time": "AT_TIMESTAMP is unknown",
    "disabled streams listed": "ListStreams leaves them out",
    "one stream at a time": "UpdateTable enables what is enabled, and disables what is disabled",
    "one change of an attribute": "UpdateExpression sets an attribute twice",
}

TARGETS: dict[str, Callable[[pytest.FixtureRequest], Target]] = {
    "shardbatch.local": ours,
    "kinesis-local": theirs("kinesis_local", KINESIS_LOCAL),
    "kinesalite": theirs("kinesalite", KINESALITE),
}
#: kinesalite has no consumers (1.2, RegisterStreamConsumer).
FAN_OUT_TARGETS: dict[str, Callable[[pytest.FixtureRequest], Target]] = {
    "shardbatch.local": ours,
    "kinesis-local": theirs("kinesis_local", KINESIS_LOCAL),
    "ministack": ministack,
}


def table_targets(name: str, quirks: Mapping[str, str]) -> Callable[[pytest.FixtureRequest], TableTarget]:
    """A server with DynamoDB, ours or another, with what is known to be wrong there."""

    def start(request: pytest.FixtureRequest) -> TableTarget:
        if name == "ministack":
            server: AwsServer = request.getfixturevalue("ministack")
        else:
            server = AwsServer(name, request.getfixturevalue("server").endpoint_url)
        tables, streams = (server.client(service, attempts=1) for service in ("dynamodb", "dynamodbstreams"))
        return TableTarget(name, tables, streams, quirks, request)

    return start


TABLE_TARGETS: dict[str, Callable[[pytest.FixtureRequest], TableTarget]] = {
    "shardbatch.local": table_targets("shardbatch.local", {}),
    "ministack": table_targets("ministack", MINISTACK_TABLES),
}


@pytest.fixture
def table_target(request: pytest.FixtureRequest) -> TableTarget:
    """A server with DynamoDB and its streams."""
    return TABLE_TARGETS[request.param](request)


@pytest.fixture
def fan_out_target(request: pytest.FixtureRequest) -> Target:
    """A server with enhanced fan-out."""
    return FAN_OUT_TARGETS[request.param](request)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that takes a target runs on all of them."""
    every: list[tuple[str, list[str]]] = [
        ("target", list(TARGETS)),
        ("fan_out_target", list(FAN_OUT_TARGETS)),
        ("table_target", list(TABLE_TARGETS)),
    ]
    for fixture, targets in every:
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, targets, indirect=True)
