# SPDX-License-Identifier: Apache-2.0
"""The demo's stream: the server's process, the fill, and what is done to its shards meanwhile."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from scripts.demo.console import Console, DemoError
from scripts.demo.flights import Record
from scripts.environment import ROOT

REGION = "us-east-1"
WRITERS = 3
MOST_RECORDS = 500
"""Records in one PutRecords call, the service's limit."""


class DemoStream:
    """One stream on a stream server of its own; a context manager.

    :param log: file that takes what the server prints to standard error.
    """

    def __init__(self, name: str, shards: int, console: Console, log: Path) -> None:
        self.name = name
        self.first_shards = shards
        self.endpoint_url = ""
        self.put_records = 0
        self.fill_seconds = 0.0
        self.stop = threading.Event()
        self._console = console
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None
        self._lock = threading.Lock()

    def __enter__(self) -> DemoStream:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scripts.demo.stream_server"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is the demo's business; the server ends when its input does
            )
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def _open(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self.endpoint_url = self._process.stdout.readline().decode().strip()
        if not self.endpoint_url:
            raise DemoError(f"The stream server did not start:\n{self._log.read_text('utf-8', 'replace')}")
        self._client = boto3.client(
            "kinesis",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id="demo",
            aws_secret_access_key="demo",
            config=Config(
                proxies={}, parameter_validation=False, retries={"mode": "standard"}, max_pool_connections=WRITERS + 1
            ),
        )
        self._client.create_stream(StreamName=self.name, ShardCount=self.first_shards)
        self._client.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})
        self._console.say(
            f"stream {self.name} with {self.first_shards} shards at {self.endpoint_url} (shardbatch.local)"
        )

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server; its records are gone then."""
        self.stop.set()
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    # ------------------------------------------------------------------ records

    def fill(self, records: Iterator[Record], count: int) -> None:
        """Put the next ``count`` records, many at a time.

        :raises DemoError: if some are refused again and again.
        """
        began = time.monotonic()
        before = self.put_records
        wanted = itertools.islice(records, count)
        with ThreadPoolExecutor(WRITERS, "fill") as pool:
            running: list[Future[None]] = []
            while (chunk := list(itertools.islice(wanted, MOST_RECORDS))) and not self.stop.is_set():
                running.append(pool.submit(self._put, chunk))
                if len(running) > 2 * WRITERS:
                    running.pop(0).result()
            for future in running:
                future.result()
        seconds = time.monotonic() - began
        self.fill_seconds += seconds
        done = self.put_records - before
        self._console.say(f"{done:,} flights put into the stream in {seconds:.1f} s ({self.put_records:,} so far)")

    def _put(self, chunk: list[Record]) -> None:
        left = [{"PartitionKey": record.key, "Data": record.data} for record in chunk]
        for tries in range(10):
            if tries and self.stop.wait(0.05 * 2**tries):
                return
            answer = self._client.put_records(StreamName=self.name, Records=left)
            # A call that succeeds may have refused some of its records: those, and only those, are sent again.
            left = [entry for entry, done in zip(left, answer["Records"], strict=True) if "ErrorCode" in done]
            if not left:
                with self._lock:
                    self.put_records += len(chunk)
                return
        raise DemoError(f"The stream server refused {len(left)} records ten times.")

    # ------------------------------------------------------------------ shards

    def shards(self) -> list[dict[str, Any]]:
        """All shards as ListShards shows them."""
        pages = self._client.get_paginator("list_shards").paginate(StreamName=self.name)
        return [shard for page in pages for shard in page["Shards"]]

    def open_shards(self) -> list[dict[str, Any]]:
        """The shards that take records."""
        return [shard for shard in self.shards() if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]

    def split(self) -> None:
        """Split the first open shard in the middle."""
        shard = self.open_shards()[0]
        low, high = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        self._client.split_shard(
            StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=str((low + high + 1) // 2)
        )
        self._settle(f"{shard['ShardId']} split")

    def merge(self) -> None:
        """Merge the two last open shards, by hash range."""
        by_range = sorted(self.open_shards(), key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        first, second = (shard["ShardId"] for shard in by_range[-2:])
        self._client.merge_shards(StreamName=self.name, ShardToMerge=first, AdjacentShardToMerge=second)
        self._settle(f"{first} and {second} merged")

    def _settle(self, what: str) -> None:
        self._client.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})
        shards = self.shards()
        self._console.say(f"{what}: {len(shards)} shards, {len(self.open_shards())} of them open")
