# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 with kept connections: as much of it as clients of the API need."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from itertools import count
from typing import Protocol, cast

MOST_HEAD_BYTES = 64 * 1024
MOST_BODY_BYTES = 32 * 1024 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
#: Seconds between two looks for what a stream of events has to send.
LOOK_EVERY = 0.01
_request_ids = count(1)


@dataclass(frozen=True)
class HttpRequest:
    """A request as read; header names are lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Event(Protocol):
    """Part of an answer, and what goes wrong on the way, as in an answer; nothing comes after the ``last`` one."""

    @property
    def body(self) -> bytes: ...
    @property
    def last(self) -> bool: ...
    @property
    def delay(self) -> float: ...
    @property
    def keep(self) -> float | None: ...
    @property
    def reset(self) -> bool: ...


class Events(Protocol):
    """What an answer goes on with."""

    def next_event(self) -> Event | None:
        """What is to be sent now, if anything."""
        ...

    def close(self) -> None:
        """The client does not listen any more."""


@dataclass(frozen=True)
class HttpReply:
    """An answer to write, and what goes wrong on the way: ``delay`` in seconds, ``keep`` of the body, ``reset``.

    With ``events``, the body is the first chunk of many.
    """

    status: int
    body: bytes
    content_type: str = "application/x-amz-json-1.1"
    error: str | None = None
    delay: float = 0.0
    keep: float | None = None
    reset: bool = False
    events: Events | None = None


class Connection(asyncio.Protocol):
    """One connection: requests are answered one after the other.

    :param now: seconds since the epoch, for the ``Date`` of answers
    """

    def __init__(
        self, handle: Callable[[HttpRequest], HttpReply], now: Callable[[], float], connections: set[Connection]
    ) -> None:
        self._handle = handle
        self._now = now
        self._connections = connections
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str], int] | None = None
        self._delayed = False
        self._events: Events | None = None
        self._full = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of asyncio.Protocol."""
        self._transport = None
        self._connections.discard(self)
        self._stop_events()

    def pause_writing(self) -> None:
        """Part of asyncio.Protocol: the client reads more slowly than events come."""
        self._full = True

    def resume_writing(self) -> None:
        """Part of asyncio.Protocol."""
        self._full = False

    def data_received(self, data: bytes) -> None:
        """Part of asyncio.Protocol."""
        self._buffer += data
        self._advance()

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _advance(self) -> None:
        while self._transport is not None and not self._delayed and self._events is None:
            if self._head is None and not self._read_head():
                return
            assert self._head is not None
            method, target, headers, length = self._head
            if len(self._buffer) < length:
                return
            body = bytes(self._buffer[:length])
            del self._buffer[:length]
            self._head = None
            path, _, query = target.partition("?")
            reply = self._handle(HttpRequest(method, path, query, headers, body))
            close = headers.get("connection", "").lower() == "close"
            if reply.delay:
                self._delayed = True
                asyncio.get_running_loop().call_later(reply.delay, self._write_late, reply, close)
            else:
                self._write(reply, close)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MOST_HEAD_BYTES:
                self._refuse(431)
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        start = lines[0].split(" ")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if len(start) != 3 or not start[2].startswith("HTTP/1.") or not length.isdigit():
            self._refuse(400)
            return False
        if "transfer-encoding" in headers:
            self._refuse(411)
            return False
        if int(length) > MOST_BODY_BYTES:
            self._refuse(413)
            return False
        if headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._head = (start[0], start[1], headers, int(length))
        return True

    def _refuse(self, status: int) -> None:
        self._write(HttpReply(status, b"", "text/plain"), close=True)

    def _write_late(self, reply: HttpReply, close: bool) -> None:
        self._delayed = False
        self._write(reply, close)
        self._advance()

    def _write(self, reply: HttpReply, close: bool) -> None:
        transport = self._transport
        if reply.events is not None and (transport is None or reply.reset or reply.keep is not None):
            reply.events.close()
        if transport is None:
            return
        if reply.reset:
            self._reset()
            return
        close = close or reply.keep is not None
        error = f"x-amzn-ErrorType: {reply.error}\r\n" if reply.error else ""
        length = f"Content-Length: {len(reply.body)}" if reply.events is None else "Transfer-Encoding: chunked"
        head = (
            f"HTTP/1.1 {reply.status} {_reason(reply.status)}\r\n"
            f"Date: {formatdate(int(self._now()), usegmt=True)}\r\n"
            f"x-amzn-RequestId: {next(_request_ids):032x}\r\n"
            f"{error}"
            f"Content-Type: {reply.content_type}\r\n"
            f"{length}\r\n"
            f"{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n"
        )
        body = reply.body if reply.events is None else _chunk(reply.body)
        body = body if reply.keep is None else body[: int(len(body) * reply.keep)]
        transport.write(head.encode("latin-1", "replace") + body)
        if reply.events is not None and reply.keep is None:
            self._events = reply.events
            self._go_on(close)
        elif close:
            transport.close()

    def _go_on(self, close: bool) -> None:
        """Send the events that are there, and look again later."""
        while self._transport is not None and self._events is not None and not self._full:
            event = self._events.next_event()
            if event is None:
                break
            if event.delay:
                asyncio.get_running_loop().call_later(event.delay, self._send_late, event, close)
                return
            self._send(event, close)
        if self._transport is not None and self._events is not None:
            asyncio.get_running_loop().call_later(LOOK_EVERY, self._go_on, close)

    def _send_late(self, event: Event, close: bool) -> None:
        self._send(event, close)
        self._go_on(close)

    def _send(self, event: Event, close: bool) -> None:
        transport = self._transport
        if transport is None:
            return
        if event.reset or event.keep is not None:
            self._stop_events()
            if event.reset:
                self._reset()
            else:
                transport.write(_chunk(event.body)[: int(len(event.body) * (event.keep or 0))])
                transport.close()
            return
        if event.body:
            transport.write(_chunk(event.body))
        if event.last:
            transport.write(_chunk(b""))
            self._events = None
            if close:
                transport.close()
            else:
                asyncio.get_running_loop().call_soon(self._advance)

    def _stop_events(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def _reset(self) -> None:
        transport = self._transport
        assert transport is not None
        raw = cast(socket.socket, transport.get_extra_info("socket"))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        transport.abort()


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
