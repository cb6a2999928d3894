# SPDX-License-Identifier: Apache-2.0
"""One claim in a process of its own: `python -m benchmarks.claims URL STREAM RUN` prints what it cost as JSON.

The stream is a listing in memory, so that the claim itself is measured: its reading of rows, its plan, its writes.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from shardbatch.core.owner import Owner
from shardbatch.core.ports import Capabilities, Page, Verdict
from shardbatch.core.position import Position
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.words import Words
from shardbatch.landing.area import StagingArea
from shardbatch.run import Consumer, claim
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from shardbatch.stores import open_store


def open_shards(count: int) -> list[Shard]:
    """A stream that was never resharded."""
    return [Shard(f"shardId-{n:012d}", (), KeyRange(*_range(n, count))) for n in range(count)]


def resharded(closed: int, kept: int) -> list[Shard]:
    """A stream of ``kept`` open shards, each at the end of a lineage; together these have ``closed`` closed shards."""
    found = []
    for n in range(closed + kept):
        parents = (f"shardId-{n - kept:012d}",) if n >= kept else ()
        found.append(Shard(f"shardId-{n:012d}", parents, KeyRange(*_range(n % kept, kept)), closed=n < closed))
    return found


def _range(number: int, count: int) -> tuple[int, int]:
    width = HASH_KEYS.size // count
    return number * width, HASH_KEYS.end if number == count - 1 else (number + 1) * width - 1


#: Streams by the number of their shards.
STREAMS = {"1000": open_shards(1000), "20000": open_shards(20_000), "3040": resharded(3000, 40)}


class Listing:
    """A source that has nothing but a listing."""

    capabilities = Capabilities(lineage=True, instants=True, arrival_times=True)
    words = Words()

    def __init__(self, name: str) -> None:
        self.name = name

    def identity(self) -> str:
        return "listing:" + self.name

    def list_shards(self) -> list[Shard]:
        return STREAMS[self.name]

    def missing(self, listing: Sequence[Shard]) -> str:
        return ""

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        return None

    def clock_ms(self) -> int | None:
        return None

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        return start

    def retention_ms(self) -> int | None:
        return None

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        return iter(())

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Nothing costs money."""

    def close(self) -> None:
        """Nothing to give back."""


def consumer_of(url: str, stream: str, staging: str) -> Consumer:
    """An application on one of the streams, whose earlier runs are over."""
    return Consumer(
        namespace=Namespace("planning", stream),
        source=Listing(stream),
        store=open_store(url),
        landing=StagingArea(staging),
        liveness=lambda _: Verdict.OVER,
        deployment="bench",
        say=lambda _: None,
    )


def complete_closed(consumer: Consumer) -> None:
    """As after a run that drained all closed shards: their rows are completed, and have no owner."""
    closed = {shard.shard_id for shard in consumer.source.list_shards() if shard.closed}
    rows = [lease for lease in consumer.leases() if lease.shard_id in closed]
    done = [replace(row, completed=True, lease_owner=None, lease_count=row.lease_count + 1) for row in rows]
    if not all(consumer.store.replace_many(list(zip(rows, done, strict=True)))):
        raise RuntimeError("Another process changes the rows of the benchmark.")


def main(url: str, stream: str, run: str) -> None:
    """Claims as the named run. A run that is not the first finds the closed shards completed."""
    with tempfile.TemporaryDirectory(prefix="shardbatch-planning-") as staging:
        consumer = consumer_of(url, stream, staging)
        if run != "first":
            complete_closed(consumer)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, began = time.monotonic(), time.process_time()
        found = claim(consumer, Owner("bench", "planning", run, "batch", "incremental"))
        spent = time.process_time() - began
        seconds = time.monotonic() - wall
        consumer.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kilobyte = 1 if sys.platform == "darwin" else 1024
    print(
        json.dumps(
            {
                "cpu_s": spent,
                "wall_s": seconds,
                "shards": found.shards,
                "before_bytes": before * kilobyte,
                "peak_bytes": peak * kilobyte,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
