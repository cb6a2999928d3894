# SPDX-License-Identifier: Apache-2.0
"""How fast the local stream server takes and gives records. Prints one JSON line.

``python benchmarks/local_server.py [--records 336776]``: a server process is filled without an SDK, then read without
and with boto3, and by enhanced fan-out. ``…_per_s`` are records a second by the clock, beside a client that is busy
too; ``…_per_core_s`` are records a second of the server's own CPU time, which is what one core of this machine can do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import boto3

from shardbatch.local import fill_stream

SHARDS = 4
STREAM = "flights"


def make_records(count: int) -> Iterator[tuple[str, bytes]]:
    """Records of about 280 bytes under 4,000 keys."""
    for number in range(count):
        fields = {"id": number, "carrier": "UA", "origin": "EWR", "dest": "IAH", "delay": number % 60, "pad": "x" * 195}
        yield f"N{number % 4_000:05d}", json.dumps(fields).encode()


def read_raw(url: str) -> int:
    """Reads all shards, looking at each answer's text only."""
    connection = HTTPConnection(url.removeprefix("http://"))

    def call(operation: str, **fields: Any) -> bytes:
        connection.request("POST", "/", json.dumps(fields), {"X-Amz-Target": f"Kinesis_20131202.{operation}"})
        return connection.getresponse().read()

    total = 0
    for shard in json.loads(call("ListShards", StreamName=STREAM))["Shards"]:
        where = {"StreamName": STREAM, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = json.loads(call("GetShardIterator", **where))["ShardIterator"]
        while found := (answer := call("GetRecords", ShardIterator=iterator)).count(b'"SequenceNumber"'):
            total += found
            iterator = json.loads(b"{" + answer[answer.rindex(b'"MillisBehindLatest"') :])["NextShardIterator"]
    connection.close()
    return total


def read_by_fan_out(url: str) -> int:
    """Subscribes to all shards, one after the other, looking at each event's text only."""
    connection = HTTPConnection(url.removeprefix("http://"))

    def ask(operation: str, **fields: Any) -> HTTPResponse:
        connection.request("POST", "/", json.dumps(fields), {"X-Amz-Target": f"Kinesis_20131202.{operation}"})
        return connection.getresponse()

    summary = json.loads(ask("DescribeStreamSummary", StreamName=STREAM).read())["StreamDescriptionSummary"]
    registered = json.loads(ask("RegisterStreamConsumer", StreamARN=summary["StreamARN"], ConsumerName="c").read())
    shards = json.loads(ask("ListShards", StreamName=STREAM).read())["Shards"]
    total = 0
    for shard in shards:
        start = {"Type": "TRIM_HORIZON"}
        answer = ask(
            "SubscribeToShard",
            ConsumerARN=registered["Consumer"]["ConsumerARN"],
            ShardId=shard["ShardId"],
            StartingPosition=start,
        )
        tail = b""
        while True:
            text = tail + answer.read1()
            total += text.count(b'"SequenceNumber"')
            if b'"MillisBehindLatest":0' in text:
                break
            tail = text[-21:]
            total -= tail.count(b'"SequenceNumber"')
        connection.close()
    return total


def cpu_seconds(pid: int) -> float | None:
    """CPU time of a process so far, where the system has a ``/proc``."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_boto(url: str) -> int:
    """Reads all shards with boto3."""
    client = boto3.client(
        "kinesis", endpoint_url=url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    total = 0
    for shard in client.list_shards(StreamName=STREAM)["Shards"]:
        iterator = client.get_shard_iterator(
            StreamName=STREAM, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while records := (answer := client.get_records(ShardIterator=iterator))["Records"]:
            total += len(records)
            iterator = answer["NextShardIterator"]
    return total


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=336_776)
    count = parser.parse_args().records
    command = [sys.executable, "-m", "shardbatch.local", "--stream", f"{STREAM}:{SHARDS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            rates: dict[str, float] = {"records": count}
            works: dict[str, Callable[[], int]] = {
                "filled": lambda: fill_stream(url, STREAM, make_records(count)),
                "read_raw": lambda: read_raw(url),
                "read_by_fan_out": lambda: read_by_fan_out(url),
                "read_boto3": lambda: read_boto(url),
            }
            for name, work in works.items():
                began, cpu = time.monotonic(), cpu_seconds(server.pid)
                done = work()
                assert done == count, f"{name}: {done} of {count} records"
                rates[f"{name}_per_s"] = round(count / (time.monotonic() - began))
                spent = cpu_seconds(server.pid)
                if cpu is not None and spent is not None:
                    rates[f"{name}_per_core_s"] = round(count / (spent - cpu))
        finally:
            server.terminate()
    print(json.dumps(rates))
    return 0


if __name__ == "__main__":
    sys.exit(main())
