# SPDX-License-Identifier: Apache-2.0
"""The table of the example `dags/orders.py`: its customers, what its stream has said, and what the lake should have."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from shardbatch import read_committed_files
from shardbatch.local import StreamServer
from tests.support.aws import REGION, AwsServer

Json = dict[str, Any]
TABLE = "orders"
ITEMS = 60
CENT = Decimal("0.01")


class OrdersTable:
    """Changes the table by ordinary calls, and keeps the record list of its stream as a plain reader sees it.

    ``records`` are all records so far, by event id; the records of an item are in their order.
    """

    def __init__(self, server: StreamServer, shards: int = 2, seed: int = 1) -> None:
        aws = AwsServer("streams", server.endpoint_url)
        self._client, self._streams = aws.client("dynamodb"), aws.client("dynamodbstreams")
        self._server = server
        self._chance = random.Random(seed)
        self.arn = str(server.tables.create(TABLE, shards=shards, region=REGION))
        self.records: dict[str, Json] = {}

    # what customers do

    def change(self, times: int) -> None:
        """Puts, updates and deletions of some of the items, at random; then some expire."""
        for _ in range(times):
            self._change_one(f"order-{self._chance.randrange(ITEMS)}", self._chance.random())
        over = [{"id": {"S": f"order-{self._chance.randrange(ITEMS)}"}} for _ in range(3)]
        self._server.tables.expire(TABLE, over, region=REGION)
        self.collect()

    def _change_one(self, name: str, what: float) -> None:
        key = {"id": {"S": name}}
        amount = {"N": f"{self._chance.randrange(10**7) / 100:.2f}"}
        tags = {"SS": self._chance.sample(["new", "gift", "big", "späť", ""], 3)}
        if what < 0.05:
            self._client.put_item(TableName=TABLE, Item={**key, "amount": {"N": "1.234"}})  # does not fit the schema
        elif what < 0.5:
            item = {**key, "amount": amount, "tags": tags, "customer": {"S": f"c-{name}"}, "secret": {"B": b"\0"}}
            self._client.put_item(TableName=TABLE, Item=item)
        elif what < 0.85:
            self._client.update_item(
                TableName=TABLE,
                Key=key,
                UpdateExpression="SET amount = :a REMOVE tags",
                ExpressionAttributeValues={":a": amount},
            )
        else:
            self._client.delete_item(TableName=TABLE, Key=key)

    def resend(self, names: Iterable[str]) -> None:
        """Write items again, so that the stream says what they are now; those that are gone come and go once more."""
        items = self.scan()
        for name in names:
            key = {"id": {"S": name}}
            self._client.put_item(TableName=TABLE, Item={**items.get(name, key), "resent": {"BOOL": True}})
            if name not in items:
                self._client.delete_item(TableName=TABLE, Key=key)

    # the truth

    def shards(self) -> list[Json]:
        """The listed shards of the stream, parents first."""
        found: list[Json] = self._streams.describe_stream(StreamArn=self.arn)["StreamDescription"]["Shards"]
        return sorted(found, key=lambda shard: shard["ShardId"])

    def open_shards(self) -> list[str]:
        """The ids of the open shards."""
        return [
            shard["ShardId"] for shard in self.shards() if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        ]

    def collect(self) -> None:
        """Add what the stream has by now to ``records``."""
        for shard in self.shards():
            place = {"StreamArn": self.arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self._streams.get_shard_iterator(**place)["ShardIterator"]
            while iterator:
                page = self._streams.get_records(ShardIterator=iterator)
                for record in page["Records"]:
                    self.records.setdefault(record["eventID"], {**record, "shard": shard["ShardId"]})
                iterator = page["Records"] and page.get("NextShardIterator")

    def scan(self) -> dict[str, Json]:
        """All items of the table, by id."""
        pages = self._client.get_paginator("scan").paginate(TableName=TABLE, PaginationConfig={"PageSize": 25})
        return {item["id"]["S"]: item for page in pages for item in page["Items"]}


# ---------------------------------------------------------------------- what the lake should have


def number_of(record: Json) -> int:
    """The sequence number of a record."""
    return int(record["dynamodb"]["SequenceNumber"])


def item_of(record: Json) -> str:
    """The id of the item that a record is about."""
    return str(record["dynamodb"]["Keys"]["id"]["S"])


def fits(image: Json | None) -> bool:
    """Whether an item fits the schema of the job."""
    amount = Decimal((image or {}).get("amount", {}).get("N", "0"))
    return amount == amount.quantize(CENT)


def typed(image: Json | None) -> Json | None:
    """An item in the schema of the job."""
    if image is None:
        return None
    amount = image.get("amount", {}).get("N")
    return {
        "id": image["id"]["S"],
        "customer": image.get("customer", {}).get("S"),
        "amount": None if amount is None else Decimal(amount).quantize(CENT),
        "tags": sorted(image["tags"]["SS"]) if "tags" in image else None,
    }


def row_of(record: Json) -> Json:
    """A change as a row of the lake, as far as it is compared."""
    change = record["dynamodb"]
    made = change["ApproximateCreationDateTime"].astimezone(UTC)
    return {
        "event_id": record["eventID"],
        "event_name": record["eventName"],
        "keys": typed(change["Keys"]),
        "new": typed(change.get("NewImage")),
        "old": typed(change.get("OldImage")),
        "sequence_number": change["SequenceNumber"],
        "shard_id": record["shard"],
        "created_at": made,
        "expired": "userIdentity" in record,
        "day": f"{made:%Y-%m-%d}",
    }


def all_fit(record: Json) -> bool:
    """Whether both images of a record fit the schema of the job."""
    return fits(record["dynamodb"].get("NewImage")) and fits(record["dynamodb"].get("OldImage"))


def last_of(records: Iterable[Json]) -> dict[str, Json]:
    """The last record of each item."""
    return {item_of(record): record for record in records}


# ---------------------------------------------------------------------- what the lake has


def lake_rows(root: Path) -> list[Json]:
    """The committed rows below an output root, with the values of its partitions."""
    rows = [
        {**row, **file.partition}
        for file in read_committed_files(str(root))
        for row in pq.read_table(file.path, partitioning=None, coerce_int96_timestamp_unit="us").to_pylist()
    ]
    return [
        {name: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in rows
    ]
