# SPDX-License-Identifier: Apache-2.0
"""Pages of records, and frozen batches made of them, without a stream or a lease store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.manifest import Manifest, ShardSlice, digest, totals_of
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import Slice
from shardbatch.core.start import EndRecord, Work, choose
from shardbatch.run.end_record import Ended, leave_end_record
from shardbatch.run.settle import mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardbatch.landing.area import StagingArea

NAMESPACE = Namespace("etl", "orders")
#: 2026-01-02T03:04:05.678Z; record n of a shard arrives n milliseconds later.
ARRIVAL_MS = 1_767_323_045_678


def page(first: int, count: int, *, size: int = 10, attributes: Mapping[str, str] | None = None) -> pa.RecordBatch:
    """Records ``first`` to ``first + count - 1`` of a shard; the data of record n begin with its number."""
    numbers = range(first, first + count)
    columns = {
        "sequence_number": pa.array([str(10**20 + n) for n in numbers], pa.string()),
        "sub_sequence_number": pa.array([0] * count, pa.int64()),
        "partition_key": pa.array([f"key-{n % 7}" for n in numbers], pa.string()),
        "arrival_time": pa.array([(ARRIVAL_MS + n) * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
        "data": pa.array([f"{n}:".encode().ljust(size, b"\0") for n in numbers], pa.binary()),
    }
    if attributes is not None:
        columns["attributes"] = pa.array([list(attributes.items())] * count, pa.map_(pa.string(), pa.string()))
    return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class Frozen:
    """A frozen batch in a staging area."""

    area: StagingArea
    manifest: Manifest
    uri: str
    digest: str

    def end(self, attempt: int, work: str = "load", *, token: str = "") -> EndRecord:
        """The last act of a task: what its application left."""
        tried = len(self.area.left_by(self.manifest.namespace, self.manifest.batch_id, [work])) + 1
        unique = f"{attempt}-{tried}-{len(self.area.finished_starts(self.manifest.namespace, self.manifest.batch_id))}"
        ended = Ended(self.manifest.batch_id, attempt, work, tried, token, unique, only=True)
        return leave_end_record(self.area, self.manifest.namespace, ended)

    def commit(self, attempt: int, *works: str, decided: int | None = None) -> int:
        """Tell every root what a commit of this attempt decides; the number of the decision."""
        namespace, batch_id = self.manifest.namespace, self.manifest.batch_id
        names = works or ("load",)
        starts = choose([Work(name) for name in names], self.area.left_by(namespace, batch_id, names), attempt).starts
        number = attempt if decided is None else decided
        row = Batch(
            namespace, "", batch_id, "o", 1, BatchState.COMMITTED, starts=starts, decided=number, committed_at_ms=1
        )
        mark(self.area, row)
        return number

    def open_attempt(self, attempt: int) -> int:
        """Record an attempt as freeze does."""
        self.area.note_attempt(self.manifest.namespace, self.manifest.batch_id, attempt)
        return attempt


def freeze(
    area: StagingArea,
    shards: Mapping[str, int],
    *,
    batch_id: str = "batch-1",
    generations: Mapping[str, int] | None = None,
    namespace: Namespace = NAMESPACE,
) -> Frozen:
    """Land so many records of each shard, and write the manifest."""
    entries = []
    for shard_id, count in shards.items():
        writer = area.slice(namespace, shard_id, TRIM_HORIZON, 1)
        for first in range(0, count, 100):
            writer.write(page(first, min(100, count - first)))
        files = writer.finish()
        until = after(str(10**20 + count - 1)) if count else SHARD_END
        landed = Slice(shard_id, TRIM_HORIZON, until, not count, files, count, count * 10)
        entries.append(ShardSlice(landed, (generations or {}).get(shard_id, 0)))
    manifest = Manifest(
        batch_id=batch_id,
        app_name=namespace.app_name,
        stream_name=namespace.stream_name,
        stream_id="arn:orders:1",
        scope="",
        owner="test/dag/run/group/incremental",
        created_at_ms=ARRIVAL_MS,
        sink="starts",
        staging=area.uri,
        slices=tuple(entries),
        totals=totals_of(entries),
    )
    content = manifest.dumps()
    uri = area.write_manifest(namespace, batch_id, content)
    return Frozen(area, manifest, uri, digest(content))
