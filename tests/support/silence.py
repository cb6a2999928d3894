# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that can fall silent: it still accepts, and keepalives are answered, but nobody gets an answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.support.ports import LOOPBACK

#: What falls silent: nothing, the answers only, or both ways.
SPEAKS, NO_ANSWERS, SILENT = "speaks", "no answers", "silent"


class SilentProxy:
    """Passes bytes on to ``upstream``, a port on loopback; without one it only ever accepts."""

    def __init__(self, upstream: int | None = None) -> None:
        self.mode = SILENT if upstream is None else SPEAKS
        #: Connections that were made to it.
        self.accepted = 0
        self._upstream = upstream
        self._server = socket.create_server((LOOPBACK, 0))
        self.port: int = self._server.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self.accepted += 1
                self._open.append(client)
                if self._upstream is None:
                    continue
                server = socket.create_connection((LOOPBACK, self._upstream))
                self._open.append(server)
                for source, sink, muted in ((client, server, (SILENT,)), (server, client, (SILENT, NO_ANSWERS))):
                    threading.Thread(target=self._pass_on, args=(source, sink, muted), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, muted: tuple[str, ...]) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                if self.mode not in muted:
                    sink.sendall(content)
            sink.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def silent_proxy(upstream: int | None = None) -> Iterator[SilentProxy]:
    """A proxy that is closed, with all of its connections, at the end of the block."""
    proxy = SilentProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
