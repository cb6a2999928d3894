# SPDX-License-Identifier: Apache-2.0
"""The changes in a batch of a DynamoDB stream, with typed images."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from shardbatch.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from shardbatch.spark.batch import SparkBatch

_CHANGE, _MISFIT, _FOUND = "__shardbatch_change", "__shardbatch_misfit", "__shardbatch_found"
_CORRUPT = "__shardbatch_corrupt"
#: An image of a change and its number; all images in the types of the schema.
_IMAGE, _AT, _VALUES = "__shardbatch_image", "__shardbatch_at", "__shardbatch_values"
#: The columns of a frame of changes, and the images behind three of them; the keys come first.
_IMAGES = {"keys": "Keys", "new": "NewImage", "old": "OldImage"}
#: Views of a stream that carry the image after the change.
_WITH_NEW = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
#: The most digits that DynamoDB's sequence numbers have.
_DIGITS = 40


class Apart(NamedTuple):
    """The changes that fit a schema, and the records that do not.

    ``rejects`` has all columns of the record, and three more: ``version``, as in the frame of changes; ``path``, the
    attribute that does not fit, such as ``new.lines[2].price``; and ``reason``. Where several attributes of a record do
    not fit, the first one is named.
    """

    frame: DataFrame
    rejects: DataFrame


class Changes:
    """Changes with typed images, as :func:`changes` and :func:`latest_images` give them. Spark does the work when one
    of the frames is used."""

    def __init__(
        self, records: DataFrame, schema: StructType, images: Mapping[str, str], *, stream_id: str, latest: bool
    ) -> None:
        from shardbatch.spark.attribute_values import Item

        self._records = records
        self._item = Item(schema, "the item")
        self._stream_id = stream_id
        self._images = images
        self._latest = latest

    @property
    def frame(self) -> DataFrame:
        """One row for each record. An action on the frame fails at a record that does not fit the schema; the error
        names the shard, the sequence number, the attribute and the reason. So no record is lost unseen."""
        place = "'. Shard ', shard_id, ', sequence number ', sequence_number"
        what = f"'A change does not fit the schema: ', {_MISFIT}.path, ' ', {_MISFIT}.reason, {place}"
        failed = f"raise_error(concat({what}, '. Correct the schema, or take such records apart with .apart().'))"
        either = f"IF({_MISFIT} IS NULL, {self._typed()}, {failed})"
        return self._shown(f"transform(array({self._misfit()}), {_MISFIT} -> {either})")

    def apart(self) -> Apart:
        """The changes that fit, and apart from them the records that do not, each with the attribute and the reason.

        Every record is in one of the two frames. Write both: the commit of the batch counts both as done, and the
        records do not come again.
        """
        fitting = f"filter(array({self._misfit()}), {_MISFIT} -> {_MISFIT} IS NULL)"
        others = f"filter(array({self._misfit()}), {_MISFIT} -> {_MISFIT} IS NOT NULL)"
        told = (self._version().alias("version"), f"{_FOUND}.path", f"{_FOUND}.reason")
        return Apart(
            self._shown(f"transform({fitting}, {_MISFIT} -> {self._typed()})"),
            self._found(others).select(*self._records.columns, *told),
        )

    def _found(self, of_change: str) -> DataFrame:
        """The records, each with every element of the array that SQL makes of its change.

        The change is bound by a lambda. So it is parsed once, and its fields are read from the rows that the parser
        made. Were it a column of a frame, it would be copied into a row of Spark's own form, in which reading a field
        takes many times as long. A generator comes before any condition of the author's, which a filter does not.
        """
        from pyspark.sql import functions as F

        found = F.expr(f"explode(flatten(transform(array({self._parsed()}), {_CHANGE} -> {of_change})))")
        return self._records.select(*self._records.columns, found.alias(_FOUND))

    def _parsed(self) -> str:
        from pyspark.sql.types import StringType, StructField, StructType

        from shardbatch.spark.attribute_values import ddl, text

        images = [StructField(name, self._item.attributes()) for name in self._images.values()]
        wire = StructType([*images, StructField(_CORRUPT, StringType())])
        options = f"map('columnNameOfCorruptRecord', '{_CORRUPT}', 'mode', 'PERMISSIVE')"
        return f"from_json(CAST(data AS STRING), {text(ddl(wire))}, {options})"

    def _typed(self) -> str:
        """SQL of the images of a change in the types of the schema."""
        typed = f"transform({self._wanted()}, {_IMAGE} -> {self._item.value_of(_IMAGE)})"
        images = [f"'{name}', get({_VALUES}, {at})" for at, name in enumerate(self._images)]
        return f"get(transform(array({typed}), {_VALUES} -> named_struct({', '.join(images)})), 0)"

    def _wanted(self) -> str:
        return f"array({', '.join(f'{_CHANGE}.{image}' for image in self._images.values())})"

    def _shown(self, typed: str) -> DataFrame:
        frame = self._found(typed)
        return frame.select(*[column.alias(name) for name, column in self._columns().items()])

    def _misfit(self) -> str:
        """SQL that says what of a record does not fit; null if all fits."""
        from shardbatch.spark.attribute_values import first, misfit

        foreign = f"{_CHANGE}.{_CORRUPT} IS NOT NULL OR {_CHANGE}.Keys IS NULL OR attributes['event_name'] IS NULL"
        cases = [f"WHEN {foreign} THEN {misfit((_literal('data'),), 'is not a change of a DynamoDB stream')}"]
        if self._latest:
            without = f"attributes['event_name'] <> 'REMOVE' AND {_CHANGE}.NewImage IS NULL"
            cases.append(f"WHEN {without} THEN {misfit((_literal('new'),), 'is missing')}")
        # The images have one schema, so its tests stand here once for all of them.
        names = ", ".join(map(_literal, self._images))
        inside = self._item.misfit_of(_IMAGE, (f"get(array({names}), {_AT})",), partly=f"{_AT} = 0")
        found = f"transform({self._wanted()}, ({_IMAGE}, {_AT}) -> IF({_IMAGE} IS NULL, NULL, {inside}))"
        return f"CASE {' '.join(cases)} ELSE {first(found)} END"

    def _columns(self) -> dict[str, Column]:
        from pyspark.sql import functions as F

        from shardbatch.spark.schema import RECORD_SCHEMA

        told = {name: F.col("attributes").getItem(name) for name in ("event_name", "event_id", "user_identity")}
        deleted = {"deleted": told["event_name"] == "REMOVE"} if self._latest else {}
        images = {name: F.col(f"{_FOUND}.{name}") for name in self._images}
        place = ("sequence_number", "shard_id", "shard_generation", "record_index", "partition_key")
        more = [name for name in self._records.columns if name not in RECORD_SCHEMA.names]
        return {
            "event_name": told["event_name"],
            **deleted,
            **images,
            "created_at": F.col("arrival_time"),
            "version": self._version(),
            **{name: F.col(name) for name in place},
            "event_id": told["event_id"],
            "user_identity": told["user_identity"],
            "expired": _expired(told["event_name"], told["user_identity"]),
            **{name: F.col(name) for name in more},
        }

    def _version(self) -> Column:
        from pyspark.sql import functions as F

        from shardbatch.spark.attribute_values import text

        label = text(self._stream_id.rpartition("/")[2])
        number = f"lpad(sequence_number, greatest({_DIGITS}, length(sequence_number)), '0')"
        return F.expr(f"concat({label}, '/', {number})")


def changes(batch: SparkBatch, schema: StructType | str, *, records: DataFrame | None = None) -> Changes:
    """The changes of a batch of a DynamoDB stream, with its images in the types of a schema.

    ::

        with open_batch(spark) as batch:
            fitting, rejects = changes(batch, "id STRING, amount DECIMAL(12, 2), tags ARRAY<STRING>").apart()
            rejects.write.parquet(batch.output(rejects_root))
            fitting.write.parquet(batch.output(out))

    The columns of the frame: ``event_name`` (``INSERT``, ``MODIFY``, ``REMOVE``); ``keys``, ``new`` and ``old``, which
    are structs of the schema; ``created_at`` (whole seconds); ``version``, a text that is greater for a later change of
    the same item, in all batches; ``sequence_number``, ``shard_id``, ``shard_generation``,
    ``record_index`` and ``partition_key``, as the records have them; ``event_id``; ``user_identity`` (JSON; null unless
    a service made the change); ``expired``, true for an item that its time to live deleted. ``keys`` has only the
    attributes of the item's key; ``new`` and ``old`` are null where the record has no such image.

    What fits: ``STRING`` takes S, and N as text; integers and ``DECIMAL`` take N without loss only; ``FLOAT`` and
    ``DOUBLE`` take N as the nearest value; ``BOOLEAN`` takes BOOL, ``BINARY`` takes B, ``ARRAY`` takes L, and a set in
    ascending order; ``MAP<STRING, ...>`` and ``STRUCT`` take M. NULL and a missing attribute are null, and do not fit
    ``NOT NULL``. Attributes that the schema does not name are passed over.

    :param schema: the item's attributes, as a ``StructType`` or as DDL.
    :param records: the batch's records in an order that the changes keep, such as ``batch.ordered()`` or
        ``batch.merged()``; its further columns stay. Default ``batch.records()``.
    :raises ConfigurationError: for a schema with a type that no attribute has, such as a timestamp.
    """
    frame = batch.records() if records is None else records
    return Changes(frame, _struct(batch, schema), _IMAGES, stream_id=batch.manifest.stream_id, latest=False)


def latest_images(batch: SparkBatch, schema: StructType | str) -> Changes:
    """The last change of each item in a batch of a DynamoDB stream: what a table needs in order to follow.

    ::

        with open_batch(spark) as batch:
            latest = latest_images(batch, "id STRING, amount DECIMAL(12, 2)").frame
            # MERGE INTO table ON table.partition_key = latest.partition_key: take the row if its version is greater

    There is one row for each item, in no order. Batches may be worked on in another order than they were read, as a
    replay is: so a table takes a row only if it has no row of the item with the same version or a greater one, and it
    keeps the rows of deleted items. The columns are those of :func:`changes` without ``old``, and
    ``deleted``, which is true if the last change was a ``REMOVE``; then ``new`` is null. Only last changes are tested
    against the schema. If one does not fit, its item is among the rejects; an older image does not take its place.

    :param schema: the item's attributes, as a ``StructType`` or as DDL.
    :raises ConfigurationError: if the stream carries no new images, or for a schema as :func:`changes` refuses it.
    """
    from pyspark.sql import functions as F

    struct, records = _struct(batch, schema), batch.records()
    first = records.select(F.col("attributes").getItem("stream_view_type").alias("view")).first()
    if first is not None and first.view not in (*_WITH_NEW, None):
        raise ConfigurationError(
            f"The stream has the view {first.view}, which has no new images.",
            remedy="Enable the table's stream with NEW_IMAGE or NEW_AND_OLD_IMAGES. Until then use changes(...).",
        )
    place = F.struct("shard_generation", "shard_id", "record_index")
    last = records.groupBy("partition_key").agg(F.max_by(F.struct("*"), place).alias("last")).select("last.*")
    images = {name: _IMAGES[name] for name in ("keys", "new")}
    return Changes(last, struct, images, stream_id=batch.manifest.stream_id, latest=True)


def _struct(batch: SparkBatch, schema: StructType | str) -> StructType:
    return batch.spark.createDataFrame([], schema).schema if isinstance(schema, str) else schema


def _expired(event_name: Column, user_identity: Column) -> Column:
    from pyspark.sql import functions as F

    def told(name: str) -> Column:
        return F.coalesce(*[F.get_json_object(user_identity, f"$.{n}") for n in (name, name[0].lower() + name[1:])])

    by_service = (told("Type") == "Service") & (told("PrincipalId") == "dynamodb.amazonaws.com")
    return F.coalesce((event_name == "REMOVE") & by_service, F.lit(False))


def _literal(name: str) -> str:
    return f"'{name}'"
