# SPDX-License-Identifier: Apache-2.0
"""Pages of a DynamoDB stream as its source lands them, and frozen batches made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shardbatch.core.manifest import Manifest, ShardSlice, digest, totals_of
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.slice import Slice
from shardbatch.landing.schema import PAGE_SCHEMA
from tests.support.batches import NAMESPACE, Frozen

if TYPE_CHECKING:
    from shardbatch.landing.area import StagingArea

Item = Mapping[str, Any]
BOTH = "NEW_AND_OLD_IMAGES"
STREAM_ID = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2026-01-01T00:00:00.000"
TTL = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


@dataclass(frozen=True)
class Change:
    """One record of a stream: ``seconds`` is when it was made, ``new`` and ``old`` are images in DynamoDB JSON."""

    number: int
    seconds: int | None = 0
    key: Item = field(default_factory=lambda: {"id": {"S": "1"}})
    new: Item | None = None
    old: Item | None = None
    view: str = BOTH
    identity: Mapping[str, str] | None = None
    data: bytes | None = None

    @property
    def event_name(self) -> str:
        if self.new is None and self.view in (BOTH, "NEW_IMAGE"):
            return "REMOVE"
        return "INSERT" if self.old is None else "MODIFY"

    def row(self) -> dict[str, Any]:
        images = {"Keys": self.key, "NewImage": self.new, "OldImage": self.old}
        attributes = {
            "event_name": self.event_name,
            "event_id": f"e-{self.number}",
            "event_version": "1.1",
            "size_bytes": "26",
            "stream_view_type": self.view,
        }
        if self.identity is not None:
            attributes["user_identity"] = compact(self.identity)
        return {
            "sequence_number": str(self.number),
            "sub_sequence_number": 0,
            "partition_key": json.dumps(self.key, separators=(",", ":"), sort_keys=True),
            "arrival_time": None if self.seconds is None else self.seconds * 1_000_000,
            "data": self.data or compact({name: image for name, image in images.items() if image is not None}).encode(),
            "attributes": list(attributes.items()),
        }


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def freeze_changes(
    area: StagingArea,
    shards: Mapping[str, Sequence[Change]],
    *,
    parents: Mapping[str, Sequence[str]] | None = None,
    named: bool = True,
    batch_id: str = "batch-1",
    stream_id: str = STREAM_ID,
) -> Frozen:
    """Land changes through the writer, and write the manifest as freeze does.

    :param parents: the parents of shards.
    :param named: whether the slices of parents name their children.
    """
    above, entries = parents or {}, []
    for shard_id in sorted(shards, key=lambda name: (_generation(name, above), name)):
        held = shards[shard_id]
        writer = area.slice(NAMESPACE, shard_id, TRIM_HORIZON, 1)
        rows = [change.row() for change in held]
        for first in range(0, len(rows), 100):
            writer.write(pa.RecordBatch.from_pylist(rows[first : first + 100], schema=PAGE_SCHEMA))
        files = writer.finish()
        children = tuple(sorted(child for child, its in above.items() if shard_id in its))
        arrivals = writer.arrivals_ms or (None, None)
        landed = Slice(
            shard_id,
            TRIM_HORIZON,
            after(str(held[-1].number)) if held else TRIM_HORIZON,
            bool(children),
            files,
            len(held),
            sum(len(row["data"]) for row in rows),
            last=str(held[-1].number) if held else None,
            children=children if named else (),
            min_arrival_ms=arrivals[0],
            max_arrival_ms=arrivals[1],
        )
        entries.append(ShardSlice(landed, _generation(shard_id, above)))
    manifest = Manifest(
        batch_id=batch_id,
        app_name=NAMESPACE.app_name,
        stream_name=NAMESPACE.stream_name,
        stream_id=stream_id,
        scope="",
        owner="test/dag/run/group/incremental",
        created_at_ms=0,
        sink="starts",
        staging=area.uri,
        slices=tuple(entries),
        totals=totals_of(entries),
    )
    content = manifest.dumps()
    return Frozen(area, manifest, area.write_manifest(NAMESPACE, batch_id, content), digest(content))


def _generation(shard_id: str, parents: Mapping[str, Sequence[str]]) -> int:
    return max((_generation(parent, parents) + 1 for parent in parents.get(shard_id, ())), default=0)
