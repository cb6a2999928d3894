# SPDX-License-Identifier: Apache-2.0
"""The manifest: the document that describes a frozen batch, and all that an application needs to know.

It is written once and never changed; its digest stands in the batch row. It holds no secret and no record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardbatch.core.policies import Intervals, Outputs
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import NOTHING_ODD, LandedFile, Oddities, Slice
from shardbatch.errors import StagingError, UnsupportedSchema

#: ``major.minor``: a reader refuses another major version and passes over fields of a later minor one.
MANIFEST_VERSION = "1.1"


@dataclass(frozen=True)
class ShardSlice:
    """A slice, and how deep its shard stands below the oldest shard of its lineage inside the batch (0 or more)."""

    slice: Slice
    shard_generation: int = 0


@dataclass(frozen=True)
class Totals:
    """What the batch holds: records, bytes of their data, and gaps; and what was odd about its records."""

    records: int = 0
    bytes: int = 0
    gaps: int = 0
    oddities: Oddities = NOTHING_ODD

    def to_json(self) -> dict[str, int]:
        """As plain JSON."""
        return {"records": self.records, "bytes": self.bytes, "gaps": self.gaps, **self.oddities.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, int]) -> Totals:
        """Back from plain JSON; what is missing is zero."""
        odd = Oddities.from_json(value)
        return cls(int(value.get("records", 0)), int(value.get("bytes", 0)), int(value.get("gaps", 0)), odd)


@dataclass(frozen=True)
class Manifest:
    """A frozen batch.

    ``staging`` is the URI of the staging folder that the files' paths are relative to; ``scope`` is empty, or names an
    interval run, whose bounds are ``interval`` in milliseconds; ``sink`` is ``starts`` or ``own``. ``outputs`` is what
    the author said of the output roots.
    """

    batch_id: str
    app_name: str
    stream_name: str
    stream_id: str
    scope: str
    owner: str
    created_at_ms: int
    sink: str
    staging: str
    slices: tuple[ShardSlice, ...] = ()
    totals: Totals = Totals()
    interval: tuple[int, int] | None = None
    outputs: Outputs = field(default_factory=Outputs)
    schema_version: str = MANIFEST_VERSION

    @property
    def namespace(self) -> Namespace:
        """The application on its stream."""
        return Namespace(self.app_name, self.stream_name)

    @property
    def files(self) -> tuple[LandedFile, ...]:
        """All files, in the order of the slices."""
        return tuple(file for entry in self.slices for file in entry.slice.files)

    def files_by_generation(self) -> dict[int, tuple[LandedFile, ...]]:
        """The files of every generation that has some, oldest generation first."""
        found: dict[int, tuple[LandedFile, ...]] = {}
        for generation in sorted({entry.shard_generation for entry in self.slices}):
            entries = [entry for entry in self.slices if entry.shard_generation == generation]
            files = tuple(file for entry in entries for file in entry.slice.files)
            if files:
                found[generation] = files
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "schema_version": self.schema_version,
            "batch_id": self.batch_id,
            "app_name": self.app_name,
            "stream_name": self.stream_name,
            "stream_id": self.stream_id,
            "scope": self.scope,
            "owner": self.owner,
            "created_at_ms": self.created_at_ms,
            "sink": self.sink,
            "staging": self.staging,
            "totals": self.totals.to_json(),
            "interval": list(self.interval) if self.interval else None,
            "outputs": {"shared": self.outputs.shared, "intervals": str(self.outputs.intervals)},
            "slices": [dict(e.slice.to_json(), shard_generation=e.shard_generation) for e in self.slices],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        """Back from plain JSON; fields that a later version added are passed over."""
        interval, outputs = value.get("interval"), value.get("outputs") or {}
        return cls(
            schema_version=str(value["schema_version"]),
            batch_id=value["batch_id"],
            app_name=value["app_name"],
            stream_name=value["stream_name"],
            stream_id=value.get("stream_id", ""),
            scope=value.get("scope", ""),
            owner=value.get("owner", ""),
            created_at_ms=int(value.get("created_at_ms", 0)),
            sink=value.get("sink", "starts"),
            staging=value["staging"],
            totals=Totals.from_json(value.get("totals") or {}),
            interval=(int(interval[0]), int(interval[1])) if interval else None,
            outputs=Outputs(bool(outputs.get("shared")), Intervals(outputs.get("intervals", "apart"))),
            slices=tuple(
                ShardSlice(Slice.from_json(dict(s)), int(s.get("shard_generation", 0))) for s in value["slices"]
            ),
        )

    def dumps(self) -> bytes:
        """The document: the same bytes for the same manifest, ASCII JSON with sorted keys."""
        return (json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")

    @classmethod
    def loads(cls, content: bytes) -> Manifest:
        """Back from the document.

        :raises UnsupportedSchema: for a major version that this code does not know.
        :raises StagingError: if it is not a manifest.
        """
        value = plain(content)
        try:
            return cls.from_json(value)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _not_a_manifest() from error


def plain(content: bytes) -> dict[str, Any]:
    """A manifest as plain JSON, for one who looks at a few of its fields: much faster than :meth:`Manifest.loads`.

    :raises UnsupportedSchema: for a major version that this code does not know.
    :raises StagingError: if it is not a manifest.
    """
    try:
        value: dict[str, Any] = json.loads(content)
        version = str(value["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise _not_a_manifest() from error
    if version.partition(".")[0] != MANIFEST_VERSION.partition(".")[0]:
        raise UnsupportedSchema(f"The manifest has version {version}, this shardbatch reads {MANIFEST_VERSION}.")
    return value


def slice_in(content: bytes, shard_id: str) -> Slice | None:
    """The slice of one shard, if a manifest has one, without a parse of all the others: that of 5,000 shards has
    megabytes. By the form that :meth:`Manifest.dumps` gives it: a slice begins with ``after``, and nothing else does.

    :raises StagingError: if the document is not a manifest.
    """
    at = content.find(b'"shard_id":' + json.dumps(shard_id).encode("ascii"))
    begins = content.rfind(b'{"after":', 0, at) if at >= 0 else -1
    if begins < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(content[begins : _behind(content, at)].decode("ascii"))
        if value["shard_id"] != shard_id:
            raise ValueError("another slice")
        return Slice.from_json(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_a_manifest() from error


def totals_of(slices: Iterable[ShardSlice]) -> Totals:
    """The totals of some slices."""
    held = [entry.slice for entry in slices]
    return Totals(
        records=sum(s.records for s in held),
        bytes=sum(s.raw_bytes for s in held),
        gaps=sum(len(s.gaps) for s in held),
        oddities=sum((s.oddities for s in held), NOTHING_ODD),
    )


def digest(content: bytes) -> str:
    """The digest of a document, as it stands in the batch row: SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def _behind(content: bytes, at: int) -> int:
    """Where the slice certainly has ended in which a place stands: where the next begins, or at the end."""
    following = content.find(b'{"after":', at)
    return len(content) if following < 0 else following


def _not_a_manifest() -> StagingError:
    return StagingError("The document is not a manifest.", remedy="Check the manifest's URI; never edit a manifest.")
