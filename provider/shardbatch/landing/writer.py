# SPDX-License-Identifier: Apache-2.0
"""Writes one slice as rolling Parquet files; memory is bounded by one row group and one page."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardbatch.core.slice import LandedFile
from shardbatch.errors import StagingError
from shardbatch.landing import layout
from shardbatch.landing.files import Files, explained
from shardbatch.landing.schema import FILE_SCHEMA, file_table, page_columns

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sizes:
    """``row_group`` bytes of Arrow columns close a row group, which never has more than twice that; a file of ``file``
    bytes or more on disk takes no further row group."""

    row_group: int = 16 << 20
    file: int = 96 << 20


SIZES = Sizes()


class ParquetSliceWriter:
    """Implements :class:`shardbatch.core.ports.SliceWriter`."""

    def __init__(
        self, files: Files, root: str, folder: str, shard_id: str, *, compression: str = "zstd", sizes: Sizes = SIZES
    ) -> None:
        self._files = files
        self._root = root
        self._folder = folder
        self._shard_id = shard_id
        self._compression = compression
        self._sizes = sizes
        self._pages: list[pa.RecordBatch] = []
        self._held = 0
        self._index = 0
        self._part: _Part | None = None
        self._parts: list[_Part] = []
        self._over = False
        self.arrivals_ms: tuple[int, int] | None = None

    def write(self, page: pa.RecordBatch) -> None:
        """Append a page's records."""
        if self._over:
            raise StagingError("The slice is finished already.", remedy="This is a fault in shardbatch; report it.")
        if page.num_rows == 0:
            return
        columns = page_columns(page)
        self._pages.append(columns)
        self._held += columns.nbytes
        if self._held >= self._sizes.row_group:
            self._flush()

    def rest(self) -> None:
        """Hold no memory until the next page: what was written is completed, and a new file begins after it."""
        self._flush()
        self._close_part()

    def finish(self) -> tuple[LandedFile, ...]:
        """Complete the files; only now can they be seen under their names. A slice without records has none."""
        self._flush()
        self._close_part()
        self._over = True
        for part in self._parts:
            if part.written_to != part.path:
                with explained("finish", part.path):
                    self._files.filesystem.move(part.written_to, part.path)
        return tuple(LandedFile(p.path[len(self._root) + 1 :], p.records, p.bytes) for p in self._parts)

    def abandon(self) -> None:
        """Drop what was written. What cannot be removed is logged: no row names it, so cleaning up takes it later."""
        self._over = True
        self._pages = []
        try:
            if self._part is not None:
                self._files.abandon(self._part.written_to)
                self._part.close()
            if self._files.whole:
                for part in self._parts:
                    self._files.delete(part.written_to)
            elif self._files.exists(self._path()):
                self._files.filesystem.delete_dir(self._path())
        except (OSError, pa.ArrowException, StagingError) as error:
            log.warning("An abandoned slice stays in %s until it is cleaned up: %s", self._path(), error)

    def _path(self, name: str | None = None) -> str:
        return "/".join([self._root, self._folder] + ([name] if name else []))

    def _flush(self) -> None:
        if not self._pages:
            return
        table = file_table(self._pages, self._shard_id, self._index)
        pieces = max(1, round(self._held / self._sizes.row_group))
        self._pages, self._held = [], 0
        self._index += table.num_rows
        self._note_arrivals(table)
        size = -(-table.num_rows // pieces)
        for start in range(0, table.num_rows, size):
            if self._part is not None and self._part.bytes >= self._sizes.file:
                self._close_part()
            if self._part is None:
                self._part = self._open_part()
            self._part.write(table.slice(start, size))

    def _note_arrivals(self, table: pa.Table) -> None:
        found = pc.min_max(table.column("arrival_time").cast("int64")).as_py()
        if found["min"] is None:
            return  # the source told no time of any of them
        known = self.arrivals_ms or (found["min"] // 1000, found["max"] // 1000)
        self.arrivals_ms = min(known[0], found["min"] // 1000), max(known[1], found["max"] // 1000)

    def _open_part(self) -> _Part:
        name = layout.part(len(self._parts))
        if not self._files.whole:
            with explained("create", self._path()):
                self._files.make_folder(self._path())
        part = _Part(
            self._files,
            self._path(name),
            self._path(name if self._files.whole else f".{name}.tmp"),
            self._compression,
        )
        self._parts.append(part)
        return part

    def _close_part(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None


class _Part:
    """One file in the making, under the name that it is written to."""

    def __init__(self, files: Files, path: str, written_to: str, compression: str) -> None:
        self.path = path
        self.written_to = written_to
        self.records = 0
        self.bytes = 0
        self._closed = False
        with explained("create", path):
            self._stream: Any = files.filesystem.open_output_stream(written_to, compression=None)
            files.keep_private(written_to)
            self._writer = pq.ParquetWriter(
                self._stream,
                FILE_SCHEMA,
                compression=compression,
                compression_level=1 if compression == "zstd" else None,
                use_dictionary=["shard_id"],
                write_statistics=True,
            )

    def write(self, rows: pa.Table) -> None:
        with explained("write", self.path):
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self.records += rows.num_rows
            self.bytes = self._stream.tell()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with explained("complete", self.path):
            try:
                self._writer.close()
                self.bytes = self._stream.tell()
            finally:
                self._stream.close()
