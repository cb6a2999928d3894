# SPDX-License-Identifier: Apache-2.0
"""The two APIs of DynamoDB: tables, and the streams of their changes."""

from __future__ import annotations

from shardbatch.local.dynamodb.addressing import TableAddressing
from shardbatch.local.dynamodb.failure import ELSEWHERE
from shardbatch.local.dynamodb.item_operations import ItemOperations
from shardbatch.local.dynamodb.stream_operations import ChangeStreamOperations
from shardbatch.local.dynamodb.table_operations import TableOperations
from shardbatch.local.dynamodb.tables import Tables
from shardbatch.local.service import JSON_1_0, Operation, Service

TABLES_TARGET = "DynamoDB_20120810"
STREAMS_TARGET = "DynamoDBStreams_20120810"
ERROR_SPACE = "com.amazonaws.dynamodb.v20120810#"


def dynamodb_services(tables: Tables) -> tuple[Service, Service]:
    """The API of tables and that of streams."""
    addressing = TableAddressing(tables)
    table, item, stream = TableOperations(addressing), ItemOperations(addressing), ChangeStreamOperations(addressing)
    front: dict[str, Operation] = {
        "BatchWriteItem": item.batch_write_item,
        "CreateTable": table.create_table,
        "DeleteItem": item.delete_item,
        "DeleteTable": table.delete_table,
        "DescribeTable": table.describe_table,
        "GetItem": item.get_item,
        "PutItem": item.put_item,
        "Scan": item.scan,
        "UpdateItem": item.update_item,
        "UpdateTable": table.update_table,
    }
    changes: dict[str, Operation] = {
        "DescribeStream": stream.describe_stream,
        "GetRecords": stream.get_records,
        "GetShardIterator": stream.get_shard_iterator,
        "ListStreams": stream.list_streams,
    }
    return (
        _service(TABLES_TARGET, front, addressing, "the table front only makes change records. It has"),
        _service(STREAMS_TARGET, changes, addressing, "the operations are"),
    )


def _service(target: str, operations: dict[str, Operation], addressing: TableAddressing, why: str) -> Service:
    scope = f": {why} {', '.join(operations)}. For another operation {ELSEWHERE}"
    return Service(target, operations, addressing.note, JSON_1_0, ERROR_SPACE, scope)
