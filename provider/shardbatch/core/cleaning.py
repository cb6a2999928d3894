# SPDX-License-Identifier: Apache-2.0
"""What stands in staging and in output roots, as clean-up sees it, and which slices can never be used any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shardbatch.core.decision import Decision
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing
from shardbatch.core.position import Position
from shardbatch.core.rows import Namespace


@dataclass(frozen=True)
class PartUpload:
    """An object whose parts are stored and which was never completed; ``path`` is that of a file in staging."""

    path: str
    upload_id: str
    bytes: int = 0


@dataclass(frozen=True)
class SliceFolder:
    """The folder of one read of a shard, with what stands in it.

    ``path`` is relative to the staging folder. ``tenure`` is that of the lease in which it was read, ``None`` in the
    name of a folder of version 0.1.0; ``after`` is the checkpoint then. ``newest_ms`` is when its newest file was
    written, by the store's clock; ``None`` if that is unknown.
    """

    path: str
    shard_id: str
    after: Position
    tenure: int | None
    files: int = 0
    bytes: int = 0
    newest_ms: int | None = None
    uploads: tuple[PartUpload, ...] = ()


@dataclass(frozen=True)
class BatchFolder:
    """The folder of a batch's documents. ``manifest`` says whether the manifest is among them. ``newest_ms`` is when
    its newest file was written, by the store's clock, or the folder itself if it has none; ``None`` if unknown."""

    batch_id: str
    files: int
    bytes: int
    newest_ms: int | None
    manifest: bool


@dataclass(frozen=True)
class StartFolder:
    """What one start has written below an output root."""

    batch_id: str
    start_id: str
    files: int
    bytes: int


class Cleaner(Protocol):
    """Lists and removes; something that was removed already is passed over. Errors are :class:`StagingError`."""

    def slices(self, namespace: Namespace) -> Sequence[SliceFolder]:
        """All slice folders of an application, also those that have only parts of unfinished uploads. A folder whose
        name is not a slice's is left out."""
        ...

    def batches(self, namespace: Namespace) -> Sequence[BatchFolder]:
        """All folders of batches' documents.

        :raises StagingMissing: if there is no staging folder, as where its mount is missing.
        """
        ...

    def manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """The manifests of batches; ``None`` for one that is not there."""
        ...

    def remove_slice(self, folder: SliceFolder) -> None:
        """Remove a slice folder with its files, and abort its uploads."""

    def remove_batch(self, namespace: Namespace, batch_id: str) -> None:
        """Remove a batch's documents, so that an application that is still at work for it is refused at every moment:
        first a note says so, then what starts left goes, then the numbers of attempts from the lowest up, then the
        manifest."""

    def starts(self, root: str, batch_id: str) -> Sequence[StartFolder]:
        """What starts of a batch have written below a root."""
        ...

    def remove_start(self, root: str, folder: StartFolder) -> None:
        """Remove what a start has written below a root."""

    def decisions(self, root: str) -> Mapping[str, Decision]:
        """The highest decision of every batch that a root tells of."""
        ...

    def sweep(self, root: str, *, dry_run: bool) -> int:
        """Remove the markers and sums of a root that a sum covers which has stood for long enough; how many."""
        ...


class CleanedLanding(Landing, Protocol):
    """A staging area that can be cleaned."""

    @property
    def cleaner(self) -> Cleaner:
        """Lists and removes what stands in it."""
        ...


def unused(folders: Iterable[SliceFolder], leases: Iterable[Lease], named: Iterable[str]) -> list[SliceFolder]:
    """The slice folders that can never be used any more.

    It is sure only if the folders were listed before the leases were read, and these before the batches that protect
    ``named``: what a lease has given up by then, a batch has.

    :param leases: all lease rows of the application, of every scope.
    :param named: the paths of the files that live batches name.
    """
    of_shard: dict[str, list[Lease]] = {}
    kept = {path.rpartition("/")[0] for path in named}
    for lease in leases:
        of_shard.setdefault(lease.shard_id, []).append(lease)
        kept.update(file.path.rpartition("/")[0] for file in (lease.pending.files if lease.pending else ()))
    return [
        folder
        for folder in folders
        if folder.path not in kept and not any(_may_land(row, folder) for row in of_shard.get(folder.shard_id, ()))
    ]


def _may_land(lease: Lease, folder: SliceFolder) -> bool:
    """Whether the read that has written there may yet store its slice on this lease (L3, L9)."""
    if not folder.tenure:
        # Of version 0.1.0, or in a lease that a worker took which knows no tenure, so that this one may come back. Such
        # reads look at the checkpoint: it has passed theirs, and only a reset takes it back, which begins a tenure.
        passed = lease.completed or (lease.checkpoint.exact and lease.checkpoint > folder.after)
        return not passed
    if lease.lease_owner is None or lease.tenure != folder.tenure:
        return False
    goes_on = bool(lease.scope) and lease.pending is not None and not lease.pending.ended  # an interval's slice (L9)
    return lease.pending is None or goes_on
