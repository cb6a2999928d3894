# SPDX-License-Identifier: Apache-2.0
"""What an interval run reads of a staging area: manifests and landed files of committed batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile
from shardbatch.core.start import Begun

if TYPE_CHECKING:
    import pyarrow as pa


class ArchiveFiles(Protocol):
    """The part of a staging area that is read again. Errors are :class:`StagingError`."""

    def read_manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """The manifests of batches; ``None`` for one that is not there."""
        ...

    def records(self, file: LandedFile, rows: int) -> Iterator[pa.RecordBatch]:
        """A landed file's records with a page's columns, at most ``rows`` at a time."""
        ...

    def begun_starts(self, namespace: Namespace, batch_id: str) -> list[Begun]:
        """All starts whose begun markers stand beside the batch's manifest, whether they ended or not."""
        ...

    def no_records(self) -> pa.RecordBatch:
        """A page's columns without a row."""
        ...
