# SPDX-License-Identifier: Apache-2.0
"""A frozen batch as an application on Spark sees it."""

from __future__ import annotations

import json
import secrets
import time
from functools import reduce
from typing import TYPE_CHECKING, Any

from shardbatch.core import manifest as manifests
from shardbatch.core import root_owner
from shardbatch.core.handover import WorkOrder
from shardbatch.core.manifest import Manifest
from shardbatch.core.start import Begun, Start
from shardbatch.errors import (
    ConfigurationError,
    LeaseLost,
    ManifestChanged,
    NothingFinished,
    OutputTaken,
    SlicesGone,
    StagingError,
)
from shardbatch.landing import layout
from shardbatch.landing.location import joined, rewritten
from shardbatch.spark.arguments import find_order
from shardbatch.spark.files import FrameFiles, few_listing_tasks, files_of, literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

#: The shard only keeps together what may lie in several of one generation, if its producer chose the shards.
KEY_ORDER = ("partition_key", "shard_generation", "shard_id", "record_index")
#: One for each driver process, by its birth: a cluster may begin an application again, in another one.
INCARNATION = f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(6)}"


class SparkBatch:
    """A frozen batch. It is a context manager, and each entry into its block is a start of its own.

    ``manifest`` describes the batch. ``attempt`` is the attempt that this application works for. ``start_id`` is the id
    of the current block's start, ``None`` outside a block.
    """

    def __init__(self, spark: SparkSession, order: WorkOrder, manifest: Manifest, files: FrameFiles) -> None:
        self.spark = spark
        self.manifest = manifest
        self.attempt = order.attempt
        self.start_id: str | None = None
        self._work = order.work
        self._token = order.token
        self._files = files
        uri = rewritten(order.manifest, order.schemes)
        self._folder = uri.rpartition("/")[0]
        inside = layout.staging_of(uri, manifest.namespace, manifest.batch_id)
        self._staging = inside or rewritten(manifest.staging, order.schemes)
        self._outputs: dict[str, str] = {}

    @property
    def batch_id(self) -> str:
        """The batch's id."""
        return self.manifest.batch_id

    @property
    def record_count(self) -> int:
        """The number of records in the batch."""
        return self.manifest.totals.records

    def records(self) -> DataFrame:
        """The records of exactly the files that the manifest names, whatever other files are beside them.

        The columns are those of :data:`shardbatch.spark.schema.RECORD_SCHEMA`; an empty batch has no rows. A missing or
        damaged file is an error, even if the session is set to skip such files.

        :raises StagingError: if a file is missing or cannot be reached.
        """
        from shardbatch.spark.schema import RECORD_SCHEMA

        with few_listing_tasks(self.spark):
            frames = [
                self._read([joined(self._staging, file.path) for file in files], generation)
                for generation, files in self.manifest.files_by_generation().items()
            ]
        if not frames:
            return self.spark.createDataFrame([], RECORD_SCHEMA)
        return reduce(lambda left, right: left.unionAll(right), frames)

    def ordered(self) -> DataFrame:
        """The records in order: each partition holds whole partition keys, one after the other, and the records of a
        key stand in the order in which the stream took them, even if a split or merge moved the key to other shards.

        A key lives in one line of shards, each a child of the one before, so ``shard_generation`` and ``record_index``
        give its order. This costs one shuffle by ``partition_key``. Operations that keep partitions also keep the order
        (``mapInArrow``, ``foreachPartition``, a write without ``partitionBy``); another shuffle or sort does not. Keys
        have no order among each other, nor have records of one key that their producer sent to several shards.

        :raises StagingError: as :meth:`records` does.
        """
        return self.records().repartition("partition_key").sortWithinPartitions(*KEY_ORDER)

    def merged(self) -> DataFrame:
        """The records of the whole batch in one total order: by arrival time in milliseconds, then by sequence number
        as an integer.

        The order never contradicts the stream. A record comes after those before it in its shard and after those of
        the shard's parents, even if its time is earlier; then it counts as of their time. A record without a time
        counts as of the time of the record before it. Equal places are ordered by ``shard_generation``, ``shard_id``
        and ``record_index``.

        The column ``position`` has a record's place. It is unique in the batch, and sorting by it gives the order
        again after another shuffle. This costs two shuffles of the records, one of them by shard. For the order of
        each partition key alone, :meth:`ordered` costs less.

        :raises StagingError: as :meth:`records` does.
        """
        from shardbatch.spark.merged import in_order

        return in_order(self.spark, self.records(), self.manifest)

    def output(self, out: str) -> str:
        """The folder of this start below an output root: ``<out>/batch_id=…/start=…``. Write only there.

        :param out: the root that ``read_committed`` reads; the Airflow workers must reach its file system too.
        :raises ConfigurationError: outside the ``with`` block.
        :raises OutputTaken: if the root belongs to another application; nothing is written.
        :raises StagingError: if the owner of the root cannot be determined.
        """
        if self.start_id is None:
            raise ConfigurationError(
                "batch.output(...) belongs into a block of its own start.",
                remedy="Write 'with open_batch(spark) as batch:' around the work.",
            )
        self._refuse_others(str(out))
        folder = joined(str(out), layout.output_folder(self.batch_id, self.start_id))
        self._outputs[self._files.qualified(str(out))] = folder
        return folder

    def _refuse_others(self, out: str) -> None:
        """Refuse a root of another application early: commit would refuse it too, but only after all the work."""
        folder = joined(out, layout.MARKERS, root_owner.OWNERS)
        names = [name for name in self._files.names(folder) if root_owner.is_holder(name)]
        files = self._files.contents(folder, names)  # without those that another application has withdrawn since
        app = str(self.manifest.namespace)
        try:
            known = root_owner.holders_of(files)
        except ValueError as error:
            raise StagingError(f"{folder}: {error}.", remedy="Remove the file.") from error
        other = root_owner.other_application(known, app, shared=self.manifest.outputs.shared)
        if other is not None:
            raise OutputTaken(f"The output root {out} belongs to {other}, so {app} writes nothing there.")

    def check(self) -> None:
        """Refuse to go on if a newer attempt of the batch was opened. Call it just before publishing.

        It shortens the time in which two attempts can both publish, but does not exclude it. The sink's own atomic
        replace, or start folders, exclude it.

        :raises LeaseLost: if there is a newer attempt.
        :raises SlicesGone: if clean-up removes the batch's files.
        :raises StagingError: if the attempts cannot be listed, or this one is not among them.
        """
        folder = joined(self._folder, "attempts")
        names = self._files.names(folder)
        if layout.RETIRED in names:
            raise SlicesGone(
                f"Batch {self.batch_id} is never committed again, and its files are removed.",
                remedy="End this application: its run has ended, and nothing that it writes is seen.",
            )
        known = [int(name) for name in names if name.isdigit()]
        if max(known, default=0) > self.attempt:
            raise LeaseLost(
                f"Batch {self.batch_id}: attempt {max(known)} was opened, and this is attempt {self.attempt}.",
                remedy="Nothing is lost: the newer attempt does the work. End this application.",
            )
        if self.attempt not in known:
            raise StagingError(
                f"Attempt {self.attempt} of batch {self.batch_id} is not recorded in {folder}.",
                remedy="Pass the attempt that freeze opened (batch.attempt), and the manifest where it stands.",
            )

    def __enter__(self) -> SparkBatch:
        start_id = f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
        number, application = _driver_of(self.spark)
        begun = Begun(start_id, self.attempt, self._work, self._token, INCARNATION, number, application)
        # Before anything can be written: the task that judges the end of the application must know of every start.
        self._leave(layout.BEGUN, "begun.json", begun)
        self.start_id = start_id
        self._outputs = {}
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        start_id, outputs = self.start_id, dict(self._outputs)
        self.start_id = None
        if kind is None and start_id is not None:
            self._finish(Start(start_id, self.attempt, self._work, tuple(sorted(outputs))), outputs)

    def _finish(self, start: Start, outputs: dict[str, str]) -> None:
        for out, folder in outputs.items():
            if not self._files.there(folder):
                raise NothingFinished(
                    f"batch.output({out!r}) was asked for, but nothing was written to {folder}.",
                    remedy="Write the result there, also an empty one, or ask for the output only when there is one.",
                )
        self._leave(layout.DONE, "start.json", start)

    def _leave(self, kind: str, name: str, mark: Begun | Start) -> None:
        content = json.dumps(dict(mark.to_json(), batch_id=self.batch_id), sort_keys=True)
        of_start = layout.start_name(mark.attempt, mark.start_id)
        folder = joined(self._folder, layout.WORKS, layout.work_folder(self._work), kind, of_start)
        self._files.put(folder, name, content)

    def _read(self, paths: list[str], generation: int) -> DataFrame:
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F

        from shardbatch.spark.schema import FILE_SCHEMA, RECORD_SCHEMA

        strict = self.spark.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
        try:
            frame = strict.schema(FILE_SCHEMA).parquet(*map(literal, paths))
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            raise StagingError(
                f"A landed file of batch {self.batch_id} is missing in {self._staging}.",
                remedy="Restore it from a backup of staging, and let nothing remove slices that may be replayed.",
            ) from error
        column = F.lit(generation).cast("int").alias("shard_generation")
        return frame.select(*[column if n == "shard_generation" else F.col(n) for n in RECORD_SCHEMA.names])


def _driver_of(spark: SparkSession) -> tuple[int, str]:
    """The number of this driver's process in its application, and the application's id, if the cluster gives them
    (YARN); 0 and empty if they are unknown."""
    try:
        context: Any = spark.sparkContext
        found = context._jsc.sc().applicationAttemptId()
        return int(found.get()) if found.isDefined() else 0, str(context.applicationId)
    except Exception:  # noqa: BLE001 - a session without a JVM, or an id that is not a number: the start time decides
        return 0, ""


def open_batch(
    spark: SparkSession,
    manifest: str | None = None,
    attempt: int | None = None,
    *,
    digest: str | None = None,
    work: str | None = None,
    token: str | None = None,
    schemes: Mapping[str, str] | str | None = None,
) -> SparkBatch:
    """The batch that this application was started for, as a context manager.

    ::

        with open_batch(spark) as batch:
            batch.records().write.parquet(batch.output(out))

    Entering the block leaves a begun marker beside the manifest; leaving it without an error leaves a done marker. When
    the task that started this application ends, it looks for both.

    Missing arguments come from the environment (``SHARDBATCH_MANIFEST``, ``SHARDBATCH_ATTEMPT``, ``_DIGEST``,
    ``_WORK``, ``_TOKEN``, ``_SCHEMES``), then from Spark's configuration (``spark.shardbatch.manifest``, …), then from
    the command line (``--shardbatch-manifest``, …).

    :param manifest: the manifest's URI.
    :param attempt: the attempt that freeze opened, 1 or more.
    :param digest: the manifest's digest; without it a changed manifest is not noticed.
    :param work: the task of the block, for a mapped one ``task_id[index]``; it distinguishes two tasks of one block.
    :param token: distinguishes the tries of a task, whose applications may overlap. The application and the task that
        started it must have the same text, which is ``{{ ti.id }}`` unless that task sets another.
    :param schemes: maps the scheme of a URI to the one that this cluster uses, such as ``{"s3": "s3a"}``.
    :raises ConfigurationError: if no manifest or no attempt is known.
    :raises ManifestChanged: if the manifest is not the one that was frozen.
    :raises UnsupportedSchema: if a later major version wrote the manifest, or hands over what this one cannot read.
    :raises StagingError: if it cannot be read.
    """
    given: dict[str, Any] = {"manifest": manifest, "attempt": attempt, "digest": digest}
    given.update(work=work, token=token, schemes=schemes)
    order = find_order(spark, given)
    uri = rewritten(order.manifest, order.schemes)
    files = files_of(spark)
    content = files.read(uri)
    if order.digest and manifests.digest(content) != order.digest:
        raise ManifestChanged(f"The manifest {uri} is not the one that was frozen.", uri=uri)
    return SparkBatch(spark, order, Manifest.loads(content), files)
