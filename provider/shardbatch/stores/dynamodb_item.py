# SPDX-License-Identifier: Apache-2.0
"""How a row stands in a DynamoDB item: its key, its attributes, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardbatch.core.rows import BATCH, Columns, Key, Namespace, Table
from shardbatch.core.tables import columns_of_table
from shardbatch.errors import StoreError
from shardbatch.stores.dynamodb_table import INDEX_KEY
from shardbatch.stores.outcome import TOKEN, Write

#: The column by which the index finds rows of a table.
INDEXED = {BATCH.name: "owner"}
#: Bytes of an item, its attributes' names included (limit of DynamoDB).
ITEM_LIMIT = 400 * 1024
#: Bytes of a sort key (limit of DynamoDB).
SORT_KEY_LIMIT = 1024

Item = Mapping[str, Any]


def too_large(table: str) -> StoreError:
    """The error of a row that no item can hold."""
    return StoreError(
        f"A row of the table {table} would be larger than the {ITEM_LIMIT // 1024} KB of a DynamoDB item.",
        remedy="Let a read land less at once (limits=ReadLimits(...)), or keep the leases in SQL.",
    )


def _escape(text: str) -> str:
    """Without the separator; nothing that owners and scopes contain is changed by it."""
    return text.replace("!", "!!").replace("#", "!-")


def sort_prefix(table: Table, scope: str | None) -> str:
    """How the sort keys of a kind of row begin, in a scope or in every one."""
    if not table.key:
        return table.name
    return f"{table.name}#" if scope is None else f"{table.name}#{_escape(scope)}#"


def address_of(key: Key) -> dict[str, Any]:
    """The item's key. The last part stands as it is, so that items come in key order."""
    sort = sort_prefix(key.table, key.values[0] if key.values else "") + "".join(key.values[1:])
    if len(sort.encode()) > SORT_KEY_LIMIT:
        raise StoreError(
            f"The key of a {key.table.name} row has {len(sort.encode())} bytes; DynamoDB takes {SORT_KEY_LIMIT}.",
            remedy="Choose shorter names for the DAG, its run and its group.",
        )
    return {"pk": {"S": str(key.namespace)}, "sk": {"S": sort}}


def index_key(namespace: Namespace, value: str) -> str:
    """The index's partition key: it begins with the namespace, so that one fence holds for table and index."""
    return f"{_escape(str(namespace))}#{value}"


def attributes_of(write: Write) -> Columns:
    """What a write sets, by attribute; ``None`` where it removes one."""
    key, table = write.key, write.key.table
    columns = {**write.row.columns(), TOKEN: write.token}
    asked = INDEXED.get(table.name)
    if asked:  # an indexed attribute must not be empty
        columns[INDEX_KEY] = index_key(key.namespace, columns[asked]) if columns[asked] else None
    if write.before is None:
        columns.update(key.columns())
    return columns


def assignments(where: str, columns: Columns, names: dict[str, str], values: dict[str, Any]) -> str:
    """The update expression; its placeholders are added to ``names`` and ``values``.

    :raises StoreError: if the item would be larger than DynamoDB takes.
    """
    size, sets, removes = 0, [], []
    for number, (name, value) in enumerate(columns.items()):
        names[f"#c{number}"] = name
        if value is None:
            removes.append(f"#c{number}")
            continue
        sets.append(f"#c{number} = :c{number}")
        kind, text = (
            ("BOOL", "") if isinstance(value, bool) else ("N", str(value)) if isinstance(value, int) else ("S", value)
        )
        values[f":c{number}"] = {kind: value if kind == "BOOL" else text}
        size += len(name) + len(text.encode())
    if size > ITEM_LIMIT:
        raise too_large(where)
    return "SET " + ", ".join(sets) + (" REMOVE " + ", ".join(removes) if removes else "")


def columns_of(table: Table, item: Item) -> Columns:
    """The row's columns among an item's attributes; others are passed over."""
    known = {"app_name": "text", "stream_name": "text", **dict.fromkeys(table.key, "text")}
    known.update({column.name: column.type for column in columns_of_table(table)})
    return {name: _value(kind, item[name]) for name, kind in known.items() if name in item}


def _value(kind: str, attribute: Mapping[str, Any]) -> Any:
    value = next(iter(attribute.values()))
    return int(value) if kind == "int" else value
