# SPDX-License-Identifier: Apache-2.0
"""Calls the APIs of DynamoDB of the stream server without a server, on a clock that stands still."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from shardbatch.local.dynamodb.control import TableControl
from shardbatch.local.dynamodb.service import STREAMS_TARGET, TABLES_TARGET
from tests.unit.local.caller import Caller, Json

STREAM_OPERATIONS = ("ListStreams", "DescribeStream", "GetShardIterator", "GetRecords")
BOTH = "NEW_AND_OLD_IMAGES"


class TableCaller(Caller):
    """A client of both APIs, with a table ``orders`` whose key is the text ``id``."""

    targets = defaultdict(lambda: TABLES_TARGET, dict.fromkeys(STREAM_OPERATIONS, STREAMS_TARGET))  # noqa: RUF012

    def __init__(self, *, shards: int = 1, view: str | None = BOTH, **options: Any) -> None:
        super().__init__(**options)
        self.tables = TableControl(self.api.tables)
        self.arn = self.tables.create("orders", shards=shards, view=view) or ""

    def put_item(self, key: str, **attributes: Json) -> None:
        self.call("PutItem", TableName="orders", Item={"id": {"S": key}, **attributes})

    def fill(self, *numbers: int, key: str = "k") -> None:
        """One change of an item for each of the numbers."""
        for number in numbers:
            self.put_item(key, n={"N": str(number)})

    def update(self, key: str, expression: str, *, names: Json | None = None, **values: Json) -> Json:
        more: Json = {"ExpressionAttributeNames": names} if names else {}
        if values:
            more["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
        return self.call("UpdateItem", TableName="orders", Key=key_of(key), UpdateExpression=expression, **more)

    def item(self, key: str) -> Json | None:
        found: Json | None = self.call("GetItem", TableName="orders", Key=key_of(key)).get("Item")
        return found

    def delete_item(self, key: str) -> None:
        self.call("DeleteItem", TableName="orders", Key=key_of(key))

    def describe(self, arn: str | None = None, **fields: Any) -> Json:
        shown: Json = self.call("DescribeStream", StreamArn=arn or self.arn, **fields)["StreamDescription"]
        return shown

    def listed(self, **fields: Any) -> list[str]:
        """Ids of the shards of one page."""
        return [shard["ShardId"] for shard in self.describe(**fields)["Shards"]]

    def all_listed(self, **fields: Any) -> list[str]:
        """Ids of the shards of all pages."""
        found, cursor = [], {}
        while True:
            page = self.describe(**fields, **cursor)
            found += [shard["ShardId"] for shard in page["Shards"]]
            if "LastEvaluatedShardId" not in page:
                return found
            cursor = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}

    def place(self, shard: str, kind: str = "TRIM_HORIZON", *, arn: str | None = None, **fields: Any) -> str:
        answer = self.call(
            "GetShardIterator", StreamArn=arn or self.arn, ShardId=shard, ShardIteratorType=kind, **fields
        )
        return str(answer["ShardIterator"])

    def no_place(self, shard: str, kind: str = "TRIM_HORIZON", **fields: Any) -> str:
        """The error of a place that is refused."""
        return self.refused("GetShardIterator", StreamArn=self.arn, ShardId=shard, ShardIteratorType=kind, **fields)

    def changes(self, shard: str | None = None, kind: str = "TRIM_HORIZON", **fields: Any) -> list[Json]:
        """Records of the first page; of the only shard, if none is named."""
        if shard is None:
            (shard,) = self.listed()
        records: list[Json] = self.get(self.place(shard, kind, **fields))["Records"]
        return records


def key_of(key: str) -> Json:
    return {"id": {"S": key}}


def numbers(records: list[Json]) -> list[int]:
    """The numbers that `fill` put."""
    return [int(record["dynamodb"]["NewImage"]["n"]["N"]) for record in records]


def names(records: list[Json]) -> list[str]:
    return [record["eventName"] for record in records]


def sequence(record: Json) -> str:
    return str(record["dynamodb"]["SequenceNumber"])
