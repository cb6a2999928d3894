# SPDX-License-Identifier: Apache-2.0
"""Frames of ``application/vnd.amazon.eventstream``, as a subscription sends them."""

from __future__ import annotations

import json
from binascii import crc32
from struct import pack

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_JSON = "application/x-amz-json-1.1"
_STRING = 7
_PRELUDE_BYTES = 12
_CHECK_BYTES = 4


def frame_event(kind: str, payload: bytes) -> bytes:
    """An event of that type with a JSON payload."""
    return _frame({":message-type": "event", ":event-type": kind, ":content-type": _JSON}, payload)


def frame_error(code: str, message: str) -> bytes:
    """An error of the service; the stream ends with it."""
    headers = {":message-type": "exception", ":exception-type": code, ":content-type": _JSON}
    return _frame(headers, json.dumps({"message": message}).encode())


def _frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Lengths and their checksum, headers, payload, and the checksum of it all."""
    head = b"".join(
        pack(f"!B{len(name)}sBH{len(value)}s", len(name), name.encode(), _STRING, len(value), value.encode())
        for name, value in headers.items()
    )
    prelude = pack("!II", _PRELUDE_BYTES + len(head) + len(payload) + _CHECK_BYTES, len(head))
    message = prelude + pack("!I", crc32(prelude)) + head + payload
    return message + pack("!I", crc32(message))


OPENING = frame_event("initial-response", b"{}")
