# SPDX-License-Identifier: Apache-2.0
"""What a task asks a Spark Connect server: read by pyspark's own messages, and bounded where nobody answers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyspark.sql.connect.proto import base_pb2_grpc

from scripts.environment import python_path
from shardbatch.submit import connect, connect_session
from shardbatch.submit.connect import Server, Session
from shardbatch.submit.connect_calls import CallFailed, calls
from tests.unit.submit.connect_server import Sessions, running


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def server(sessions: Sessions) -> Iterator[Server]:
    with running(sessions) as started:
        yield started


@pytest.fixture
def silent() -> Iterator[Server]:
    """A port that takes connections and never answers, as behind a firewall."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield Server("127.0.0.1", taken.getsockname()[1], "ann")


def test_a_session_is_opened_and_configured_for_its_user(server: Server, sessions: Sessions) -> None:
    session = connect.draw(server)
    with calls(server, session) as made:
        opened = made.open()
        made.configure({"spark.sql.shuffle.partitions": "3", "spark.x": "\u00e4" * 200})
    assert (opened.spark_version, opened.server_session) == ("4.2.0", "first")
    assert sessions.open == {("ann", session.session_id)}
    assert sessions.conf == {"spark.sql.shuffle.partitions": "3", "spark.x": "\u00e4" * 200}
    assert {request.client_type for request, _ in sessions.seen} == {"shardbatch"}


@pytest.mark.parametrize("known", [True, False], ids=["open", "not yet opened"])
def test_an_ended_session_is_refused_from_then_on_also_to_who_comes_only_then(
    server: Server, sessions: Sessions, known: bool
) -> None:
    session = connect.draw(server)
    with calls(server, session) as made:
        if known:
            made.open()
        made.end()
        with pytest.raises(CallFailed) as refused:
            made.open()
        made.end()  # again is nothing
    assert refused.value.closed
    assert sessions.interrupted == [session.session_id]


def test_what_became_of_a_recorded_session_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", f'{{"conn_type": "spark_connect", "host": "{server.host}"}}')
    session = connect.draw(server)
    assert connect_session.end(server, session).over
    for other in (Session("elsewhere", 7, "ann", session.session_id), Session(server.host, server.port, "bob", "7")):
        ending = connect_session.end(server, other)
        assert (ending.over, "another server or user" in ending.said) == (False, True)
    ending = connect_session.end_recorded(session.reference, "connect")
    assert (ending.over, "another server or user" in ending.said) == (False, True)  # the connection has another port
    ending = connect_session.end_recorded(session.reference, "nowhere")
    assert (ending.over, "cannot be ended from here" in ending.said) == (False, True)


def test_no_call_waits_longer_than_its_deadline_for_a_server_that_does_not_answer(silent: Server) -> None:
    began = time.monotonic()
    with calls(silent, connect.draw(silent)) as made:
        for call in (made.open, made.end):
            with pytest.raises(CallFailed) as failed:
                call(0.2)
            assert failed.value.code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    assert time.monotonic() - began < 5


def test_a_session_whose_server_does_not_answer_is_fenced_and_not_over(
    silent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardbatch.submit.connect_calls.Calls.end.__defaults__", (0.2,))
    ending = connect_session.end(silent, connect.draw(silent))
    assert (ending.over, ending.silent) == (False, True)
    assert "could not be ended (DEADLINE_EXCEEDED" in ending.said
    assert "it is fenced" in ending.said


def test_a_token_is_never_sent_in_plain_text(server: Server, sessions: Sessions) -> None:
    with_token = Server(server.host, server.port, server.user, token="k")
    with calls(with_token, connect.draw(server)) as made, pytest.raises(CallFailed):
        made.open(0.5)
    assert sessions.seen == []


def test_a_token_goes_with_every_call(sessions: Sessions) -> None:
    with running(sessions, "k1") as server:
        session = connect.draw(server)
        with calls(server, session) as made:
            made.open()
            made.end()
    assert [headers["authorization"] for _, headers in sessions.seen] == ["Bearer k1"] * 3
    assert "k1" not in str([request for request, _ in sessions.seen])


def test_a_connection_is_encrypted_where_the_connection_says_so(sessions: Sessions, tmp_path: Path) -> None:
    key, certificate = self_signed("localhost")
    (tmp_path / "roots.pem").write_bytes(certificate)
    made = grpc.server(ThreadPoolExecutor(1))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(sessions, made)
    port = made.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, certificate)]))
    made.start()
    code = (
        "from shardbatch.submit.connect import Server, draw\n"
        "from shardbatch.submit.connect_calls import calls\n"
        f"server = Server('localhost', {port}, 'ann', 'k1', True)\n"
        "with calls(server, draw(server)) as made:\n"
        "    print(made.open().spark_version)\n"
    )
    # gRPC reads its roots once in a process.
    env = {**os.environ, "PYTHONPATH": python_path(), "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "roots.pem")}
    try:
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    finally:
        made.stop(None).wait()
    assert done.stdout == "4.2.0\n", done.stderr
    assert sessions.seen[0][1]["authorization"] == "Bearer k1"


def self_signed(host: str) -> tuple[bytes, bytes]:
    """A key and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    plain = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return plain, built.public_bytes(serialization.Encoding.PEM)
