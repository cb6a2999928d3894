# SPDX-License-Identifier: Apache-2.0
"""The server of a Spark Connect connection, the session of a try, and the URL with which its script gets there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, ConnectionUnknown
from shardbatch.submit import connect
from shardbatch.submit.connect import Server, Session

ID = "2f084e41-e2dc-45ed-b058-c0b0fabb35bd"


def server(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Server:
    monkeypatch.delenv(connect.TOKEN_VARIABLE, raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", json.dumps({"conn_type": "spark_connect", **fields}))
    return connect.server_of("connect")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"host": "spark.example"}, Server("spark.example", 15002)),
        ({"host": "spark.example", "port": 7}, Server("spark.example", 7)),
        ({"host": "sc://spark.example:9"}, Server("spark.example", 9)),
        ({"host": "[::1]", "port": 7}, Server("[::1]", 7)),
        ({"host": "2001:db8::1", "port": 7}, Server("[2001:db8::1]", 7)),
        ({"host": "::1"}, Server("[::1]", 15002)),
        ({"host": "s", "login": "ann", "password": "k"}, Server("s", 15002, "ann", "k")),
        ({"host": "s", "extra": {"use_ssl": True}}, Server("s", 15002, use_ssl=True)),
        ({"host": "s", "extra": {"use_ssl": "false"}}, Server("s", 15002)),
    ],
)
def test_the_fields_of_a_connection_mean_what_they_mean_to_the_provider(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], wanted: Server
) -> None:
    assert server(monkeypatch, **fields) == wanted


@pytest.mark.parametrize(
    "host",
    [
        *("", "https://spark.example", "sc://spark.example/path", "sc://ann:secret@spark", "s:x", "fe80::1%eth0"),
        *("sc://[::1", "spark example", "spark;token=secret", "spark?token=secret", "a,b"),
    ],
)
@pytest.mark.parametrize("port", [None, 7])
def test_a_connection_that_names_no_server_is_refused_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, host: str, port: int | None
) -> None:
    with pytest.raises(ConfigurationError, match="names no Spark Connect server") as caught:
        server(monkeypatch, host=host, port=port)
    assert "secret" not in str(caught.value)


def test_a_connection_that_is_missing_or_of_another_type_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConnectionUnknown, match=r"no Spark Connect connection 'nowhere'.*type Spark Connect"):
        connect.server_of("nowhere")
    with pytest.raises(ConfigurationError, match=r"'generic'.*\[spark\]"):
        server(monkeypatch, conn_type="generic", host="s")
    with pytest.raises(ConfigurationError, match=r"'spark', not spark_connect.*SparkSubmitBatchOperator"):
        server(monkeypatch, conn_type="spark", host="local[2]")


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    connect.require_packages()
    with pytest.raises(ConfigurationError, match=r"packages pyspark-client, zigzag, .*\[spark\]"):
        connect.require_packages({"pyspark.sql.disconnect": "pyspark-client", "zigzag": "zigzag", "grpc": "grpcio"})


def test_each_try_draws_a_session_of_its_own_for_the_user_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    of_server = Server("spark.example", 7, "ann")
    first, second = connect.draw(of_server), connect.draw(of_server)
    assert first.session_id != second.session_id
    assert (first.host, first.port, first.user) == ("spark.example", 7, "ann")
    monkeypatch.setenv("SPARK_USER", "worker")
    assert connect.draw(Server("spark.example", 7)).user == "worker"


@pytest.mark.parametrize("user", ["ann", "", "a:b", "a; b", "j\u00f6rg@example"])
@pytest.mark.parametrize("host", ["spark.example", "[::1]"])
def test_a_reference_leads_back_to_its_session_also_from_a_batch_row(host: str, user: str) -> None:
    session = Session(host, 15002, user, ID)
    assert connect.parse(session.reference) == session
    batch = Batch(Namespace("etl", "orders"), "", "b1", "me", 5, BatchState.FROZEN, attempt=1)
    batch = batches.heartbeat(batches.heartbeat(batch, 1, "yarn:a", "t.one"), 1, session.reference, "t.two")
    assert [item.name for item in batch.spark_applications[1]] == [session.reference, "yarn:a"]


@pytest.mark.parametrize(
    "text", ["client:host:7", f"connect:host:x:ann:{ID}", "connect:host:7:ann:", f"connect:host:ann:{ID}", ""]
)
def test_another_text_is_no_session(text: str) -> None:
    assert connect.parse(text) is None


def test_the_token_is_in_the_url_of_the_script_and_nowhere_else() -> None:
    of_server = Server("spark.example", 7, "ann", token="k=1;/x", use_ssl=True)
    session = connect.draw(of_server)
    assert connect.remote(of_server, session) == (
        f"sc://spark.example:7/;user_id=ann;session_id={session.session_id};token=k%3D1%3B%2Fx;use_ssl=true"
    )
    assert "k=1" not in f"{of_server!r} {session.reference}"
    plain = Server("spark.example", 7)
    assert connect.remote(plain, Session("spark.example", 7, "a b", ID)) == (
        f"sc://spark.example:7/;user_id=a%20b;session_id={ID}"
    )


@pytest.mark.parametrize(
    ("session", "wanted"),
    [
        (Session("s", 7, "ann", ID), True),
        (Session("t", 7, "ann", ID), False),
        (Session("s", 8, "ann", ID), False),
        (Session("s", 7, "bob", ID), False),
    ],
)
def test_only_the_server_and_user_of_a_session_are_asked_to_end_it(session: Session, wanted: bool) -> None:
    assert session.at(Server("s", 7, "ann", "token")) is wanted
    assert session.at(Server("s", 7)) is (session.host == "s" and session.port == 7)
