# SPDX-License-Identifier: Apache-2.0
"""Calls to the stream, as the server counts them, and writes to the lease store of one run, without Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.stream import Stream, kinesis_client
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions, Policies, Sink
from shardbatch.core.ports import SYSTEM_CLOCK, Verdict
from shardbatch.core.rows import Namespace
from shardbatch.landing.area import StagingArea
from shardbatch.run import Consumer, claim, commit, freeze, land
from shardbatch.sources.kinesis.source import KinesisSource
from shardbatch.stores.sql import SQLStore


@dataclass(frozen=True)
class RunCalls:
    """What one run asked of the world."""

    calls: dict[str, int]
    lease_writes: int

    @property
    def api_calls(self) -> int:
        """Calls to the stream, of all operations."""
        return sum(self.calls.values())


@dataclass
class Runner:
    """Makes runs of one application. Every step has connections of its own, as every task has."""

    folder: Path
    endpoint_url: str
    stream: Stream
    options: ClaimOptions
    writes: list[int] = field(default_factory=list)

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        """What one step works with."""
        store = SQLStore(f"sqlite:///{self.folder / 'leases.db'}")
        consumer = Consumer(
            namespace=Namespace("overhead", self.stream.name),
            source=KinesisSource(kinesis_client(self.endpoint_url), self.stream.name),
            store=store,
            landing=StagingArea(str(self.folder)),
            liveness=lambda _: Verdict.OVER,
            deployment="bench",
            options=self.options,
            policies=Policies(sink=Sink.OWN),
            say=lambda _: None,
        )
        try:
            yield consumer
        finally:
            consumer.close()
            self.writes.append(store.writes)

    def run(self, run_id: str) -> int:
        """One run; the records that it committed."""
        owner = Owner("bench", "overhead", run_id, "batch", "incremental")
        tip_ms = SYSTEM_CLOCK.now_ms()

        def read(group: str) -> None:
            with self.consumer() as consumer:
                land(consumer, owner, group, tip_ms)

        with self.consumer() as consumer:
            groups = claim(consumer, owner).groups
        with ThreadPoolExecutor(len(groups)) as pool:
            list(pool.map(read, [group.group for group in groups]))
        with self.consumer() as consumer:
            frozen = freeze(consumer, owner)
        with self.consumer() as consumer:
            return commit(consumer, owner, frozen.batch_id, frozen.attempt).records


def calls_per_run(folder: Path, endpoint_url: str, shards: int, read_tasks: int) -> RunCalls:
    """Of a second run, after a first has added its lease rows; both find a record in every shard.

    :raises RuntimeError: if a run does not commit all records.
    """
    folder.mkdir()
    stream = Stream(endpoint_url, f"overhead-{shards}", shards)
    runner = Runner(folder, endpoint_url, stream, ClaimOptions(read_tasks=read_tasks))
    for run_id in ("first", "second"):
        stream.put()
        stream.forget_calls()
        runner.writes.clear()
        committed = runner.run(run_id)
        if committed != shards:
            raise RuntimeError(f"The {run_id} run committed {committed} records of {shards}.")
    return RunCalls(dict(stream.calls()), sum(runner.writes))
