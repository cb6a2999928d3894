# SPDX-License-Identifier: Apache-2.0
"""The events of a subscription, taken from its HTTP answer frame by frame."""

from __future__ import annotations

import json
import time
from binascii import crc32
from collections.abc import Callable, Generator, Iterator, Mapping
from struct import pack
from typing import Any, cast

from botocore.eventstream import EventStreamBuffer, ParserError
from urllib3.exceptions import HTTPError

from shardbatch.errors import InvalidAnswer, SourceError
from shardbatch.sources.kinesis import decoder
from shardbatch.sources.kinesis.decoder import Decoded

#: Seconds without an event after which a subscription counts as dead: the service sends one at least every 5 seconds,
#: without records if there are none (Kinesis developer guide, SubscribeToShard).
LONGEST_SILENCE = 60.0

#: Makes our error of an error's code and message.
Named = Callable[[str, str], SourceError]


class Opening:
    """What botocore gets in place of an answer's body: the one frame that it reads by itself, whether or not the server
    sends it first. Frames of records stay ours, so that they are neither parsed twice nor written into a debug log."""

    _head = b"\x0d:message-type\x07\x00\x05event\x0b:event-type\x07\x00\x10initial-response"

    def stream(self) -> Iterator[bytes]:
        """As a body of urllib3."""
        payload = b"{}"
        prelude = pack("!II", 16 + len(self._head) + len(payload), len(self._head))
        message = prelude + pack("!I", crc32(prelude)) + self._head + payload
        yield message + pack("!I", crc32(message))

    def close(self) -> None:
        """As a body of urllib3."""


def events(body: Any, named: Named) -> Generator[Decoded, None, None]:
    """The events of an answer's body until the service ends it, which it does after five minutes.

    :raises SourceError: what ``named`` makes of an error that the service sends in place of an event.
    :raises InvalidAnswer: if the body is cut short, a frame is damaged, or bytes come without an event for
        :data:`LONGEST_SILENCE`. A body from which nothing comes at all ends by the client's ``read_timeout``.
    """
    buffer = EventStreamBuffer()
    heard = time.monotonic()
    try:
        for chunk in body.stream():
            if time.monotonic() - heard > LONGEST_SILENCE:
                raise InvalidAnswer(f"A subscription sent no event for {LONGEST_SILENCE:.0f} seconds.")
            buffer.add_data(chunk)
            for frame in buffer:
                headers = cast("Mapping[str, Any]", frame.headers)
                if headers.get(":message-type") != "event":
                    raise named(*_reason(headers, frame.payload))
                if headers.get(":event-type") == "SubscribeToShardEvent":
                    yield decoder.decode_event(frame.payload)
                    heard = time.monotonic()  # after the pause in which its records were landed
    except (HTTPError, OSError, ParserError) as error:
        raise InvalidAnswer(f"A subscription was cut short: {type(error).__name__}.") from error
    finally:
        body.close()


def _reason(headers: Mapping[str, Any], payload: bytes) -> tuple[str, str]:
    code = headers.get(":exception-type") or headers.get(":error-code") or "an error without a name"
    try:
        message = json.loads(payload).get("message")
    except (ValueError, AttributeError):
        message = None
    return str(code), str(message or headers.get(":error-message") or "")
