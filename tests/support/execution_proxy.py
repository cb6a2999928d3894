# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of Airflow's execution API that lets one question fail: the state of runs that a test names."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.ports import LOOPBACK

HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host", "content-encoding"}


class ExecutionProxy:
    """Passes everything on, but for runs in `refused`: a status to answer with, or `None` for never answering."""

    def __init__(self) -> None:
        self.upstream = ""
        self.refused: dict[str, int | None] = {}
        self.asked: list[str] = []
        self._ended = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                proxy._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = unquote(request.path)
        for run_id, status in self.refused.items():
            if path.endswith(f"/{run_id}/state"):
                self.asked.append(run_id)
                if status is None:
                    self._ended.wait(60)
                    request.close_connection = True
                    return
                self._send(request, status, b"application/json", json.dumps({"detail": "the test refuses"}).encode())
                return
        target = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(target.hostname or LOOPBACK, target.port, timeout=60)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
            headers["Accept-Encoding"] = "identity"
            connection.request(request.command, request.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
            request.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    request.send_header(name, value)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content)
        except OSError:
            request.close_connection = True  # the API server is not up yet, or going
        finally:
            connection.close()

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, status: int, kind: bytes, content: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind.decode())
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
