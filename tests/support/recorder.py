# SPDX-License-Identifier: Apache-2.0
"""A server that writes down who asked it for what. It answers as an empty S3 does, unless told otherwise, and is a
forward proxy as well: for ``http://`` it answers itself, for ``https://`` it passes the connection on to ``behind``.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.authority import Authority
from tests.support.ports import LOOPBACK

_LIST = "<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
_BEGUN = "<InitiateMultipartUploadResult><UploadId>u-1</UploadId></InitiateMultipartUploadResult>"
_DONE = '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'


@dataclass(frozen=True)
class Asked:
    """One request; ``target`` as it stood in its first line, ``headers`` in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def host(self) -> str:
        """The host that the caller meant."""
        return self.headers.get("host", "").partition(":")[0]

    @property
    def path(self) -> str:
        """Path and query."""
        parts = urlsplit(self.target)
        return parts.path + ("?" + parts.query if parts.query else "")

    @property
    def signed(self) -> tuple[str, str]:
        """Access key and region of the signature."""
        found = re.search(r"Credential=([^/]+)/\d+/([^/]+)/", self.headers.get("authorization", ""))
        assert found, self.headers
        return found.group(1), found.group(2)


@dataclass(frozen=True)
class Answer:
    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def empty_s3(asked: Asked) -> Answer:
    """As a bucket in which nothing stands, and as a Kinesis without streams."""
    if "x-amz-target" in asked.headers:
        return Answer(200, '{"StreamNames": [], "HasMoreStreams": false, "TableNames": []}')
    if asked.method == "POST":
        return Answer(200, _BEGUN if asked.path.endswith("?uploads") else _DONE)
    if asked.method == "GET" and "list-type" in asked.path:
        return Answer(200, _LIST)
    if asked.method == "PUT":
        return Answer(200, headers={"ETag": '"e"'})
    return Answer(204 if asked.method == "DELETE" else 404)


class Recorder:
    """Listens on loopback; ``asked`` has all requests so far, ``passed_on`` the hosts of passed connections."""

    def __init__(
        self,
        answer: Callable[[Asked], Answer | None] = lambda asked: None,
        authority: Authority | None = None,
        behind: int | None = None,
    ) -> None:
        self.asked: list[Asked] = []
        self.passed_on: list[str] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                recorder.asked.append(asked)
                given = answer(asked) or empty_s3(asked)
                content = given.body.encode()
                self.send_response(given.status)
                for name, value in {"Content-Length": str(len(content)), **given.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

            def do_CONNECT(self) -> None:
                recorder.passed_on.append(self.path)
                with socket.create_connection((LOOPBACK, behind or 0)) as server:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=_pump, args=(server, self.connection), daemon=True)
                    back.start()
                    _pump(self.connection, server)
                    back.join()
                self.close_connection = True

            def log_message(self, *words: object) -> None: ...

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        if authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(authority.certificate, authority.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"{'https' if authority else 'http'}://{LOOPBACK}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            sink.sendall(content)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def recorder(
    answer: Callable[[Asked], Answer | None] = lambda asked: None,
    authority: Authority | None = None,
    behind: int | None = None,
) -> Iterator[Recorder]:
    """A recorder that is closed at the end of the block."""
    found = Recorder(answer, authority, behind)
    try:
        yield found
    finally:
        found.close()
