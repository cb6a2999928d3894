# SPDX-License-Identifier: Apache-2.0
"""Reads what was committed, and nothing else, from an output root alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardbatch.core.sums import Token
from shardbatch.core.views import Moment, changes, shown, wanted
from shardbatch.errors import NothingFinished, StagingError
from shardbatch.landing.location import joined
from shardbatch.landing.markers import told
from shardbatch.spark.files import files_of
from shardbatch.spark.frames import Reading, folders_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def committed_folders(spark: SparkSession, out: str) -> list[str]:
    """The folders of the recorded starts below an output root that live readers see."""
    root = _root(out)
    decisions = shown(told(files_of(spark), root), wanted())
    return sorted(joined(root, folder.path) for folder in folders_of(decisions))


def read_committed(
    spark: SparkSession,
    out: str,
    *,
    format: str = "parquet",
    schema: StructType | str | None = None,
    interval: tuple[Moment, Moment] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    committed_since: Moment | None = None,
    batches: Iterable[str] | None = None,
    columns: Sequence[str] = (),
    **options: Any,
) -> DataFrame:
    """The rows that committed batches wrote below an output root.

    Starts that failed, that another start was preferred to, or that ended after the decision are left out, and so are
    batches that are not committed or were set aside, and intervals unless their author lets them join. Columns are the
    author's own. A later commit is seen by the next call.

    Batches are asked for as a whole: of one that has some records in the asked time all rows are read. Of what version
    0.1.0 committed nobody knows these times; it is read whatever time is asked for.

    :param out: the root that was given to ``batch.output``.
    :param format: what the author wrote: ``parquet`` (default), ``orc``, ``json``, …
    :param schema: the rows' schema, default as the files say; with it, an output without a committed batch has no rows.
    :param interval: what runs over this interval wrote, and nothing else: ``(from, to)`` as the run was given them.
    :param since: batches that have records which arrived at this moment (an aware datetime) or later.
    :param until: batches that have records which arrived before this moment.
    :param committed_since: batches that were committed first at this moment or later.
    :param batches: the batches of these ids.
    :param columns: of ``("batch_id", "attempt")`` those that are added: the batch that a row is of, and the attempt
        that wrote it; default none.
    :param options: of Spark's reader, such as ``mergeSchema=True``.
    :raises NothingFinished: if there is no such committed batch and no schema was given.
    :raises StagingError: if the markers cannot be read, or a folder that they name is missing.
    :raises ConfigurationError: for a moment without a time zone, and for a column of the author's own name.
    """
    root = _root(out)
    view = wanted(interval=interval, since=since, until=until, committed_since=committed_since, batches=batches)
    reading = Reading(spark, root, format, schema, columns, options)
    folders = folders_of(shown(told(files_of(spark), root), view))
    if not folders and schema is None:
        raise NothingFinished(
            "No batch {}is committed below {}.".format("that was asked for " if view != wanted() else "", out),
            remedy="Wait for a commit, or give schema=... to read no rows until then.",
        )
    return reading.frame(folders)


@dataclass(frozen=True)
class CommittedChanges:
    """What is new in an output root.

    :param frame: the rows of all batches in ``batches``, as they are now; ``None`` if these have none.
    :param batches: the ids of the batches that are new, were replayed, or lost their output: whoever keeps a copy
        deletes the rows of these and adds those of ``frame``.
    :param token: for the next call, once these are taken over.
    """

    frame: DataFrame | None
    batches: tuple[str, ...]
    token: str


def read_changes(
    spark: SparkSession,
    out: str,
    since: str | None = None,
    *,
    format: str = "parquet",
    schema: StructType | str | None = None,
    interval: tuple[Moment, Moment] | None = None,
    columns: Sequence[str] = (),
    **options: Any,
) -> CommittedChanges:
    """What was committed below an output root since an earlier call.

    Keep the token where the rows go, in one transaction with them; else take over the rows first, then keep the token:
    after a failure between the two the same batches come again.

    :param since: the token that the earlier call returned; ``None`` (default): everything.
    :param columns: as in :func:`read_committed`; with ``("batch_id",)`` the rows can be replaced by it.
    :raises StagingError: if the markers cannot be read, tell less than the token's reader has seen, or change so fast
        that there is no token.
    :raises ConfigurationError: if ``since`` is no token.

    ``format``, ``schema``, ``interval`` and ``options`` are those of :func:`read_committed`.
    """
    root = _root(out)
    token = None if since is None else Token.parse(since)
    reading = Reading(spark, root, format, schema, columns, options)
    found = told(files_of(spark), root, at_least=token)
    if not found.settled:
        raise StagingError(f"The markers of {out} change faster than they are listed.", remedy="Try again.", path=out)
    new = changes(found, wanted(interval=interval), token)
    try:
        frame = reading.frame(folders_of(new.shown))
    except NothingFinished:
        frame = None
    return CommittedChanges(frame, new.batches, str(found.token))


def _root(out: str) -> str:
    return joined(str(out))
