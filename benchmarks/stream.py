# SPDX-License-Identifier: Apache-2.0
"""The stream that benchmarks read, on a stream server in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

REGION = "us-east-1"
MOST_RECORDS = 500
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def stream_server() -> Iterator[str]:
    """The endpoint of a server that lives as long as the block, or as this process."""
    command = [sys.executable, "-m", "scripts.demo.stream_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.stdin.close()
            process.wait(10)


def kinesis_client(endpoint_url: str) -> Any:
    """A client as the provider makes it: one attempt a call, for the source itself retries."""
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint_url,
        region_name=REGION,
        aws_access_key_id="bench",
        aws_secret_access_key="not-a-secret",
        config=Config(proxies={}, retries={"total_max_attempts": 1, "mode": "standard"}, max_pool_connections=64),
    )


class Stream:
    """A new stream with that many shards."""

    def __init__(self, endpoint_url: str, name: str, shards: int) -> None:
        self.name = name
        self._address = endpoint_url.removeprefix("http://")
        self._client = kinesis_client(endpoint_url)
        self._client.create_stream(StreamName=name, ShardCount=shards)
        pages = self._client.get_paginator("list_shards").paginate(StreamName=name)
        self._keys = [shard["HashKeyRange"]["StartingHashKey"] for page in pages for shard in page["Shards"]]

    def put(self, each: int = 1) -> None:
        """Put that many small records into every shard."""
        entries = [
            {"Data": b"record", "PartitionKey": "key", "ExplicitHashKey": key}
            for key in self._keys
            for _ in range(each)
        ]
        self._put(entries)

    def fill(self, records: Iterable[bytes]) -> None:
        """Put records into the shards in turn."""
        self._put(
            [
                {"Data": data, "PartitionKey": "key", "ExplicitHashKey": self._keys[number % len(self._keys)]}
                for number, data in enumerate(records)
            ]
        )

    def _put(self, entries: list[dict[str, Any]]) -> None:
        for first in range(0, len(entries), MOST_RECORDS):
            answer = self._client.put_records(StreamName=self.name, Records=entries[first : first + MOST_RECORDS])
            if answer["FailedRecordCount"]:
                raise RuntimeError(f"The stream took not all records: {answer['FailedRecordCount']} are left.")

    def forget_calls(self) -> None:
        """Begin to count anew."""
        self._control("DELETE")

    def calls(self) -> Counter[str]:
        """Calls that the server has seen since then, by operation."""
        return Counter(call["operation"] for call in json.loads(self._control("GET")))

    def _control(self, method: str) -> bytes:
        connection = HTTPConnection(self._address, timeout=60)
        try:
            connection.request(method, "/_shardbatch/calls")
            return connection.getresponse().read()
        finally:
            connection.close()
