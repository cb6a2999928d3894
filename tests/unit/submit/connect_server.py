# SPDX-License-Identifier: Apache-2.0
"""A gRPC server with the sessions of Spark Connect and nothing else; it reads what arrives with pyspark's messages."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from shardbatch.submit.connect import Server


class Sessions(base_pb2_grpc.SparkConnectServiceServicer):
    """Like Spark 4.2: an unknown session is made by a call about it, and only a known one is closed for good."""

    def __init__(self) -> None:
        self.port = 0
        self.refusal = ""
        self.generation = "first"
        self.open: set[tuple[str, str]] = set()
        self.closed: set[tuple[str, str]] = set()
        self.interrupted: list[str] = []
        self.conf: dict[str, str] = {}
        self.seen: list[Any] = []

    def _key(self, request: Any, context: Any) -> tuple[str, str]:
        self.seen.append((request, dict(context.invocation_metadata())))
        return request.user_context.user_id, request.session_id

    def _known(self, request: Any, context: Any) -> None:
        key = self._key(request, context)
        if key in self.closed:
            context.abort(grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_CLOSED] Session was closed.")
        self.open.add(key)

    def AnalyzePlan(self, request: Any, context: Any) -> Any:
        self._known(request, context)
        assert request.WhichOneof("analyze") == "spark_version"
        version = base_pb2.AnalyzePlanResponse.SparkVersion(version="4.2.0")
        return base_pb2.AnalyzePlanResponse(
            session_id=request.session_id, server_side_session_id=self.generation, spark_version=version
        )

    def Config(self, request: Any, context: Any) -> Any:
        self._known(request, context)
        if self.refusal:
            context.abort(grpc.StatusCode.INTERNAL, self.refusal)
        self.conf.update({pair.key: pair.value for pair in request.operation.set.pairs})
        return base_pb2.ConfigResponse(session_id=request.session_id)

    def Interrupt(self, request: Any, context: Any) -> Any:
        self._known(request, context)
        assert request.interrupt_type == base_pb2.InterruptRequest.INTERRUPT_TYPE_ALL
        self.interrupted.append(request.session_id)
        return base_pb2.InterruptResponse(session_id=request.session_id)

    def ReleaseSession(self, request: Any, context: Any) -> Any:
        key = self._key(request, context)
        if key in self.open:
            self.open.remove(key)
            self.closed.add(key)
        return base_pb2.ReleaseSessionResponse(session_id=request.session_id)


@contextmanager
def running(sessions: Sessions, token: str = "") -> Iterator[Server]:
    """Serves on a free loopback port; with a token, to processes of this host only."""
    made = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(sessions, made)
    host = "localhost" if token else "127.0.0.1"
    local = grpc.local_server_credentials()
    port = made.add_secure_port("localhost:0", local) if token else made.add_insecure_port("127.0.0.1:0")
    made.start()
    try:
        yield Server(host, port, "ann", token)
    finally:
        made.stop(None).wait()
