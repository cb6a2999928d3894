# SPDX-License-Identifier: Apache-2.0
"""One table: its key, its items, and the stream of their changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from shardbatch.local.dynamodb.stream import ChangeStream, View
from shardbatch.local.dynamodb.values import MOST_ITEM_BYTES, canonical_item, size_of_item
from shardbatch.local.failure import malformed
from shardbatch.local.options import Options
from shardbatch.local.stream import hash_of

Json = dict[str, Any]
#: Who deletes an item whose time to live is over.
TIME_TO_LIVE = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


@dataclass(eq=False)
class Table:
    """A table and all that it holds. Time is passed in: nothing here asks a clock."""

    account: str
    region: str
    home: str
    name: str
    arn: str
    key: dict[str, str]
    """Type of each key attribute: the partition key, then the sort key if there is one."""
    created_ms: int
    options: Options
    deleted_ms: int | None = None
    stream: ChangeStream | None = None
    """The latest one, enabled or not."""
    items: dict[str, Json] = field(default_factory=dict)

    def status(self, now_ms: int) -> str:
        """State of the table, as the service names it."""
        if self.deleted_ms is not None:
            return "DELETING"
        if now_ms - self.created_ms < self.options.create_seconds * 1000:
            return "CREATING"
        switching = self.stream is not None and self.stream.status(now_ms) in ("ENABLING", "DISABLING")
        return "UPDATING" if switching else "ACTIVE"

    def gone(self, now_ms: int) -> bool:
        """Whether its deletion is over."""
        return self.deleted_ms is not None and now_ms - self.deleted_ms >= self.options.delete_seconds * 1000

    def enabled(self) -> ChangeStream | None:
        """The stream, if changes go into it."""
        return self.stream if self.stream is not None and self.stream.disabled_ms is None else None

    # items

    def check_key(self, given: Any) -> Json:
        """A key that has the table's key attributes and no others, in its stored form.

        :raises ServiceError: ValidationException, SerializationException
        """
        key = canonical_item(given, "Key")
        if set(key) != set(self.key):
            raise malformed(f"the key of table {self.name} is {', '.join(self.key)}, got {', '.join(key) or 'nothing'}")
        self._check_types(key)
        return self.key_of(key)

    def check_item(self, given: Any) -> Json:
        """An item with a key of the table, in its stored form.

        :raises ServiceError: ValidationException, SerializationException
        """
        item = canonical_item(given, "Item")
        self._check_types(item)
        size = size_of_item(item)
        if size > MOST_ITEM_BYTES:
            raise malformed(f"Item size has exceeded the maximum allowed size: {size} bytes of {MOST_ITEM_BYTES}")
        return item

    def key_of(self, item: Json) -> Json:
        """The key of an item."""
        return {name: item[name] for name in self.key}

    def get(self, key: Json) -> Json | None:
        """The item of a key."""
        return self.items.get(_text(key))

    def write(self, key: Json, item: Json | None, now_ms: int, identity: Json | None = None) -> Json | None:
        """Put the item of a key, or with ``None`` delete it; returns what was there. What changes goes to the stream.

        :param identity: who did it, if not a caller
        """
        text = _text(key)
        old = self.items.get(text)
        if item == old:
            return old
        if item is None:
            del self.items[text]
        else:
            self.items[text] = item
        stream = self.enabled()
        if stream is not None:
            self._record(stream, key, old, item, now_ms, identity)
        return old

    def _check_types(self, item: Json) -> None:
        for name, kind in self.key.items():
            value = item.get(name)
            if value is None or kind not in value:
                raise malformed(f"table {self.name} wants the key attribute {name} of type {kind}, got {value}")
            if value[kind] == "":
                raise malformed(f"the key attribute {name} may not be empty")

    def _record(
        self,
        stream: ChangeStream,
        key: Json,
        old: Json | None,
        new: Json | None,
        now_ms: int,
        identity: Json | None,
    ) -> None:
        stream.settle(now_ms)
        shard = stream.route(hash_of(_text({name: key[name] for name in list(self.key)[:1]})))
        number = shard.next_number()
        shown: Json = {"ApproximateCreationDateTime": now_ms // 1000, "Keys": key}
        size = size_of_item(key)
        for name, image, views in (
            ("NewImage", new, (View.NEW_IMAGE, View.NEW_AND_OLD_IMAGES)),
            ("OldImage", old, (View.OLD_IMAGE, View.NEW_AND_OLD_IMAGES)),
        ):
            if image is not None and stream.view in views:
                shown[name] = image
                size += size_of_item(image)
        shown |= {"SequenceNumber": str(number), "SizeBytes": size, "StreamViewType": stream.view.value}
        record: Json = {
            "eventID": blake2b(f"{stream.arn} {number}".encode(), digest_size=16).hexdigest(),
            "eventName": "REMOVE" if new is None else "INSERT" if old is None else "MODIFY",
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": stream.region,
            "dynamodb": shown,
        }
        if identity is not None:
            record["userIdentity"] = identity
        shard.append(number, json.dumps(record, separators=(",", ":")).encode(), size, now_ms)

    # what answers show

    def describe(self, now_ms: int) -> Json:
        """The table, as answers show it."""
        shown: Json = {
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in self.key.items()],
            "TableName": self.name,
            "KeySchema": self.key_schema(),
            "TableStatus": self.status(now_ms),
            "CreationDateTime": self.created_ms / 1000,
            "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
            "TableSizeBytes": sum(map(size_of_item, self.items.values())),
            "ItemCount": len(self.items),
            "TableArn": self.arn,
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
            "DeletionProtectionEnabled": False,
        }
        if self.stream is not None:
            shown |= {"LatestStreamLabel": self.stream.label, "LatestStreamArn": self.stream.arn}
        stream = self.enabled()
        if stream is not None:
            shown["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": stream.view.value}
        return shown

    def key_schema(self) -> list[dict[str, str]]:
        """The key attributes and what each is for."""
        return [
            {"AttributeName": name, "KeyType": role} for name, role in zip(self.key, ("HASH", "RANGE"), strict=False)
        ]


def parse_key(schema: list[Any], definitions: list[Any]) -> dict[str, str]:
    """The key attributes of a new table and their types, from KeySchema and AttributeDefinitions.

    :raises ServiceError: ValidationException
    """
    try:
        types = {str(entry["AttributeName"]): str(entry["AttributeType"]) for entry in definitions}
        parts = [(str(entry["AttributeName"]), str(entry["KeyType"])) for entry in schema]
    except (KeyError, TypeError):
        raise malformed("KeySchema takes AttributeName and KeyType, AttributeDefinitions AttributeType") from None
    names = [name for name, _ in parts]
    if [role for _, role in parts] not in (["HASH"], ["HASH", "RANGE"]) or len(set(names)) < len(names):
        raise malformed("KeySchema has a HASH attribute first, and perhaps a RANGE attribute after it")
    if set(types) != set(names):
        raise malformed("AttributeDefinitions must define the attributes of KeySchema, and no others without an index")
    if not set(types.values()) <= {"S", "N", "B"}:
        raise malformed("a key attribute has the type S, N or B")
    return {name: types[name] for name in names}


def parse_view(specification: Json | None) -> tuple[bool | None, View | None]:
    """Whether a StreamSpecification enables a stream, and with which view; None if there is none.

    :raises ServiceError: ValidationException
    """
    if specification is None:
        return None, None
    enabled, view = specification.get("StreamEnabled"), specification.get("StreamViewType")
    if not isinstance(enabled, bool):
        raise malformed("StreamSpecification.StreamEnabled must be true or false")
    if enabled == (view is None):
        raise malformed("StreamViewType goes with StreamEnabled=true, and with nothing else")
    if not enabled:
        return False, None
    if view not in list(View):
        raise malformed(f"StreamViewType must be one of {', '.join(View)}, got {view!r}")
    return True, View(view)


def _text(key: Json) -> str:
    return json.dumps(key, separators=(",", ":"))
