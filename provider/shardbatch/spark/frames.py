# SPDX-License-Identifier: Apache-2.0
"""Data frames over many start folders: one read for all that have the same partition columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from shardbatch.errors import ConfigurationError, NothingFinished, StagingError
from shardbatch.landing import layout
from shardbatch.landing.location import joined
from shardbatch.spark.files import few_listing_tasks, literal, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

    from shardbatch.core.decision import Decision

#: Our own folders' names, which Spark takes for partition columns of a root.
OURS = ("batch_id", "start")
#: What a reader may ask for beside the author's columns.
EXTRA = ("batch_id", "attempt")
#: Formats whose files say their columns; Spark takes the first file's word, so looking at all of them is not needed.
_SELF_DESCRIBING = ("parquet", "orc")


@dataclass(frozen=True)
class Folder:
    """One start's folder, relative to the root, and what its rows are of."""

    path: str
    batch_id: str
    attempt: int

    @property
    def start(self) -> str:
        """The folder's last name without ``start=``."""
        return self.path.rpartition("=")[2]


def folders_of(decisions: Sequence[Decision]) -> list[Folder]:
    """The start folders that decisions name, in the order in which Spark sorts paths."""
    found = [
        Folder(layout.output_folder(decision.batch_id, start_id), decision.batch_id, attempt)
        for decision in decisions
        for start_id, attempt in decision.starts
    ]
    return sorted(found, key=lambda folder: folder.path + "/")


class Reading:
    """How an author's rows are read.

    :param out: the output root.
    :param columns: of :data:`EXTRA`, those that are added.
    """

    def __init__(
        self,
        spark: SparkSession,
        out: str,
        format: str,
        schema: StructType | str | None,
        columns: Sequence[str],
        options: Mapping[str, Any],
    ) -> None:
        unknown = [name for name in columns if name not in EXTRA]
        if isinstance(columns, str) or unknown:
            raise ConfigurationError(f"columns={columns!r}: only {EXTRA} can be added.", remedy="Give a tuple of them.")
        self.spark = spark
        self.out = out
        self.format = format
        self.schema = schema
        self.columns = tuple(columns)
        self.options = dict(options)

    def frame(self, folders: Sequence[Folder]) -> DataFrame:
        """The rows of these folders.

        :raises NothingFinished: if there are no files in them and no schema was given.
        :raises StagingError: if one of them is not there.
        :raises ConfigurationError: if a column that is to be added is among the author's.
        """
        with few_listing_tasks(self.spark), self._missing_explained():
            partitions = self._first_partitions(folders)
            if partitions is None:
                return self._empty()
            try:
                return self._one_read(folders, partitions)
            except spark_errors() as error:
                if "onflicting" not in str(error):
                    return self._one_by_one(folders, error)
            frames = [self._group(group, names) for names, group in self._groups(folders).items()]
            return _union(frames)

    def _empty(self) -> DataFrame:
        from pyspark.sql import functions as F

        if self.schema is None:
            raise NothingFinished(
                f"What is committed below {self.out} holds no file.",
                remedy="Wait for a commit with rows, or give schema=... to read no rows until then.",
            )
        types = {"batch_id": "string", "attempt": "int"}
        added = [F.lit(None).cast(types[name]).alias(name) for name in self.columns]
        return self.spark.createDataFrame([], self.schema).select("*", *added)

    def _group(self, folders: Sequence[Folder], partitions: tuple[str, ...]) -> DataFrame:
        try:
            return self._one_read(folders, partitions)
        except spark_errors() as error:
            return self._one_by_one(folders, error)

    def _one_read(self, folders: Sequence[Folder], partitions: tuple[str, ...]) -> DataFrame:
        paths = [self._path(folder) for folder in folders]
        if not partitions and not self.columns:
            frame = self._reader().load(paths)
            frame.schema  # noqa: B018 - Spark Connect looks at the files only now
            return frame
        data = self._data_schema(folders)
        taken = {name.lower() for name in (*data.names, *partitions)}
        if taken & {name.lower() for name in self.columns}:
            raise ConfigurationError(
                f"columns={self.columns}: the output has a column of this name itself.",
                remedy="Ask for the others only; the author's own column is among the rows.",
            )
        if taken & set(OURS):
            return self._one_by_one(folders, None)
        based = self._reader(schema=self._with_ours(data)).option("basePath", self.out).load(paths)
        rows = self._added(based, folders) if self.columns else based
        rows.schema  # noqa: B018
        return rows.drop(*OURS) if "batch_id" not in self.columns else rows

    def _added(self, frame: DataFrame, folders: Sequence[Folder]) -> DataFrame:
        from pyspark.sql import functions as F

        key, own = "__shardbatch_start", [name for name in frame.columns if name not in OURS]
        rows = [(folder.start, folder.batch_id, folder.attempt) for folder in folders]
        told = self.spark.createDataFrame(rows, f"{key} string, batch_id string, attempt int")
        both = frame.drop("batch_id").join(F.broadcast(told), F.col("start") == F.col(key), "left")
        return both.select(*[_quoted(name) for name in (*own, *self.columns)])

    def _one_by_one(self, folders: Sequence[Folder], error: Exception | None) -> DataFrame:
        """As many reads as folders: for what one read cannot tell apart, and formats that take one folder only."""
        from pyspark.sql import functions as F

        if error is not None and "PATH_NOT_FOUND" in str(error):
            raise error
        frames = []
        for folder in (folder for group in self._groups(folders).values() for folder in group):  # with files in them
            frame = self._reader().load(self._path(folder))
            values = {"batch_id": F.lit(folder.batch_id), "attempt": F.lit(folder.attempt)}
            frames.append(frame.select("*", *[values[name].alias(name) for name in self.columns]))
        return _union(frames)

    def _data_schema(self, folders: Sequence[Folder]) -> StructType:
        """The columns that stand in the files, as Spark would take them over all."""
        if self.schema is not None:
            return self._reader(recursiveFileLookup="true").load(self._path(folders[0])).schema
        reader = self._reader(recursiveFileLookup="true")
        for some in _more_and_more(folders) if self._first_file_tells() else [folders]:
            try:
                return reader.load([self._path(folder) for folder in some]).schema
            except spark_errors() as error:
                if "UNABLE_TO_INFER_SCHEMA" not in str(error) or some[-1] is folders[-1]:
                    raise
        raise AssertionError("no folder")  # pragma: no cover

    def _first_file_tells(self) -> bool:
        merge = next((str(v) for k, v in self.options.items() if k.lower() == "mergeschema"), "")
        if not merge:
            merge = self.spark.conf.get(f"spark.sql.{self.format.lower()}.mergeSchema", "false") or "false"
        return self.format.lower() in _SELF_DESCRIBING and merge.lower() != "true"

    def _with_ours(self, data: StructType) -> StructType:
        from pyspark.sql.types import StringType, StructField, StructType

        # As text; else Spark tries every type on every folder's id.
        return StructType([*data.fields, *(StructField(name, StringType()) for name in OURS)])

    def _first_partitions(self, folders: Sequence[Folder]) -> tuple[str, ...] | None:
        """The partition columns of the first folder that has a file in it; ``None`` if none has."""
        for some in _more_and_more(folders):
            found = self._groups(some)
            if found:
                return next(iter(found))
        return None

    def _groups(self, folders: Sequence[Folder]) -> dict[tuple[str, ...], list[Folder]]:
        """The folders that have files in them, by their partition columns."""
        reader = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        files = reader.load([self._path(folder) for folder in folders]).inputFiles()
        known, found = {folder.path: folder for folder in folders}, {}
        for uri in files:
            names = unquote(uri).split("/")
            at = next(n for n in range(len(names)) if "/".join(names[n : n + 2]) in known)
            columns = tuple(name.partition("=")[0] for name in names[at + 2 : -1] if "=" in name)
            found[known["/".join(names[at : at + 2])]] = columns
        groups: dict[tuple[str, ...], list[Folder]] = {}
        for folder in folders:
            if folder in found:
                groups.setdefault(found[folder], []).append(folder)
        return groups

    def _path(self, folder: Folder) -> str:
        return literal(joined(self.out, folder.path))

    def _reader(self, schema: Any = None, **options: str) -> DataFrameReader:
        reader = self.spark.read.format(self.format).options(**self.options).options(**options)
        chosen = schema if schema is not None else self.schema
        return reader if chosen is None else reader.schema(chosen)

    def _missing_explained(self) -> Any:
        return _missing_explained(self.out)


def _missing_explained(out: str) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def explained() -> Iterator[None]:
        try:
            yield
        except spark_errors() as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            raise StagingError(
                f"A folder that is committed below {out} is not there: {str(error).splitlines()[0][:300]}",
                remedy="Restore it from a backup, or replay the batch; remove no folder that a marker or sum names.",
                path=out,
            ) from error

    return explained()


def _more_and_more(folders: Sequence[Folder]) -> Iterator[Sequence[Folder]]:
    at, size = 0, 8
    while at < len(folders):
        yield folders[at : at + size]
        at, size = at + size, size * 8


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
