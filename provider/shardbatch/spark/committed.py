# SPDX-License-Identifier: Apache-2.0
"""Reads what was committed, and nothing else, from an output root alone."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

from shardbatch.errors import NothingFinished, StagingError
from shardbatch.landing import layout
from shardbatch.landing.location import joined
from shardbatch.spark.files import files_of, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def committed_folders(spark: SparkSession, out: str) -> list[str]:
    """The folders of the recorded starts below an output root: for every batch those of its highest decision."""
    folder = joined(str(out), layout.MARKERS)
    contents = files_of(spark).read_all(folder)
    found: list[str] = []
    for _, name in layout.highest_markers(contents).values():
        try:
            found.extend(joined(str(out), start) for start in json.loads(contents[name])["folders"])
        except (ValueError, KeyError, TypeError) as error:
            raise StagingError(
                f"{joined(folder, name)} is not a committed marker.",
                remedy="Remove it and clear the batch's commit task, which writes it anew.",
            ) from error
    return sorted(found)


def read_committed(
    spark: SparkSession, out: str, *, format: str = "parquet", schema: StructType | str | None = None, **options: Any
) -> DataFrame:
    """The rows that committed batches wrote below an output root.

    Starts that failed, that another start was preferred to, or that ended after the decision are left out, and so are
    batches that are not committed or were set aside. Columns are the author's own: neither ``batch_id`` nor ``start``
    is added. A later commit is seen by the next call.

    :param out: the root that was given to ``batch.output``.
    :param format: what the author wrote: ``parquet`` (default), ``orc``, ``json``, …
    :param schema: the rows' schema, default as the files say; with it, an output without a committed batch has no rows.
    :param options: of Spark's reader, such as ``mergeSchema=True``.
    :raises NothingFinished: if no batch is committed yet and no schema was given.
    :raises StagingError: if the markers cannot be read.
    """
    folders = committed_folders(spark, out)
    if not folders and schema is not None:
        return spark.createDataFrame([], schema)
    if not folders:
        raise NothingFinished(
            f"No batch is committed below {out}.",
            remedy="Wait for a commit, or give schema=... to read no rows until then.",
        )
    reader = spark.read.format(format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return _load(reader, folders)


def _load(reader: Any, folders: list[str]) -> DataFrame:
    try:
        frame: DataFrame = reader.load(folders)
        frame.schema  # noqa: B018 - Spark Connect looks at the files only now
        return frame
    except spark_errors():
        # Rows that the author partitioned (start=…/day=…) have a base folder a start; Spark reads those one by one.
        frames: list[DataFrame] = [reader.load(folder) for folder in folders]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
