# SPDX-License-Identifier: Apache-2.0
"""What the staging folder has of a batch: its manifest, what its applications left, the first records of a slice."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, TypeVar, cast

from shardbatch.core import manifest as manifests
from shardbatch.core.batch import Batch
from shardbatch.core.ports import Landing
from shardbatch.core.slice import Slice
from shardbatch.errors import ManifestChanged, StagingError
from shardbatch.hooks.staging import Staging
from shardbatch_plugin.web.stores import staging_asker

T = TypeVar("T")

#: Manifests that are kept, since none ever changes; that of 5,000 shards has megabytes.
KEPT = 4
#: What was found of single shards in manifests.
KEPT_SLICES = 2000

Name = tuple[Any, ...]


class _Kept:
    """What was read last of manifests."""

    def __init__(self, most: int) -> None:
        self._known: dict[Name, Any] = {}
        self._most = most
        self._lock = Lock()

    def get(self, name: Name, make: Callable[[], T]) -> T:
        """What is kept under a name, or else what is made now."""
        with self._lock:
            if name in self._known:
                self._known[name] = found = self._known.pop(name)
                return cast("T", found)
        made = make()
        with self._lock:
            self._known[name] = made
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return made


_manifests = _Kept(KEPT)
_slices = _Kept(KEPT_SLICES)


def manifest_of(staging: Staging | None, batch: Batch) -> dict[str, Any]:
    """The manifest of a batch as plain JSON, compared with what was frozen.

    :raises StagingError: if it cannot be read.
    :raises NoAnswer: if the folder does not answer in time.
    """
    name = _name(batch)
    asker = staging_asker(_expected(staging))
    return _manifests.get(
        name, lambda: asker.ask(("manifest", *name), lambda area: manifests.plain(_read(area, batch)), fresh_s=0)
    )


def slice_of(staging: Staging | None, batch: Batch, shard_id: str) -> Slice | None:
    """The slice of one shard in a batch; ``None`` if it has none.

    :raises StagingError: if the manifest cannot be read.
    :raises NoAnswer: if the folder does not answer in time.
    """
    name = (*_name(batch), shard_id)
    asker = staging_asker(_expected(staging))
    return _slices.get(
        name,
        lambda: asker.ask(("slice", *name), lambda area: manifests.slice_in(_read(area, batch), shard_id), fresh_s=0),
    )


def _name(batch: Batch) -> tuple[str, str]:
    if batch.manifest_uri is None or batch.manifest_digest is None:
        raise StagingError("The batch has no manifest.", remedy="One that was never frozen has none.")
    return batch.manifest_uri, batch.manifest_digest


def left_of(staging: Staging | None, batch: Batch) -> dict[str, Any]:
    """The starts that applications of a batch began, and the ids of those that ended well."""
    area = staging_asker(_expected(staging))

    def read(found: Landing) -> dict[str, Any]:
        begun = found.begun_starts(batch.namespace, batch.batch_id)
        done = found.finished_starts(batch.namespace, batch.batch_id)
        return {"begun": begun, "done": done}

    return area.ask(("starts", batch.namespace, batch.batch_id), read)


def first_records(staging: Staging | None, landed: Slice, count: int) -> list[dict[str, Any]]:
    """The first records of a slice, no more than are asked for.

    :raises StagingError: if a file cannot be read, or does not hold what the slice says.
    """
    names = tuple(file.path for file in landed.files)
    asker = staging_asker(_expected(staging))
    return asker.ask(("records", names, count), lambda area: list(_records(area, landed, count)), fresh_s=0)


def _records(area: Landing, landed: Slice, count: int) -> Iterator[dict[str, Any]]:
    left = count
    for file in landed.files:
        for page in area.records(file, left):
            for row in page.slice(0, left).to_pylist():
                data = row["data"] or b""
                arrived = row["arrival_time"]
                yield {
                    "sequence_number": row["sequence_number"],
                    "sub_sequence_number": row["sub_sequence_number"],
                    "partition_key": row["partition_key"],
                    "arrived_ms": None if arrived is None else round(arrived.timestamp() * 1000),
                    "size": len(data),
                    "data_base64": base64.b64encode(data).decode("ascii"),
                }
            left -= min(left, page.num_rows)
            if left <= 0:
                return


def _read(area: Landing, batch: Batch) -> bytes:
    if area.manifest_uri(batch.namespace, batch.batch_id) != batch.manifest_uri:
        raise StagingError(
            f"The batch stands in another staging folder than {area.uri}.",
            remedy="Its files are shown while the DAG, or the setting [shardbatch] staging, names the folder.",
        )
    content = area.read_manifest(batch.namespace, batch.batch_id)
    if manifests.digest(content) != batch.manifest_digest:
        raise ManifestChanged(f"The manifest {batch.manifest_uri} is not the one that was frozen.")
    return content


def _expected(staging: Staging | None) -> Staging:
    if staging is None:
        raise StagingError(
            "The staging folder of this application is not known here.",
            remedy="Its DAG names it in a form that only a run knows. The setting [shardbatch] staging is used if set.",
        )
    return staging
