# SPDX-License-Identifier: Apache-2.0
"""Reads only what is committed, and needs only the output root."""

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

    Starts are left out if they failed, if the decision took another start instead, or if they ended after the decision.
    Batches are left out if they are not committed or were set aside. Intervals are left out unless their author lets
    them join. Columns are the author's own. The next call sees later commits.

    Batches are read as a whole: if a batch has some records in the requested time, all its rows are read. For batches
    that version 0.1.0 committed these times are unknown; they are read whatever time is requested.

    :param out: the root that was given to ``batch.output``.
    :param format: the format that the author wrote: ``parquet`` (default), ``orc``, ``json``, …
    :param schema: the rows' schema, default: that of the files. With a schema, a root without a committed batch has no
        rows.
    :param interval: only what runs over this interval wrote: ``(from, to)`` as the run received them.
    :param since: batches with records that arrived at this moment (an aware datetime) or later.
    :param until: batches with records that arrived before this moment.
    :param committed_since: batches that were first committed at this moment or later.
    :param batches: batches with these ids.
    :param columns: which of ``("batch_id", "attempt")`` are added: the batch of a row, and the attempt that wrote it;
        default none.
    :param options: options of Spark's reader, such as ``mergeSchema=True``.
    :raises NothingFinished: if there is no such committed batch and no schema was given.
    :raises StagingError: if the markers cannot be read, or a folder that they name is missing.
    :raises ConfigurationError: for a moment without a time zone, or a requested column that the author's rows have.
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
    :param batches: the ids of the batches that are new, were replayed, or lost their output. If you keep a copy, delete
        the rows of these batches and add those of ``frame``.
    :param token: the token for the next call, after you have taken over these rows.
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

    Save the token where the rows go, in one transaction with them. If you cannot, take over the rows first and then
    save the token: after a failure between the two, the same batches come again.

    :param since: the token that the earlier call returned; ``None`` (default): everything.
    :param columns: as in :func:`read_committed`; with ``("batch_id",)`` the rows can be replaced by it.
    :raises StagingError: if the markers cannot be read, lack what the token's reader has already seen, or change so
        fast that no token can be made.
    :raises ConfigurationError: if ``since`` is not a token.

    ``format``, ``schema``, ``interval`` and ``options`` are those of :func:`read_committed`.
    """
    root = _root(out)
    token = None if since is None else Token.parse(since)
    reading = Reading(spark, root, format, schema, columns, options)
    found = told(files_of(spark), root, at_least=token)
    if not found.agreed:
        raise StagingError(f"The markers of {out} change faster than they are listed.", remedy="Try again.", path=out)
    new = changes(found, wanted(interval=interval), token)
    try:
        frame = reading.frame(folders_of(new.shown))
    except NothingFinished:
        frame = None
    return CommittedChanges(frame, new.batches, str(found.token))


def _root(out: str) -> str:
    return joined(str(out))
