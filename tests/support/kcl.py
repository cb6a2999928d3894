# SPDX-License-Identifier: Apache-2.0
"""Lease tables as the Kinesis Client Library keeps them: items of its versions, and a worker that renews them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from shardbatch.kcl.lease import KclLease

Item = dict[str, Any]


def item_1(
    key: str, checkpoint: str, *, sub: int = 0, owner: str = "", counter: int = 7, parents: tuple[str, ...] = ()
) -> Item:
    """What KCL 1 writes."""
    item: Item = {
        "leaseKey": {"S": key},
        "leaseCounter": {"N": str(counter)},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "checkpoint": {"S": checkpoint},
        "checkpointSubSequenceNumber": {"N": str(sub)},
    }
    if owner:
        item["leaseOwner"] = {"S": owner}
    if parents:
        item["parentShardId"] = {"SS": list(parents)}
    return item


def item_2(
    key: str,
    checkpoint: str,
    *,
    children: tuple[str, ...] = (),
    hash_range: tuple[int, int] | None = None,
    prepared: tuple[str, int] | None = None,
    **more: Any,
) -> Item:
    """What KCL 2 adds."""
    item = item_1(key, checkpoint, **more)
    if children:
        item["childShardIds"] = {"SS": list(children)}
    if hash_range:
        item["startingHashKey"], item["endingHashKey"] = ({"S": str(end)} for end in hash_range)
    if prepared:
        item["pendingCheckpoint"] = {"S": prepared[0]}
        item["pendingCheckpointSubSequenceNumber"] = {"N": str(prepared[1])}
        item["pendingCheckpointState"] = {"B": b"state"}
    return item


def item_3(key: str, checkpoint: str, *, checkpoint_owner: str = "", throughput: float = 0.5, **more: Any) -> Item:
    """What KCL 3 adds."""
    item = {**item_2(key, checkpoint, **more), "entityType": {"S": "LEASE"}, "throughputKBps": {"N": str(throughput)}}
    if checkpoint_owner:
        item["checkpointOwner"] = {"S": checkpoint_owner}
    return item


def item_of_many(account: str, stream: str, created_s: int, shard_id: str, checkpoint: str, **more: Any) -> Item:
    """What KCL 2 and 3 write where they read several streams."""
    named = f"{account}:{stream}:{created_s}"
    item = item_2(f"{named}:{shard_id}", checkpoint, **more)
    return {**item, "streamName": {"S": named}, "shardId": {"S": shard_id}}


def make_table(client: Any, name: str, *items: Item) -> None:
    """A table as KCL makes it, with these items."""
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
    )
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    for item in items:
        client.put_item(TableName=name, Item=item)


def renew(client: Any, table: str, key: str) -> None:
    """What a live worker does three times in every failover time."""
    client.update_item(
        TableName=table,
        Key={"leaseKey": {"S": key}},
        UpdateExpression="SET leaseCounter = leaseCounter + :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


class Worker:
    """Renews a lease over and over, in a thread of its own."""

    def __init__(self, client: Any, table: str, key: str, every: float) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(client, table, key, every), daemon=True)

    def _run(self, client: Any, table: str, key: str, every: float) -> None:
        while not self._stop.wait(every):
            renew(client, table, key)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class ScriptedKcl:
    """The ``KclLeases`` port in memory; ``moves`` says at which look (from 1 on) which lease is renewed first."""

    name = "kcl-app"

    def __init__(self, *leases: KclLease, moves: dict[int, str] | None = None) -> None:
        self.rows = {lease.key: lease for lease in leases}
        self.moves = moves or {}
        self.looks = 0

    def leases(self) -> list[KclLease]:
        self.looks += 1
        if self.looks in self.moves:
            self.renew(self.moves[self.looks])
        return list(self.rows.values())

    def renew(self, key: str) -> None:
        self.rows[key] = replace(self.rows[key], counter=self.rows[key].counter + 1)

    def close(self) -> None:
        """Nothing to give back."""
