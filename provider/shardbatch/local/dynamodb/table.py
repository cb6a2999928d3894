# SPDX-License-Identifier: Apache-2.0
"""One table: its key, its items, and the stream of their changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from shardbatch.local.dynamodb.stream import ChangeStream, View
from shardbatch.local.dynamodb.values import MOST_ITEM_BYTES, canonical_item, size_of_item
from shardbatch.local.failure import malformed
from shardbatch.local.options import Options
from shardbatch.local.stream import hash_of

Json = dict[str, Any]
_to_text = json.JSONEncoder(separators=(",", ":")).encode
MOST_SCAN_BYTES = 1_000_000
#: Who deletes an item whose time to live is over.
TIME_TO_LIVE = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


class Held(NamedTuple):
    """An item as it is kept, with its JSON and its size."""

    item: Json
    text: str
    size: int


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
    held: dict[str, Held] = field(default_factory=dict)
    """Items by the JSON of their keys."""

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
        held = self.held.get(_to_text(key))
        return None if held is None else held.item

    def keys(self) -> list[Json]:
        """The keys of all items."""
        return [self.key_of(held.item) for held in self.held.values()]

    def scan(self, after: Json | None, most: int) -> tuple[list[Json], Json | None]:
        """A page of items in an order that does not change, and the key that it goes on after; none: that was all.

        A page has ``most`` items, or 1 MB, and then the item that exceeds it.

        :param after: the key that the page before ended with
        """
        begin = _place_of(_to_text(after)) if after is not None else None
        left = sorted(place for place in map(_place_of, self.held) if begin is None or place > begin)
        page: list[Json] = []
        size = 0
        for number, (_, text) in enumerate(left, 1):
            page.append(self.held[text].item)
            size += self.held[text].size
            if number == most or size > MOST_SCAN_BYTES:
                return page, self.key_of(page[-1])
        return page, None

    def write(self, key: Json, item: Json | None, now_ms: int, identity: Json | None = None) -> Json | None:
        """Put the item of a key, or with ``None`` delete it; returns what was there. What changes goes to the stream.

        :param identity: who did it, if not a caller
        """
        text = _to_text(key)
        old = self.held.get(text)
        if item == (None if old is None else old.item):
            return item
        new = None if item is None else Held(item, _to_text(item), size_of_item(item))
        if new is None:
            del self.held[text]
        else:
            self.held[text] = new
        stream = self.enabled()
        if stream is not None:
            self._record(stream, Held(key, text, size_of_item(key)), old, new, now_ms, identity)
        return None if old is None else old.item

    def _check_types(self, item: Json) -> None:
        for name, kind in self.key.items():
            value = item.get(name)
            if value is None or kind not in value:
                raise malformed(f"table {self.name} wants the key attribute {name} of type {kind}, got {value}")
            if value[kind] == "":
                raise malformed(f"the key attribute {name} may not be empty")

    @staticmethod
    def _record(
        stream: ChangeStream, key: Held, old: Held | None, new: Held | None, now_ms: int, identity: Json | None
    ) -> None:
        stream.settle(now_ms)
        partition = next(iter(key.item.items()))
        shard = stream.route(hash_of(_to_text(partition)))
        number = shard.next_number()
        name = "REMOVE" if new is None else "INSERT" if old is None else "MODIFY"
        shown = {
            "NewImage": new if stream.view in (View.NEW_IMAGE, View.NEW_AND_OLD_IMAGES) else None,
            "OldImage": old if stream.view in (View.OLD_IMAGE, View.NEW_AND_OLD_IMAGES) else None,
        }
        images = [(image, held) for image, held in shown.items() if held is not None]
        size = key.size + sum(held.size for _, held in images)
        texts = "".join(f',"{image}":{held.text}' for image, held in images)
        who = "" if identity is None else f',"userIdentity":{_to_text(identity)}'
        event_id = blake2b(f"{stream.arn} {number}".encode(), digest_size=16).hexdigest()
        record = (
            f'{{"eventID":"{event_id}","eventName":"{name}","eventVersion":"1.1","eventSource":"aws:dynamodb",'
            f'"awsRegion":"{stream.region}","dynamodb":{{"ApproximateCreationDateTime":{now_ms // 1000},'
            f'"Keys":{key.text}{texts},"SequenceNumber":"{number}","SizeBytes":{size},'
            f'"StreamViewType":"{stream.view.value}"}}{who}}}'
        )
        shard.append(number, record.encode("ascii"), size, now_ms)

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
            "TableSizeBytes": sum(held.size for held in self.held.values()),
            "ItemCount": len(self.held),
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


def _place_of(text: str) -> tuple[int, str]:
    """The place of an item in a scan, by the JSON of its key."""
    return hash_of(text), text


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
