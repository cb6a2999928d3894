# SPDX-License-Identifier: Apache-2.0
"""The stream server: starts, listens on loopback, stops."""

from __future__ import annotations

import asyncio
import threading
from ipaddress import ip_address
from types import TracebackType
from typing import Any

from shardbatch.local.api import Api
from shardbatch.local.calls import Calls
from shardbatch.local.clock import Clock
from shardbatch.local.control import PREFIX, Control
from shardbatch.local.dynamodb.control import TableControl
from shardbatch.local.engine import Engine
from shardbatch.local.event_stream import CONTENT_TYPE
from shardbatch.local.faults import Faults
from shardbatch.local.http import Connection, HttpReply, HttpRequest
from shardbatch.local.options import Options


def is_loopback(host: str) -> bool:
    """Whether ``host`` is the text of a loopback address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class StreamServer:
    """Kinesis and DynamoDB Streams on loopback, for tests and demonstrations.

    Everything is in memory and goes when it stops.

    Use it as a context manager::

        with StreamServer() as server:
            client = boto3.client("kinesis", endpoint_url=server.endpoint_url, region_name="us-east-1", …)

    :param port: port to listen on; default 0: a free one
    :param host: loopback address to listen on; default ``127.0.0.1``
    :param clock: time of the server; default the system's clock, which :meth:`Clock.advance` moves forward
    :param options: behaviour; default :class:`Options`. ``StreamServer(limits=True)`` is short for one option
    :raises ValueError: ``host`` is not a loopback address, or an unknown option
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        clock: Clock | None = None,
        options: Options | None = None,
        **changes: Any,
    ) -> None:
        if not is_loopback(host):
            raise ValueError(f"the stream server listens on a loopback address only, not on {host!r}; leave host out")
        self.engine = Engine(clock, options)
        """Streams and records; hold ``engine.lock`` while using it beside a running server."""
        self.options.update(**changes)
        self.faults = Faults()
        """What the next calls shall suffer."""
        self.calls = Calls()
        """What was called."""
        self._host = host
        self._port = port
        self._api = Api(self.engine, self.faults, self.calls)
        self.tables = TableControl(self._api.tables)
        """Tables, and the streams of their changes."""
        self._control = Control(self._api, self.tables)
        self._connections: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def clock(self) -> Clock:
        """Time of the server."""
        return self.engine.clock

    @property
    def options(self) -> Options:
        """Behaviour of the server; assign to its attributes at any time."""
        return self.engine.options

    @property
    def port(self) -> int:
        """Port that the server listens on, once started."""
        return self._port

    @property
    def endpoint_url(self) -> str:
        """What a client takes as ``endpoint_url``, once started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def start(self) -> StreamServer:
        """Listen; returns when calls are answered.

        :raises OSError: the port is taken
        :raises RuntimeError: the server runs already
        """
        if self._thread is not None:
            raise RuntimeError(f"the stream server already listens on {self.endpoint_url}; stop it first")
        loop = asyncio.new_event_loop()
        try:
            listener = loop.run_until_complete(
                loop.create_server(
                    lambda: Connection(self._handle, self.clock.now, self._connections),
                    self._host,
                    self._port,
                    backlog=1024,
                )
            )
        except BaseException:
            loop.close()
            raise
        self._port = listener.sockets[0].getsockname()[1]
        self._loop = loop
        self._thread = threading.Thread(target=self._run, args=(loop, listener), name="shardbatch-local", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close every connection and stop listening; stopping a stopped server does nothing."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        self._loop = self._thread = None

    def trim(self, stream: str, shard: str | None = None, *, region: str | None = None, **how: Any) -> int:
        """Drop records as if the retention had passed; returns how many went.

        :param stream: name of a stream in the default account
        :param shard: one shard only; default all
        :param region: the stream's; default that of the options
        :param how: ``before`` (sequence number), ``before_ms`` (arrival), or ``keep`` (so many newest); default all go.
            ``forget=True``: closed shards leave the listing too
        """
        with self.engine.lock:
            return self._api.records.trim(self.engine.find(self.engine.home(region=region), stream), shard, **how)

    def __enter__(self) -> StreamServer:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _run(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> None:
        try:
            loop.run_forever()
            listener.close()
            for connection in list(self._connections):
                connection.abort()
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()

    def _handle(self, request: HttpRequest) -> HttpReply:
        if request.path.startswith(PREFIX):
            return self._control.answer(request)
        if request.method != "POST":
            return HttpReply(404, b'{"__type":"UnknownOperationException","message":"calls are sent with POST"}')
        if "cbor" in request.headers.get("content-type", ""):
            return HttpReply(
                415,
                b'{"__type":"SerializationException","message":"this server speaks JSON; turn CBOR off in the client"}',
                error="SerializationException",
            )
        reply = self._api.answer(
            request.headers.get("x-amz-target", ""), request.body, request.headers.get("authorization", "")
        )
        events = reply.subscription
        content_type = reply.content_type if events is None else CONTENT_TYPE
        return HttpReply(
            reply.status, reply.body, content_type, reply.error, reply.delay, reply.keep, reply.reset, events
        )
