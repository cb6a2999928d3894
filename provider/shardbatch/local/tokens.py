# SPDX-License-Identifier: Apache-2.0
"""Iterators and listing tokens: sealed text that only this server can have made, with the time it was made."""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple


class Iterator(NamedTuple):
    """A place in a shard. ``hops`` empty answers stand before it; ``serial`` makes every iterator another text."""

    home: str
    stream: str
    created_ms: int
    shard_id: str
    position: int
    hops: int
    issued_ms: int
    serial: int


class ListToken(NamedTuple):
    """Where a listing goes on, and what it was asked for."""

    home: str
    stream: str
    created_ms: int
    after: str
    kind: str
    timestamp_ms: int
    issued_ms: int


class Sealer:
    """Makes tokens and opens them again."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(16)

    def seal(self, purpose: str, fields: tuple[object, ...]) -> str:
        """Text for ``fields``, good for ``purpose`` only."""
        body = json.dumps([purpose, *fields], separators=(",", ":")).encode()
        return urlsafe_b64encode(self._sign(body) + body).decode()

    def open(self, purpose: str, text: str) -> list[object] | None:
        """The fields of ``text``, or None if this server did not make it for ``purpose``."""
        try:
            raw = b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except ValueError:
            return None
        mark, body = raw[:12], raw[12:]
        if not secrets.compare_digest(mark, self._sign(body)):
            return None
        fields: list[object] = json.loads(body)
        return fields[1:] if fields[0] == purpose else None

    def _sign(self, body: bytes) -> bytes:
        return blake2b(body, key=self._key, digest_size=12).digest()
