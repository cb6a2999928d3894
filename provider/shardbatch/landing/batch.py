# SPDX-License-Identifier: Apache-2.0
"""A frozen batch without Spark: for a Python task, DuckDB, Polars or a notebook."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from shardbatch.core import manifest as manifests
from shardbatch.core.manifest import Manifest
from shardbatch.errors import ManifestChanged, StagingError
from shardbatch.landing import layout
from shardbatch.landing.files import Files, explained
from shardbatch.landing.location import joined, locate, rewritten
from shardbatch.landing.merged import Pieces, in_order
from shardbatch.landing.reach import HADOOP_S3, reach
from shardbatch.landing.schema import RECORD_SCHEMA


class LandedBatch:
    """A frozen batch; ``manifest`` describes it, ``staging`` is the folder that its files lie below."""

    def __init__(self, manifest: Manifest, staging: str, filesystem: pafs.FileSystem) -> None:
        self.manifest = manifest
        self.staging = staging
        self._filesystem = filesystem

    @property
    def batch_id(self) -> str:
        """The batch's id."""
        return self.manifest.batch_id

    @property
    def files(self) -> tuple[str, ...]:
        """The Parquet files of the batch: plain paths of a local folder, URIs of any other, those of S3 as ``s3://…``."""
        location = locate(self.staging)
        folder = location.path if location.local else rewritten(self.staging, HADOOP_S3)
        return tuple(joined(folder, file.path) for file in self.manifest.files)

    def to_arrow(self) -> pa.Table:
        """All records in one table, which must fit into memory: generation by generation, each shard in its order. So
        the records of a partition key stand in the order in which the stream took them, whatever became of its shards.

        :raises StagingError: if a file is missing, cannot be read, or does not hold what the manifest says.
        """
        tables = [RECORD_SCHEMA.empty_table()]
        folder = locate(self.staging).path
        at = RECORD_SCHEMA.get_field_index("shard_generation")
        for entry in sorted(self.manifest.slices, key=lambda e: (e.shard_generation, e.slice.shard_id)):
            for file in entry.slice.files:
                path = joined(folder, file.path)
                with explained("read", path), self._filesystem.open_input_file(path) as stream:
                    table = pq.read_table(stream)
                if table.num_rows != file.records:
                    raise StagingError(f"{path} holds {table.num_rows} records, not {file.records}.")
                column = pa.repeat(pa.scalar(entry.shard_generation, pa.int32()), table.num_rows)
                tables.append(table.add_column(at, RECORD_SCHEMA.field(at), column).cast(RECORD_SCHEMA))
        return pa.concat_tables(tables)

    def merged(self) -> Iterator[pa.RecordBatch]:
        """All records in one total order: by arrival time in milliseconds, then by sequence number as an integer.

        The order never contradicts the stream. A record comes after those before it in its shard and after those of
        the shard's parents, even if its time is earlier; then it counts as of their time. A record without a time
        counts as of the time of the record before it. Equal places are ordered by ``shard_generation``, ``shard_id``
        and ``record_index``.

        Each batch that it yields has at most 1,000 records, and at most 8 MiB unless one record is larger. Memory holds
        a few row groups, of 16 MiB each, of every shard that is being read, whatever the size of the files. Children
        are read after their parents.

        :raises StagingError: as :meth:`to_arrow` does.
        """
        return in_order(self.manifest, Pieces(self._filesystem, locate(self.staging).path))


def open_batch(uri: str, filesystem: pafs.FileSystem | None = None, *, digest: str | None = None) -> LandedBatch:
    """The frozen batch of a manifest.

    :param uri: the manifest's URI, as ``batch.manifest_uri`` has it.
    :param filesystem: a file system of pyarrow that reaches it; default made from the URI (credentials and settings
        from the environment; S3, as ``s3://…`` or ``s3a://…``, through boto3 where it is installed).
    :param digest: the manifest's digest; if given, the document is compared with it.
    :raises ManifestChanged: if the document is not the one that was frozen.
    :raises UnsupportedSchema: if a later major version wrote it.
    :raises StagingError: if it cannot be read.
    """
    location = locate(uri)
    if filesystem is None:
        filesystem = reach(uri)
    content = Files(filesystem).read(location.path)
    if digest is not None and manifests.digest(content) != digest:
        raise ManifestChanged(f"The manifest {uri} is not the one that was frozen.", uri=uri)
    manifest = Manifest.loads(content)
    staging = layout.staging_of(uri, manifest.namespace, manifest.batch_id) or manifest.staging
    return LandedBatch(manifest, staging, filesystem)
