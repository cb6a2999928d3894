# SPDX-License-Identifier: Apache-2.0
"""One way to take all changes of a table, in a process of its own: `python -m benchmarks.dynamodb_way WAY ENDPOINT
TABLE CHANGES` prints what it cost as JSON. The ways are explained in README.md, under dynamodb.py."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.stream import REGION
from benchmarks.tables import COLUMNS, Table, client
from shardbatch.core.limits import ReadLimits
from shardbatch.core.owner import Owner
from shardbatch.core.policies import Policies, Sink
from shardbatch.core.ports import SYSTEM_CLOCK, Verdict
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.landing.area import StagingArea
from shardbatch.run import Consumer, claim, land
from shardbatch.stores.sql import SQLStore
from tests.support.bloop_process import bloop_process

#: So that a way is not slowed down by a pace that nothing here asks for.
QUICK: dict[str, Any] = {"calls_per_second": 50.0, "idle_interval": timedelta(0)}
Seconds = tuple[float, float]


def timed(work: Callable[[], int], changes: int) -> Seconds:
    """The seconds of CPU and of the clock.

    :raises RuntimeError: if it did not take all changes.
    """
    cpu, clock = time.process_time(), time.perf_counter()
    taken = work()
    seconds = time.process_time() - cpu, time.perf_counter() - clock
    if taken != changes:
        raise RuntimeError(f"{taken} changes were taken of {changes}.")
    return seconds


def landed(table: Table, changes: int, folder: Path) -> Seconds:
    """A read task of a run: slices in staging, noted on leases."""
    store = SQLStore(f"sqlite:///{folder / 'leases.db'}")
    consumer = Consumer(
        namespace=Namespace("bench", table.name),
        source=table.source(**QUICK),
        store=store,
        landing=StagingArea(str(folder)),
        liveness=lambda _: Verdict.OVER,
        deployment="bench",
        limits=ReadLimits(records=None, bytes=None),
        policies=Policies(sink=Sink.OWN),
        say=lambda _: None,
    )
    owner = Owner("bench", "dynamodb", "run", "batch", "incremental")
    (group,) = claim(consumer, owner).groups
    return timed(lambda: land(consumer, owner, group.group, SYSTEM_CLOCK.now_ms()).records, changes)


def read(table: Table, changes: int, folder: Path) -> Seconds:
    """Our reader without landing."""
    source = table.source(**QUICK)
    shards = [shard.shard_id for shard in source.list_shards()]

    def work() -> int:
        taken = 0
        for shard_id in shards:
            for page in source.read(shard_id, TRIM_HORIZON):
                taken += page.records.num_rows
                if page.at_tip:
                    break
        return taken

    return timed(work, changes)


class Loop:
    """The plain loop over the answers of a stream that has a few open shards."""

    def __init__(self, table: Table) -> None:
        self._streams = client(table.endpoint_url, "dynamodbstreams")
        tables = client(table.endpoint_url, "dynamodb")
        self._arn = tables.describe_table(TableName=table.name)["Table"]["LatestStreamArn"]

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        """The records of each answer; the first empty one ends a shard, as this server has no others before it."""
        description = self._streams.describe_stream(StreamArn=self._arn)["StreamDescription"]
        for shard in description["Shards"]:
            place = {"StreamArn": self._arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self._streams.get_shard_iterator(**place)["ShardIterator"]
            while iterator:
                answer = self._streams.get_records(ShardIterator=iterator)
                if not answer["Records"]:
                    break
                yield answer["Records"]
                iterator = answer.get("NextShardIterator")


def loop(table: Table, changes: int, folder: Path) -> Seconds:
    """A plain loop that counts."""
    answers = Loop(table)
    return timed(lambda: sum(map(len, answers)), changes)


def lines(table: Table, changes: int, folder: Path) -> Seconds:
    """A plain loop that writes each record as a line of JSON."""
    answers = Loop(table)

    def work() -> int:
        taken = 0
        with (folder / "changes.json").open("w") as file:
            for records in answers:
                for record in records:
                    file.write(json.dumps(record, default=str) + "\n")
                taken += len(records)
        return taken

    return timed(work, changes)


def parquet(table: Table, changes: int, folder: Path) -> Seconds:
    """A plain loop that writes Parquet with the images as JSON, compressed as staging is."""
    answers = Loop(table)
    schema = pa.schema(
        [
            ("sequence_number", pa.string()),
            ("event_name", pa.string()),
            ("event_id", pa.string()),
            ("created_at", pa.timestamp("us", tz="UTC")),
            ("keys", pa.string()),
            ("data", pa.binary()),
        ]
    )

    def rows(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for record in records:
            change = record["dynamodb"]
            images = {name: change[name] for name in ("Keys", "NewImage", "OldImage") if name in change}
            yield {
                "sequence_number": change["SequenceNumber"],
                "event_name": record["eventName"],
                "event_id": record["eventID"],
                "created_at": change["ApproximateCreationDateTime"],
                "keys": json.dumps(change["Keys"]),
                "data": json.dumps(images).encode(),
            }

    def work() -> int:
        taken = 0
        with pq.ParquetWriter(folder / "changes.parquet", schema, compression="zstd") as writer:
            for records in answers:
                writer.write_batch(pa.RecordBatch.from_pylist(list(rows(records)), schema=schema))
                taken += len(records)
        return taken

    return timed(work, changes)


def bloop(table: Table, changes: int, folder: Path) -> Seconds:
    """Bloop, which makes an object of each image and keeps none; its process counts."""
    with bloop_process(REGION) as process:
        stream = process.open(table.endpoint_url, table.name, columns=COLUMNS)
        stream.move_to("trim_horizon")
        return stream.count(changes)


WAYS: dict[str, Callable[[Table, int, Path], Seconds]] = {
    "landed": landed,
    "parquet": parquet,
    "lines": lines,
    "read": read,
    "loop": loop,
    "bloop": bloop,
}


def main() -> None:
    """Take the changes and print what it cost."""
    way, endpoint_url, name, changes = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="shardbatch-dynamodb-") as folder:
        cpu_s, wall_s = WAYS[way](Table(endpoint_url, name), int(changes), Path(folder))
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s}))


if __name__ == "__main__":
    main()
