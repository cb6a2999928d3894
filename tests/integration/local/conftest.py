# SPDX-License-Identifier: Apache-2.0
"""The servers that the conformance suite runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from shardbatch.local import StreamServer
from tests.support.aws import AwsServer
from tests.support.kinesis import KinesisServer
from tests.support.waiting import wait_until

Json = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A server under test, and which of its traits are known to differ from the service."""

    name: str
    client: Any
    advance: Callable[[float], object]
    """Moves the server's clock ahead by seconds."""
    lacks: frozenset[str] = field(default_factory=frozenset)

    def need(self, trait: str) -> None:
        """Skips the test on a server that is known to lack the trait."""
        if trait in self.lacks:
            pytest.skip(f"{self.name} is known to lack: {trait}")

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


@pytest.fixture
def server() -> Iterator[StreamServer]:
    """Our server, fresh, on the system's clock."""
    with StreamServer() as running:
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
    return Target("shardbatch.local", request.getfixturevalue("client"), server.clock.advance)


def theirs(fixture: str, *lacks: str) -> Callable[[pytest.FixtureRequest], Target]:
    """A public look-alike, with what is known to be wrong there."""

    def start(request: pytest.FixtureRequest) -> Target:
        server: KinesisServer = request.getfixturevalue(fixture)
        ahead = [timedelta()]

        def advance(seconds: float) -> None:
            ahead[0] += timedelta(seconds=seconds)
            server.advance(ahead[0])

        request.addfinalizer(lambda: server.advance(timedelta()))
        return Target(server.name, server.client("kinesis", attempts=1), advance, frozenset(lacks))

    return start


TARGETS: dict[str, Callable[[pytest.FixtureRequest], Target]] = {
    "shardbatch.local": ours,
    "kinesis-local": theirs(
        "kinesis_local",
        "foreign sequence numbers refused as arguments",
        "shard filter AT_TRIM_HORIZON",
        "retention",
        "garbage iterators refused",
        "501 records refused",
    ),
    "kinesalite": theirs(
        "kinesalite",
        "children",
        "UpdateShardCount",
        "listing pages",
        "description pages",
        "shard filters",
        "ARNs",
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that takes a target runs on all of them."""
    if "target" in metafunc.fixturenames:
        metafunc.parametrize("target", list(TARGETS), indirect=True)
