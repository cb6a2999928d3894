# SPDX-License-Identifier: Apache-2.0
"""Connections: what passes by waiting is tried again, and what a SQL connection's extra asks for reaches the driver."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from shardbatch import SQLLeases
from shardbatch.errors import ConfigurationError, ConnectionUnknown
from shardbatch.hooks import connections
from shardbatch.hooks.connections import aws_client, aws_hook, connection, sql_target
from shardbatch.hooks.sql_fields import driver_fields
from shardbatch.operators.step import final_errors

Connect = Callable[..., None]


def answering(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def get_connection(_: str) -> Any:
        raise error

    monkeypatch.setattr(BaseHook, "get_connection", get_connection)


@pytest.mark.parametrize(
    "error",
    [AirflowNotFoundException("not defined"), ConnectionError("vault is away"), RuntimeError("API server: 503")],
)
def test_a_connection_that_cannot_be_had_is_tried_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    answering(monkeypatch, error)
    for ask in (lambda: connection("db"), SQLLeases("db").open, SQLLeases("db").shared):
        with pytest.raises(ConnectionUnknown, match=r"'db'.*tried again"), final_errors():
            ask()


def test_a_connection_that_may_not_be_read_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, PermissionError("denied"))
    with pytest.raises(AirflowFailException, match="may not read"), final_errors():
        connection("db")


def test_what_a_secrets_backend_says_is_not_repeated_with_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ValueError("cannot read postgresql://me:s3cr3t@db"))
    with pytest.raises(ConnectionUnknown) as caught:
        connection("db")
    assert "s3cr3t" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_an_aws_connection_is_asked_for_once(connection: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    connection("aws", conn_type="aws", login="AKIDEXAMPLE", password="hidden", extra={"region_name": "eu-west-1"})
    hook = aws_hook("kinesis", "aws", None)
    answering(monkeypatch, AirflowNotFoundException("for a moment"))
    assert hook.conn_config.aws_access_key_id == "AKIDEXAMPLE"
    with pytest.raises(ConnectionUnknown):
        aws_client("kinesis", "aws", None)


def mysqlclient(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """It is installed, over this version of a library."""
    for name in ("MySQLdb", "MySQLdb._mysql"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(get_client_info=lambda: library))


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All drivers are installed, in versions of today, mysqlclient with MySQL's own library."""
    mysqlclient(monkeypatch, "9.7.0")
    monkeypatch.setattr(connections, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(connections, "version", lambda _: "1.2.4")


@pytest.mark.parametrize(
    ("extra", "query", "arguments"),
    [
        ({"sslmode": "verify-full", "sslrootcert": "/ca"}, {"sslmode": "verify-full", "sslrootcert": "/ca"}, {}),
        ({"sslpassword": "s3cr3t", "sslkey": "/key"}, {"sslkey": "/key"}, {"sslpassword": "s3cr3t"}),
        ({"sqlalchemy_query": {"sslmode": "require"}}, {"sslmode": "require"}, {}),
        (
            {"connect_timeout": 7, "require_auth": "scram-sha-256"},
            {"connect_timeout": "7", "require_auth": "scram-sha-256"},
            {},
        ),
        ({"cursor": "dictcursor", "iam": False, "team": "lake", "ssl": False}, {}, {}),
    ],
)
def test_fields_of_postgresql(extra: dict[str, Any], query: dict[str, str], arguments: dict[str, Any]) -> None:
    found = driver_fields("postgresql", "psycopg", extra, "db")
    assert (found.query, found.arguments) == (query, arguments)
    assert "s3cr3t" not in repr(found)


@pytest.mark.parametrize(
    ("database", "extra", "named"),
    [
        ("postgresql", {"ssl": True}, "'ssl'.*sslmode"),
        ("postgresql", {"ssl_mode": "verify-full"}, "'ssl_mode'.*sslmode"),
        ("postgresql", {"ssl_ca": "/ca"}, "'ssl_ca'.*sslrootcert"),
        ("postgresql", {"sslrootcrt": "/ca"}, "'sslrootcrt'"),
        ("postgresql", {"sqlalchemy_query": {"tls": "1"}}, "'tls'"),
        ("postgresql", {"auth_plugin": "x"}, "'auth_plugin'"),
        ("postgresql", {"azure_oauth_scope": "x"}, "'azure_oauth_scope'"),
        ("mysql", {"sslmode": "require"}, "'sslmode'.*ssl_mode"),
        ("mysql", {"sslrootcert": "/ca"}, "'sslrootcert'.*ssl_ca"),
        ("mysql", {"ssl_mode": "PREFERRED"}, "'ssl_mode'.*REQUIRED"),
        ("mysql", {"ssl_mode": "VERIFY_IDENTITY"}, "ssl_ca"),
        ("mysql", {"ssl": {"crl": "/x"}}, "'ssl: crl'"),
        ("mysql", {"ssl": "{not json"}, "JSON"),
        ("postgresql", {"iam": True, "redshift": True}, "'redshift'.*RDS"),
        ("postgresql", {"iam": True, "redshift-serverless": "true"}, "'redshift-serverless'"),
        ("postgresql", {"iam": True, "workgroup-name": "w"}, "'workgroup-name'"),
        ("postgresql", {"iam": True, "azure_conn_id": "azure"}, "'azure_conn_id'"),
        ("postgresql", {"redshift": True}, "'redshift'"),
        ("mysql", {"auth_plugin_map": "x"}, "'auth_plugin_map'"),
        ("mysql", {"read_timeout": "soon"}, "read_timeout"),
        ("mysql", {"connect_timeout": -1}, "connect_timeout"),
    ],
)
def test_a_field_that_cannot_be_handed_on_is_refused_by_name(database: str, extra: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as caught:
        driver_fields(database, "psycopg" if database == "postgresql" else "pymysql", extra, "db")
    assert caught.value.remedy


@pytest.mark.parametrize(
    "name",
    [
        *("authenticator", "oauth2_scope", "authority", "authorization", "authType", "sign_in", "signing_key"),
        *("requireSigning", "SIGNED", "signature", "sig", "iam_role", "useIAM", "awsIamRole", "useiam"),
    ],
)
@pytest.mark.parametrize("database", ["postgresql", "mysql"])
def test_a_field_of_sign_in_is_refused(database: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}'"):
        driver_fields(database, "psycopg" if database == "postgresql" else "pymysql", {name: "x"}, "db")


@pytest.mark.parametrize(
    "name", ["author", "authored_by", "Authors", "assigned_to", "design", "signal", "miami", "diameter"]
)
@pytest.mark.parametrize("database", ["postgresql", "mysql"])
def test_a_field_that_only_sounds_like_sign_in_is_passed_over(database: str, name: str) -> None:
    found = driver_fields(database, "psycopg" if database == "postgresql" else "pymysql", {name: "x"}, "db")
    assert (found.query, found.arguments) == ({}, {})


VERIFIED = {"ssl": {"ca": "/ca", "verify_mode": True, "check_hostname": True}}
ENCRYPTED = {"ssl": {"verify_mode": False, "check_hostname": False}}


@pytest.mark.parametrize(
    ("extra", "pymysql", "mysqlclient"),
    [
        ({"ssl_ca": "/ca"}, VERIFIED, {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca"}}),
        ({"ssl": {"ca": "/ca"}}, VERIFIED, {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca"}}),
        ({"ssl": json.dumps({"ca": "/ca"})}, VERIFIED, {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca"}}),
        ({"ssl": True}, ENCRYPTED, {"ssl_mode": "REQUIRED"}),
        ({"ssl_mode": "required"}, ENCRYPTED, {"ssl_mode": "REQUIRED"}),
        ({"ssl_mode": "DISABLED", "ssl_ca": "/ca"}, {"ssl_disabled": True}, {"ssl_mode": "DISABLED"}),
        (
            {"ssl_mode": "verify-identity", "ssl_ca": "/ca"},
            VERIFIED,
            {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca"}},
        ),
        (
            {"ssl_mode": "VERIFY_CA", "ssl_ca": "/ca", "ssl_cert": "/c", "ssl_key": "/k"},
            {"ssl": {"ca": "/ca", "cert": "/c", "key": "/k", "verify_mode": True, "check_hostname": False}},
            {"ssl_mode": "VERIFY_CA", "ssl": {"ca": "/ca", "cert": "/c", "key": "/k"}},
        ),
        (
            {"ssl_ca": "/ca", "ssl_check_hostname": "false"},
            {"ssl": {"ca": "/ca", "verify_mode": True, "check_hostname": False}},
            {"ssl_mode": "VERIFY_CA", "ssl": {"ca": "/ca"}},
        ),
        ({"ssl": False}, {}, {}),
        ({"charset": "utf8mb4"}, {}, {}),
        (
            {"read_timeout": "7", "write_timeout": 8},
            {"read_timeout": 7, "write_timeout": 8},
            {"read_timeout": 7, "write_timeout": 8},
        ),
    ],
)
def test_fields_of_mysql(extra: dict[str, Any], pymysql: dict[str, Any], mysqlclient: dict[str, Any]) -> None:
    assert driver_fields("mysql", "pymysql", extra, "db").arguments == pymysql
    assert driver_fields("mariadb", "MySQLdb", extra, "db").arguments == mysqlclient


def test_a_mysql_connection_reaches_its_driver(connection: Connect, drivers: None) -> None:
    extra = {"ssl_ca": "/ca", "read_timeout": 7, "charset": "utf8mb4"}
    connection("db", conn_type="mysql", host="db", login="u", password="s3cr3t", schema="leases", extra=extra)
    target = sql_target("db")
    assert target.url.render_as_string(hide_password=True) == "mysql+pymysql://u:***@db/leases?charset=utf8mb4"
    assert target.arguments == {**VERIFIED, "read_timeout": 7}
    assert "s3cr3t" not in repr(target)


@pytest.mark.parametrize(
    ("installed", "refused"), [("1.1.3", True), ("0.10.1", True), ("1.2.0", False), ("2.0", False)]
)
def test_a_driver_that_goes_on_in_plain_text_is_refused(
    connection: Connect, monkeypatch: pytest.MonkeyPatch, installed: str, refused: bool
) -> None:
    only = ModuleSpec("pymysql", None)
    monkeypatch.setattr(connections, "find_spec", lambda name: only if name == "pymysql" else None)
    monkeypatch.setattr(connections, "version", lambda _: installed)
    connection("plain", conn_type="mysql", host="db")
    sql_target("plain")
    connection("db", conn_type="mysql", host="db", extra={"ssl_mode": "REQUIRED"})
    if not refused:
        sql_target("db")
        return
    with pytest.raises(ConfigurationError, match=rf"PyMySQL {installed}.*1\.2 or later"):
        sql_target("db")


def test_a_driver_of_another_library_is_taken_for_encryption(
    connection: Connect, drivers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's mysql provider brings PyMySQL 1.1 beside mysqlclient."""
    monkeypatch.setattr(connections, "version", lambda _: "1.1.3")
    connection("db", conn_type="mysql", host="db", extra={"ssl_mode": "REQUIRED"})
    target = sql_target("db")
    assert (target.url.drivername, target.arguments) == ("mysql+mysqldb", {"ssl_mode": "REQUIRED"})


@pytest.mark.parametrize(
    ("library", "refused"), [("3.3.19", True), ("10.6.4", True), ("8.0.46", False), ("26.7.0", False)]
)
def test_a_library_that_goes_on_in_plain_text_is_not_taken_for_encryption(
    connection: Connect, drivers: None, monkeypatch: pytest.MonkeyPatch, library: str, refused: bool
) -> None:
    mysqlclient(monkeypatch, library)
    monkeypatch.setattr(connections, "version", lambda _: "1.1.3")
    for extra in ({}, {"ssl_mode": "DISABLED"}, {"ssl_ca": "/ca"}, {"ssl_mode": "VERIFY_CA", "ssl_ca": "/ca"}):
        connection("db", conn_type="mysql", host="db", extra=extra)
        sql_target("db")
    for extra in ({"ssl": True}, {"ssl_mode": "REQUIRED"}, {"ssl_mode": "REQUIRED", "ssl_ca": "/ca"}):
        connection("db", conn_type="mysql", host="db", extra=extra)
        if not refused:
            sql_target("db")
            continue
        with pytest.raises(ConfigurationError, match=rf"MariaDB's library {library}.*plain text.*ssl_ca"):
            sql_target("db")


# Tokens of RDS


@pytest.fixture
def aws(connection: Connect) -> None:
    for name, key in (("aws_default", "AKIDDEFAULT"), ("aws_of_leases", "AKIDLEASES")):
        connection(name, conn_type="aws", login=key, password="hidden", extra={"region_name": "eu-west-1"})


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ({"iam": True}, "AKIDDEFAULT"),
        ({"iam": "true", "aws_conn_id": "aws_of_leases"}, "AKIDLEASES"),
        ({"iam": "false"}, None),
    ],
)
@pytest.mark.parametrize(("conn_type", "port"), [("postgres", 5432), ("mysql", 3306), ("mysql", 3307)])
def test_a_token_is_signed_for_host_port_and_login(
    connection: Connect,
    aws: None,
    drivers: None,
    conn_type: str,
    port: int,
    extra: dict[str, Any],
    key: str | None,
) -> None:
    given = {"port": port} if port == 3307 else {}
    connection("db", conn_type=conn_type, host="db.rds", login="etl", password="old", extra=extra, **given)
    target = sql_target("db")
    if key is None:
        assert (target.password, target.url.password) == (None, "old")
        return
    assert target.password is not None
    token = target.password()
    assert token.startswith(f"db.rds:{port}/?Action=connect&DBUser=etl&")
    assert f"X-Amz-Credential={key}%2F" in token
    assert "eu-west-1%2Frds-db" in token
    assert (target.url.port, target.url.password) == (port, None)
    encrypted = {"sslmode": "require"} if conn_type == "postgres" else {}
    assert (dict(target.url.query), bool(target.arguments)) == (encrypted, conn_type == "mysql")
    assert "Signature" not in repr(target)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("lake.cluster-ro-c1.us-gov-west-1.rds.amazonaws.com", "us-gov-west-1"),
        ("lake.c1.cn-north-1.rds.amazonaws.com.cn", "cn-north-1"),
        ("db.example.com", "eu-west-1"),
    ],
)
def test_a_token_is_signed_for_the_region_that_the_host_names(
    connection: Connect, aws: None, drivers: None, host: str, region: str
) -> None:
    connection("db", conn_type="postgres", host=host, login="etl", extra={"iam": True})
    target = sql_target("db")
    assert target.password is not None
    assert f"{region}%2Frds-db" in target.password()


def test_an_author_may_say_how_a_token_is_encrypted() -> None:
    for extra in ({"sslmode": "verify-full", "sslrootcert": "/ca"}, {"sslmode": "disable"}):
        assert driver_fields("postgresql", "psycopg", {"iam": True, **extra}, "db").query == extra
    assert driver_fields("mysql", "pymysql", {"iam": True, "ssl_ca": "/ca"}, "db").arguments == VERIFIED


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_field_that_is_left_blank_does_not_send_a_token_in_plain_text(nothing: Any) -> None:
    told = driver_fields("postgresql", "psycopg", {"iam": True, "sslmode": nothing}, "db")
    assert told.query == {"sslmode": "require"}
    for name in ("ssl", "ssl_ca", "ssl_mode"):
        assert driver_fields("mysql", "pymysql", {"iam": True, name: nothing}, "db").arguments["ssl"]


@pytest.mark.parametrize("extra", [{"ssl": False}, {"ssl_mode": "DISABLED"}, {"ssl": {"mode": "DISABLED"}}])
def test_mysql_is_sent_no_token_in_plain_text(extra: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"'db' asks for a token .* without encryption"):
        driver_fields("mysql", "pymysql", {"iam": True, **extra}, "db")


def test_a_token_that_cannot_be_had_is_refused_by_name(
    connection: Connect, aws: None, drivers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(match: str, **fields: Any) -> None:
        connection("db", **{"conn_type": "postgres", "host": "db", "login": "etl", "extra": {"iam": True}, **fields})
        with pytest.raises(ConfigurationError, match=match):
            sql_target("db")

    monkeypatch.setattr(connections, "version", lambda _: "1.1.3")
    refused("'iam'.*SQLite", conn_type="sqlite", host="/leases.db")
    refused("lacks its host or its login", login=None)
    refused("lacks its host or its login", host=None)
    refused(r"PyMySQL 1\.1\.3.*leave that out", conn_type="mysql")
    refused("no Airflow connection 'absent'", extra={"iam": True, "aws_conn_id": "absent"})
    with monkeypatch.context() as patch:
        patch.setattr(connections, "find_spec", lambda name: ModuleSpec(name, None) if name == "MySQLdb" else None)
        refused("'iam'.*PyMySQL 1.2", conn_type="mysql")
    monkeypatch.setitem(sys.modules, "airflow.providers.amazon.aws.hooks.base_aws", None)
    refused(r"shardbatch\[aws\]")


# Types


def test_a_generic_connection_is_told_what_it_is(connection: Connect) -> None:
    connection("leases", conn_type="generic", host="/leases.db")
    for ask in (SQLLeases("leases").open, SQLLeases("leases").shared):
        with pytest.raises(ConfigurationError, match=r"did not know the type.*\[sqlite\].*delete.*AIRFLOW_CONN_LEASES"):
            ask()
    with pytest.raises(ConfigurationError, match=r"did not know the type.*\[aws\].*AIRFLOW_CONN_LEASES"):
        aws_client("kinesis", "leases", None)


def test_the_extras_bring_the_types_of_their_connections() -> None:
    infos = [entry.load()() for entry in entry_points(group="apache_airflow_provider")]
    known = {each["connection-type"] for info in infos for each in info.get("connection-types", ())}
    assert {"aws", "spark", "postgres", "sqlite"} <= known
