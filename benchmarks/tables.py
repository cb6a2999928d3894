# SPDX-License-Identifier: Apache-2.0
"""The table whose stream benchmarks read, on a stream server in a process of its own."""

from __future__ import annotations

import json
import random
from collections import Counter
from http.client import HTTPConnection
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.stream import REGION
from shardbatch.core.ports import Clock
from shardbatch.sources.dynamodb.options import DynamoDBOptions
from shardbatch.sources.dynamodb.source import DynamoDBSource

ITEMS_A_CALL = 1_000
#: The attributes of :func:`order`, with their types as Bloop's model has them.
COLUMNS = {
    "id": "text",
    "amount": "number",
    "pieces": "number",
    "weight": "number",
    "paid": "boolean",
    "note": "text",
    "tags": "texts",
    "address": "map",
    "lines": "list",
}


def order(chance: random.Random, item: int) -> dict[str, Any]:
    """An item of about 500 bytes of DynamoDB's JSON."""

    def price() -> dict[str, str]:
        return {"N": str(chance.randrange(10**6) / 100)}

    lines = [{"M": {"sku": {"S": f"sku-{chance.randrange(1000)}"}, "price": price()}} for _ in range(3)]
    return {
        "id": {"S": f"order-{item}"},
        "amount": price(),
        "pieces": {"N": str(chance.randrange(100))},
        "weight": {"N": str(chance.random())},
        "paid": {"BOOL": chance.random() < 0.5},
        "note": {"S": "please ring twice"},
        "tags": {"SS": ["new", "gift"]},
        "address": {"M": {"street": {"S": "Long Street 5"}, "zip": {"N": "12345"}}},
        "lines": {"L": lines},
    }


def client(endpoint_url: str, service: str) -> Any:
    """A client as the provider makes it: one attempt a call, for the source itself retries."""
    return boto3.client(
        service,
        endpoint_url=endpoint_url,
        region_name=REGION,
        aws_access_key_id="bench",
        aws_secret_access_key="not-a-secret",
        config=Config(proxies={}, retries={"total_max_attempts": 1, "mode": "standard"}, max_pool_connections=64),
    )


class Table:
    """A table with a stream of both images, steered from outside."""

    def __init__(self, endpoint_url: str, name: str) -> None:
        self.endpoint_url = endpoint_url
        self.name = name

    def create(self, shards: int) -> None:
        """Make it."""
        self._steer("POST", "tables/create", table=self.name, shards=shards)

    def change(self, changes: int, items: int, seed: int = 7) -> None:
        """Put orders again and again, each item in turn."""
        chance, made = random.Random(seed), 0
        while made < changes:
            several = [order(chance, (made + n) % items) for n in range(min(ITEMS_A_CALL, changes - made))]
            self._steer("POST", "tables/fill", table=self.name, items=several)
            made += len(several)

    def roll(self) -> None:
        """Every open shard closes and gets one child."""
        self._steer("POST", "tables/roll", table=self.name)

    def advance(self, seconds: float) -> None:
        """Move the server's clock."""
        self._steer("POST", "clock", advance=seconds)

    def forget_calls(self) -> None:
        """Begin to count anew."""
        self._steer("DELETE", "calls")

    def calls(self) -> Counter[str]:
        """Calls that the server has seen since then, by operation."""
        return Counter(call["operation"] for call in self._steer("GET", "calls"))

    def source(self, clock: Clock | None = None, **options: Any) -> DynamoDBSource:
        """Our source on its stream."""
        tables, streams = (client(self.endpoint_url, service) for service in ("dynamodb", "dynamodbstreams"))
        return DynamoDBSource(tables, streams, self.name, clock=clock, options=DynamoDBOptions(**options))

    def _steer(self, method: str, path: str, **fields: Any) -> Any:
        connection = HTTPConnection(self.endpoint_url.removeprefix("http://"), timeout=60)
        try:
            connection.request(method, f"/_shardbatch/{path}", json.dumps(fields))
            answer = connection.getresponse()
            said = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"The stream server refused {path}: {said}.")
        return said
