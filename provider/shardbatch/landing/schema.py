# SPDX-License-Identifier: Apache-2.0
"""The one schema of landed files, and how a source's page is brought into it.

The files do not hold ``shard_generation``: it is a shard's depth inside its *batch*, and a batch is made after its
slices have landed and may take up a child and its parent, or the child alone. It stands in the manifest; readers of a
batch add the column, one value a file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from shardbatch.errors import StagingError

_ATTRIBUTES = pa.map_(pa.string(), pa.string())

#: What a source's page holds; ``attributes`` may be left out.
PAGE_SCHEMA = pa.schema(
    [
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
        ("data", pa.binary()),
        ("attributes", _ATTRIBUTES),
    ]
)

#: What a landed file holds.
FILE_SCHEMA = pa.schema([("shard_id", pa.string()), ("record_index", pa.int64()), *PAGE_SCHEMA])

#: What a reader of a batch sees.
RECORD_SCHEMA = pa.schema([FILE_SCHEMA.field("shard_id"), ("shard_generation", pa.int32()), *list(FILE_SCHEMA)[1:]])


def page_columns(page: pa.RecordBatch) -> pa.RecordBatch:
    """A page with the columns and types of :data:`PAGE_SCHEMA`.

    :raises StagingError: if a column is missing or of another type.
    """
    if page.schema.equals(PAGE_SCHEMA):
        return page
    columns = []
    for field in PAGE_SCHEMA:
        at = page.schema.get_field_index(field.name)
        if at < 0 and field.name == "attributes":
            columns.append(pa.nulls(page.num_rows, field.type))
            continue
        if at < 0:
            raise _wrong_page(f"has no column {field.name!r}")
        column = page.column(at)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException:
            # Its message may show a value; the type is enough, and no record bytes stand in an error.
            raise _wrong_page(f"has {field.name!r} as {column.type}, not {field.type}") from None
    return pa.RecordBatch.from_arrays(columns, schema=PAGE_SCHEMA)


def file_table(pages: list[pa.RecordBatch], shard_id: str, first_index: int) -> pa.Table:
    """Pages of one shard as they stand in its file, numbered from ``first_index`` on."""
    table = pa.Table.from_batches(pages, schema=PAGE_SCHEMA)
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    index = pc.cumulative_sum(ones, start=pa.scalar(first_index - 1, pa.int64()))
    return pa.Table.from_arrays(
        [pa.repeat(pa.scalar(shard_id, pa.string()), table.num_rows), index, *table.columns], schema=FILE_SCHEMA
    )


def _wrong_page(what: str) -> StagingError:
    return StagingError(f"A page of the source {what}.", remedy="This is a fault in the source; report it.")
