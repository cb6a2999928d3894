# SPDX-License-Identifier: Apache-2.0
"""The lease table of the Kinesis Client Library (KCL) 1, 2 and 3 in DynamoDB: read, never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from shardbatch.core.shard import KeyRange
from shardbatch.errors import ConfigurationError, StoreError
from shardbatch.kcl.lease import KclLease, KclStream
from shardbatch.stores.dynamodb import DENIED
from shardbatch.stores.dynamodb_table import check_name

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = Mapping[str, Mapping[str, Any]]


class KclTable:
    """A lease table of KCL; it has the name of KCL's application.

    :param client: a boto3 client of DynamoDB; its own retries and time-outs apply to every call.
    :param page_size: items that one call reads (default: as many as fit into DynamoDB's 1 MB).
    :raises ConfigurationError: for an impossible name.
    """

    def __init__(self, client: DynamoDBClient, table: str, *, page_size: int | None = None) -> None:
        check_name(table)
        self.name = table
        self._client = client
        self._limit: dict[str, Any] = {} if page_size is None else {"Limit": page_size}

    def leases(self) -> list[KclLease]:
        """All leases of the table, of whatever stream, each as it stood when its page was read.

        :raises ConfigurationError: if there is no such table, or an item is not a lease of KCL.
        :raises StoreError: if DynamoDB cannot be asked.
        """
        return [lease for item in self._items() if (lease := lease_of(item)) is not None]

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _items(self) -> Iterator[Item]:
        after: dict[str, Any] = {}
        while True:
            try:
                page = self._client.scan(TableName=self.name, ConsistentRead=True, **self._limit, **after)
            except ClientError as error:
                raise self._judge(error) from error
            except BotoCoreError as error:
                raise StoreError(f"DynamoDB could not be asked for the KCL table {self.name}: {error}") from error
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            after = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _judge(self, error: ClientError) -> Exception:
        code, said = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        if code == "ResourceNotFoundException":
            return ConfigurationError(
                f"There is no DynamoDB table {self.name}.",
                remedy="A KCL lease table has the name of KCL's application; check name, region and account.",
            )
        if code in DENIED:
            return StoreError(
                f"AWS does not allow dynamodb:Scan on the table {self.name}: {said}",
                remedy="Allow it there; nothing else is asked of it.",
            )
        return StoreError(f"dynamodb:Scan on the table {self.name} failed: {code}: {said}")


def lease_of(item: Item) -> KclLease | None:
    """The lease of an item; ``None`` for what KCL 3 may keep beside leases.

    The state of a prepared checkpoint is passed over: some versions write a number there instead of it.

    :raises ConfigurationError: if KCL writes none like it.
    """
    if _text(item, "entityType") not in (None, "LEASE"):
        return None
    try:
        stream, shard_id = _named(item)
        prepared = _text(item, "pendingCheckpoint")
        return KclLease(
            key=item["leaseKey"]["S"],
            shard_id=shard_id,
            counter=int(item["leaseCounter"]["N"]),
            checkpoint=item["checkpoint"]["S"],
            sub_sequence_number=_number(item, "checkpointSubSequenceNumber"),
            owner=_text(item, "leaseOwner"),
            stream=stream,
            parent_shard_ids=_texts(item, "parentShardId"),
            child_shard_ids=_texts(item, "childShardIds"),
            hash_range=_hash_range(item),
            prepared=prepared and _place(prepared, _number(item, "pendingCheckpointSubSequenceNumber")),
        )
    except (KeyError, ValueError) as error:
        key = _text(item, "leaseKey")
        raise ConfigurationError(
            f"An item of the table is not a lease of KCL: {key or sorted(item)} ({type(error).__name__}: {error}).",
            remedy="Name the lease table of KCL: its items have a leaseKey, a leaseCounter and a checkpoint.",
        ) from error


def _named(item: Item) -> tuple[KclStream | None, str]:
    """Stream and shard. For several streams the key is ``account:stream:creation:shard``."""
    key = item["leaseKey"]["S"]
    parts = key.split(":")
    if len(parts) == 1:
        return None, key
    account, name, created, shard_id = parts
    return KclStream(account, name, int(created)), shard_id


def _place(number: str, sub_sequence_number: int) -> str:
    return f"{number}/{sub_sequence_number}" if sub_sequence_number else number


def _text(item: Item, name: str) -> str | None:
    return item.get(name, {}).get("S")


def _number(item: Item, name: str) -> int:
    return int(item.get(name, {}).get("N", 0))


def _texts(item: Item, name: str) -> tuple[str, ...]:
    return tuple(sorted(item.get(name, {}).get("SS", ())))


def _hash_range(item: Item) -> KeyRange | None:
    first, last = _text(item, "startingHashKey"), _text(item, "endingHashKey")
    return KeyRange(int(first), int(last)) if first and last else None
