# SPDX-License-Identifier: Apache-2.0
"""The operations on items: enough of DynamoDB to make changes of each kind."""

from __future__ import annotations

import json
from typing import Any

from shardbatch.local.dynamodb.addressing import TABLE, TableAddressing
from shardbatch.local.dynamodb.expression import parse_update
from shardbatch.local.dynamodb.failure import refuse_others
from shardbatch.local.dynamodb.table import Table
from shardbatch.local.failure import malformed
from shardbatch.local.faults import FaultKind
from shardbatch.local.fields import Fields, mistyped
from shardbatch.local.request import Request

MOST_WRITES = 25
#: Members that change nothing here: nothing is metered, and every read sees every write.
_IGNORED = ("TableName", "ConsistentRead", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics")
Json = dict[str, Any]


class ItemOperations:
    """PutItem, GetItem, Scan, DeleteItem, UpdateItem, BatchWriteItem."""

    def __init__(self, addressing: TableAddressing) -> None:
        self._addressing = addressing
        self._tables = addressing.tables
        self._clock = addressing.tables.engine.clock

    def put_item(self, request: Request) -> bytes:
        """PutItem."""
        refuse_others(request.fields, "PutItem", (*_IGNORED, "Item", "ReturnValues"))
        wanted = _return_values(request.fields, "NONE", "ALL_OLD")
        table = self._addressing.find_ready(request)
        item = table.check_item(request.fields.values.get("Item"))
        request.records = 1
        old = table.write(table.key_of(item), item, self._clock.now_ms())
        return _attributes(old if wanted == "ALL_OLD" else None)

    def get_item(self, request: Request) -> bytes:
        """GetItem."""
        refuse_others(request.fields, "GetItem", (*_IGNORED, "Key"))
        table = self._addressing.find_ready(request)
        item = table.get(table.check_key(request.fields.values.get("Key")))
        return json.dumps({} if item is None else {"Item": item}).encode()

    def scan(self, request: Request) -> bytes:
        """Scan of whole items, page by page."""
        fields = request.fields
        refuse_others(fields, "Scan", (*_IGNORED, "Limit", "ExclusiveStartKey"))
        table = self._addressing.find_ready(request)
        start = table.check_key(fields.values["ExclusiveStartKey"]) if fields.has("ExclusiveStartKey") else None
        most = fields.integer("Limit", 1, 2**31 - 1) or 0
        items, last = table.scan(start, most)
        request.records = len(items)
        shown: Json = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
        return json.dumps(shown if last is None else {**shown, "LastEvaluatedKey": last}).encode()

    def delete_item(self, request: Request) -> bytes:
        """DeleteItem."""
        refuse_others(request.fields, "DeleteItem", (*_IGNORED, "Key", "ReturnValues"))
        wanted = _return_values(request.fields, "NONE", "ALL_OLD")
        table = self._addressing.find_ready(request)
        key = table.check_key(request.fields.values.get("Key"))
        request.records = 1
        old = table.write(key, None, self._clock.now_ms())
        return _attributes(old if wanted == "ALL_OLD" else None)

    def update_item(self, request: Request) -> bytes:
        """UpdateItem."""
        fields = request.fields
        expressions = ("UpdateExpression", "ExpressionAttributeNames", "ExpressionAttributeValues")
        refuse_others(fields, "UpdateItem", (*_IGNORED, "Key", "ReturnValues", *expressions))
        wanted = _return_values(fields, "NONE", "ALL_OLD", "ALL_NEW")
        table = self._addressing.find_ready(request)
        key = table.check_key(fields.values.get("Key"))
        old = table.get(key)
        new = {**key} if old is None else old
        if fields.has("UpdateExpression"):
            names = fields.strings("ExpressionAttributeNames") or {}
            values = fields.inner("ExpressionAttributeValues")
            expression = fields.any_text("UpdateExpression", 4_096)
            update = parse_update(expression, names, {} if values is None else values.values)
            for name in update.attributes():
                if name in key:
                    raise malformed(f"Cannot update attribute {name}: it is part of the key")
            new = table.check_item(update.apply(new))
        request.records = 1
        table.write(key, new, self._clock.now_ms())
        return _attributes({"ALL_OLD": old, "ALL_NEW": new}.get(wanted))

    def batch_write_item(self, request: Request) -> bytes:
        """BatchWriteItem: all entries are checked before the first one is written."""
        refuse_others(request.fields, "BatchWriteItem", (*_IGNORED, "RequestItems"))
        tables = request.fields.inner("RequestItems")
        if tables is None:
            raise malformed("RequestItems is required")
        writes: list[tuple[str, Json, Table, Json, Json | None]] = []
        for text in tables.values:
            if not TABLE.fullmatch(text):
                raise malformed(f"RequestItems: {text[:200]!r} is not the name of a table")
            table = self._tables.find_ready(*self._addressing.named(request, text))
            writes += [
                (text, entry, table, *_check_write(table, entry)) for entry in tables.array(text, 1, MOST_WRITES)
            ]
        if not 1 <= len(writes) <= MOST_WRITES:
            raise malformed(f"RequestItems must have 1 to {MOST_WRITES} writes, has {len(writes)}")
        if len({(table.arn, json.dumps(key)) for _, _, table, key, _ in writes}) < len(writes):
            raise malformed("Provided list of item keys contains duplicates")
        partial = request.fault(FaultKind.PARTIAL)
        taken = len(writes) if partial is None else int(len(writes) * partial.keep)
        now_ms = self._clock.now_ms()
        left: dict[str, list[Json]] = {}
        for number_of, (text, entry, table, key, item) in enumerate(writes):
            if number_of < taken:
                table.write(key, item, now_ms)
            else:
                left.setdefault(text, []).append(entry)
        request.records = taken
        return json.dumps({"UnprocessedItems": left}).encode()


def _check_write(table: Table, entry: Any) -> tuple[Json, Json | None]:
    """Key and item of one write of a batch; no item: a deletion."""
    if not isinstance(entry, dict):
        raise mistyped("RequestItems", "lists of objects")
    put, deletion = Fields(entry).inner("PutRequest"), Fields(entry).inner("DeleteRequest")
    if (put is None) == (deletion is None):
        raise malformed("each write of RequestItems has either PutRequest or DeleteRequest")
    if put is not None:
        item = table.check_item(put.values.get("Item"))
        return table.key_of(item), item
    assert deletion is not None
    return table.check_key(deletion.values.get("Key")), None


def _return_values(fields: Fields, *known: str) -> str:
    wanted = fields.values.get("ReturnValues") or "NONE"
    if wanted not in known:
        raise malformed(f"ReturnValues is one of {', '.join(known)} here, got {wanted!r}")
    return str(wanted)


def _attributes(item: Json | None) -> bytes:
    return json.dumps({} if item is None else {"Attributes": item}).encode()
