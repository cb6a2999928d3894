# SPDX-License-Identifier: Apache-2.0
"""The staging area: slices, manifests and markers below one folder."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from shardbatch.core.manifest import Manifest
from shardbatch.core.position import Position
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile
from shardbatch.errors import ConfigurationError, StagingError, StagingMissing
from shardbatch.landing import layout
from shardbatch.landing.cleaning import StagingCleaner
from shardbatch.landing.files import Files, explained
from shardbatch.landing.location import joined, locate
from shardbatch.landing.roots import OutputRoots
from shardbatch.landing.schema import PAGE_SCHEMA, page_columns
from shardbatch.landing.starts import StartMarks
from shardbatch.landing.writer import SIZES, ParquetSliceWriter, Sizes

_GLOB = frozenset("*?[]{}\\")
_COMPRESSIONS = ("zstd", "lz4", "snappy", "none")


class StagingArea(StartMarks):
    """Implements :class:`shardbatch.core.ports.Landing`.

    :param uri: the staging folder as everyone names it: a local path, ``file:///…``, ``s3://bucket/prefix``, …
    :param filesystem: a file system of pyarrow that reaches it (``PyFileSystem(FSSpecHandler(…))`` for any of
        fsspec's); default the local one for a local folder.
    :param root: the folder's path on that file system, default as the URI says.
    :param filesystems: further file systems by kind (``file``, ``s3``, …), for output roots on another kind than the
        staging folder's.
    :param compression: of the landed files: ``zstd`` (default, level 1), ``lz4``, ``snappy``, or ``none`` for a fast
        local disk.
    :param private: whether users outside of the owner's group are kept out of what is made here, default yes; of a
        local or mounted folder. Output roots are as the umask says.
    :raises ConfigurationError: for a folder that cannot be one.
    """

    def __init__(
        self,
        uri: str,
        filesystem: pafs.FileSystem | None = None,
        root: str | None = None,
        *,
        filesystems: Mapping[str, pafs.FileSystem] | None = None,
        compression: str = "zstd",
        sizes: Sizes = SIZES,
        private: bool = True,
    ) -> None:
        location = locate(uri)
        if filesystem is None and not location.local:
            raise ConfigurationError(f"Staging {uri} needs a file system.", remedy="Give a connection.")
        if not location.path or (location.local and not location.path.startswith("/")):
            raise ConfigurationError(f"Staging {uri!r} is not an absolute folder.", remedy="Give a full path.")
        if _GLOB.intersection(location.path):
            raise ConfigurationError(
                "Staging {!r} has one of {} in it.".format(uri, "".join(sorted(_GLOB))),
                remedy="Spark takes these for patterns; choose another folder.",
            )
        if compression not in _COMPRESSIONS:
            raise ConfigurationError(
                f"Staging(compression={compression!r}) is not known.",
                remedy="Choose one of {}.".format(", ".join(_COMPRESSIONS)),
            )
        self.uri = "file://" + location.path if location.local else uri.rstrip("/")
        filesystem = filesystem or pafs.LocalFileSystem()
        super().__init__(Files(filesystem, private), (root or location.path).rstrip("/"))
        self.outputs = OutputRoots(Files(filesystem), location.kind, filesystems or {}, self.uri)
        self.cleaner = StagingCleaner(self._files, self.root, self.outputs.seen)
        self._compression = compression
        self._sizes = sizes

    def check(self, namespace: Namespace) -> None:
        """See that the folder is there and can be written below the namespace: a probe is written, read and removed."""
        self._require_root()
        probe = joined(self.root, layout.namespace_folder(namespace), ".probe-" + secrets.token_hex(6))
        self._files.write(probe, b"shardbatch\n")
        if self._files.read(probe) != b"shardbatch\n":
            raise StagingError(f"What was written to {self.uri} reads back as something else.")
        self._files.delete(probe)

    def make(self) -> None:
        """Make the folder, in one that is there; nothing if it stands already.

        :raises StagingMissing: if the folder above it is not there either: that may be a mount that is missing.
        """
        if not self._files.make_one(self.root):
            raise StagingMissing(
                f"The staging folder {self.uri} does not exist, nor does the folder that it should stand in."
            )

    def slice(self, namespace: Namespace, shard_id: str, after: Position, tenure: int) -> ParquetSliceWriter:
        """A writer of a new slice in a folder of its own, whose name tells the tenure of the lease."""
        self._require_root()
        folder = layout.slice_folder(namespace, shard_id, after, tenure, secrets.token_hex(8))
        return ParquetSliceWriter(
            self._files, self.root, folder, shard_id, compression=self._compression, sizes=self._sizes
        )

    def write_manifest(self, namespace: Namespace, batch_id: str, content: bytes) -> str:
        """Write a batch's manifest whole; its URI."""
        self._require_root()
        self._files.write(joined(self.root, layout.manifest_path(namespace, batch_id)), content)
        return self.manifest_uri(namespace, batch_id)

    def manifest_uri(self, namespace: Namespace, batch_id: str) -> str:
        """The URI of a batch's manifest, whether it is there or not."""
        return self.uri_of(layout.manifest_path(namespace, batch_id))

    def read_manifest(self, namespace: Namespace, batch_id: str) -> bytes:
        """Read a batch's manifest."""
        return self._files.read(joined(self.root, layout.manifest_path(namespace, batch_id)))

    def read_manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """Read the manifests of several batches, some at once; ``None`` for one that is not there."""
        return self.cleaner.manifests(namespace, batch_ids)

    def note_attempt(self, namespace: Namespace, batch_id: str, attempt: int) -> None:
        """Leave the number of an opened attempt beside the manifest; noting it again changes nothing."""
        self._require_root()
        self._files.write(joined(self.root, layout.attempt_path(namespace, batch_id, attempt)), b"{}\n")

    def records(self, file: LandedFile, rows: int) -> Iterator[pa.RecordBatch]:
        """A landed file's records with a page's columns, at most ``rows`` at a time; memory holds one row group.

        :raises StagingError: if the file is missing, cannot be read, or does not hold what its slice says.
        """
        path = joined(self.root, file.path)
        with explained("read", path), self._files.filesystem.open_input_file(path) as stream:
            parquet = pq.ParquetFile(stream)
            if parquet.metadata.num_rows != file.records:
                raise StagingError(f"{path} holds {parquet.metadata.num_rows} records, not {file.records}.")
            for piece in parquet.iter_batches(batch_size=rows, columns=PAGE_SCHEMA.names):
                yield page_columns(piece.select(PAGE_SCHEMA.names))

    def no_records(self) -> pa.RecordBatch:
        """A page's columns without a row."""
        return pa.RecordBatch.from_pylist([], schema=PAGE_SCHEMA)

    def missing_files(self, namespace: Namespace, batch_id: str) -> list[str]:
        """Which of a batch's files are not there; only the manifest, if that is not.

        :raises StagingError: if the staging folder itself is not there.
        """
        self._require_root()
        document = layout.manifest_path(namespace, batch_id)
        content = self._files.read_if_there(joined(self.root, document))
        if content is None:
            return [document]
        paths = [file.path for file in Manifest.loads(content).files]
        present = self._files.present([joined(self.root, path) for path in paths])
        return [path for path, there in zip(paths, present) if not there]

    def uri_of(self, path: str) -> str:
        """The URI of a path that is relative to the staging folder."""
        return joined(self.uri, path)

    def _require_root(self) -> None:
        self._files.require_folder(self.root, self.uri)
