# SPDX-License-Identifier: Apache-2.0
"""Aggregates as producers pack them, written byte by byte: nothing of the product, and no protobuf."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

MAGIC = bytes.fromhex("f3899ac2")

#: KV-10: (a, "one"), (b, "two"), (a, "three"); the hash key of a is in the lower half, that of b in the upper.
FIXTURE = base64.b64decode("84mawgoBYQoBYhoHCAAaA29uZRoHCAEaA3R3bxoJCAAaBXRocmVl7LQL+ttKeb2aTeDcIlFt/Q==")


@dataclass(frozen=True)
class Packed:
    """One record of an aggregate."""

    key: str
    data: bytes
    hash_key: str | None = None


def pack(*records: Packed) -> bytes:
    """An aggregate of these records."""
    keys = list(dict.fromkeys(record.key for record in records))
    hash_keys = list(dict.fromkeys(record.hash_key for record in records if record.hash_key is not None))
    body = b"".join(text(1, key.encode()) for key in keys) + b"".join(text(2, key.encode()) for key in hash_keys)
    for record in records:
        inner = number(1, keys.index(record.key))
        if record.hash_key is not None:
            inner += number(2, hash_keys.index(record.hash_key))
        body += text(3, inner + text(3, record.data))
    return sealed(body)


def sealed(body: bytes) -> bytes:
    """A message, whatever it is, between magic and digest."""
    return MAGIC + body + hashlib.md5(body).digest()


def number(field: int, value: int) -> bytes:
    """A field that is a number, on the wire."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """A field that is bytes, a text or a message, on the wire."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found) + bytes([value])
