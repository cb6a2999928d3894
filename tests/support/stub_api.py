# SPDX-License-Identifier: Apache-2.0
"""A server on loopback that answers JSON as a test says, and keeps every request."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.ports import LOOPBACK


@dataclass(frozen=True)
class Request:
    """What a client sent; ``path`` is without the query, and ``body`` is ``None`` without one."""

    method: str
    path: str
    query: dict[str, str]
    body: Any = None


#: Answers a request: a status, and JSON or a text. ``None`` is 404.
Answers = Callable[[Request], "tuple[int, Any] | None"]


@dataclass
class StubApi:
    """A running server and what it was asked."""

    port: int
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def sent(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests to a path that ends so, in their order."""
        return [each.body for each in self.requests if each.method == method and each.path.endswith(path)]


@contextlib.contextmanager
def stub_api(answers: Answers) -> Iterator[StubApi]:
    """Runs a server for the length of the block."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            parts = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            asked = Request(self.command, parts.path, dict(parse_qsl(parts.query)), body)
            with lock:
                api.requests.append(asked)
                status, found = answers(asked) or (404, {"message": f"nothing at {asked.method} {asked.path}"})
            text = found if isinstance(found, str) else json.dumps(found)
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(found, str) else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    api = StubApi(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
