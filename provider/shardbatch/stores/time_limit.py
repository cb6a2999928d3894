# SPDX-License-Identifier: Apache-2.0
"""A limit on how long a call of a SQL database may take, whatever is silent: the database, or a proxy before it.

PostgreSQL's driver waits for an answer without end, and keepalives are answered by a proxy. So a call that overruns has
its connection shut down, which ends the wait with an error of the driver, as a database that goes away does. The
outcome of a write is unknown then, as after any lost answer.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

#: Seconds that one call may take unless a caller sets another limit.
DEFAULT_S = 30.0


def driver_limits(dialect: str, seconds: float) -> dict[str, Any]:
    """The arguments by which a driver limits its waits itself."""
    whole = max(2, math.ceil(seconds))  # libpq takes one second for two
    if dialect == "postgresql":
        return {"connect_timeout": whole}
    if dialect in ("mysql", "mariadb"):
        return {"connect_timeout": whole, "read_timeout": whole, "write_timeout": whole}
    return {}


class TimeLimit:
    """Shuts down the connections of calls that overrun; may be used by many threads.

    :param engine: its connections are watched from now on.
    :param seconds: what one call may take; :data:`math.inf`: no limit.
    """

    def __init__(self, engine: sa.Engine, seconds: float) -> None:
        self.seconds = seconds
        self._watched = math.isfinite(seconds) and engine.dialect.name == "postgresql"
        self._here = threading.local()
        if self._watched:
            # Before all others: what SQLAlchemy asks a new connection may be left without an answer, too.
            sa.event.listen(engine, "connect", self._takes, insert=True)
            sa.event.listen(engine, "checkout", lambda connection, record, _: self._takes(connection, record))

    def _takes(self, connection: Any, _record: Any) -> None:
        call: _Call | None = getattr(self._here, "call", None)
        if call is not None:
            call.takes(connection)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """One call of the database, within this block and thread."""
        if not self._watched or getattr(self._here, "call", None) is not None:
            yield
            return
        call = _Call()
        self._here.call = call
        timer = threading.Timer(self.seconds, call.cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            call.ends()
            self._here.call = None


class _Call:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[Any] = []
        self._cut = False

    def takes(self, connection: Any) -> None:
        with self._lock:
            self._connections.append(connection)
            if self._cut:  # its time was over before it had this one
                _shut_down(connection)

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            for connection in self._connections:
                _shut_down(connection)

    def ends(self) -> None:
        """From now on others may have the connections."""
        with self._lock:
            self._connections.clear()


def _shut_down(connection: Any) -> None:
    # The driver keeps its own descriptor, so that no other file gets that number while it waits on it.
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as mine:
        mine.shutdown(socket.SHUT_RDWR)
