# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 with kept connections: as much of it as clients of the API need."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import cast

MOST_HEAD_BYTES = 64 * 1024
MOST_BODY_BYTES = 32 * 1024 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_request_ids = count(1)


@dataclass(frozen=True)
class HttpRequest:
    """A request as read; header names are lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpReply:
    """An answer to write, and what goes wrong on the way: ``delay`` in seconds, ``keep`` of the body, ``reset``."""

    status: int
    body: bytes
    content_type: str = "application/x-amz-json-1.1"
    error: str | None = None
    delay: float = 0.0
    keep: float | None = None
    reset: bool = False


class Connection(asyncio.Protocol):
    """One connection: requests are answered one after the other."""

    def __init__(self, handle: Callable[[HttpRequest], HttpReply], connections: set[Connection]) -> None:
        self._handle = handle
        self._connections = connections
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str], int] | None = None
        self._delayed = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of asyncio.Protocol."""
        self._transport = None
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Part of asyncio.Protocol."""
        self._buffer += data
        self._advance()

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _advance(self) -> None:
        while self._transport is not None and not self._delayed:
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
        if transport is None:
            return
        if reply.reset:
            raw = cast(socket.socket, transport.get_extra_info("socket"))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            transport.abort()
            return
        close = close or reply.keep is not None
        error = f"x-amzn-ErrorType: {reply.error}\r\n" if reply.error else ""
        head = (
            f"HTTP/1.1 {reply.status} {_reason(reply.status)}\r\n"
            f"x-amzn-RequestId: {next(_request_ids):032x}\r\n"
            f"{error}"
            f"Content-Type: {reply.content_type}\r\n"
            f"Content-Length: {len(reply.body)}\r\n"
            f"{'Connection: close' + chr(13) + chr(10) if close else ''}\r\n"
        )
        body = reply.body if reply.keep is None else reply.body[: int(len(reply.body) * reply.keep)]
        transport.write(head.encode("latin-1", "replace") + body)
        if close:
            transport.close()


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
