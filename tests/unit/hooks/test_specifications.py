# SPDX-License-Identifier: Apache-2.0
"""KinesisStream, the lease stores and Staging as an author writes them, and the connections behind them."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from shardbatch import (
    ClaimOptions,
    DynamoDBLeases,
    DynamoDBStream,
    KinesisStream,
    Policies,
    ReadLimits,
    SQLLeases,
    Staging,
    StreamView,
)
from shardbatch.core.position import LATEST, TRIM_HORIZON, at_timestamp
from shardbatch.errors import ConfigurationError
from shardbatch.hooks import settings
from shardbatch.hooks.connections import aws_client, connection, sql_target
from shardbatch.hooks.staging import s3_file_system
from shardbatch.kcl.connection import kcl_leases
from shardbatch.local import StreamServer
from shardbatch.stores import open_store
from tests.support.aggregates import FIXTURE

ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/orders"
TABLE = "arn:aws:dynamodb:eu-north-1:111122223333:table/shard.leases"
Connect = Callable[..., None]


def test_a_stream_by_name_or_arn() -> None:
    assert KinesisStream("orders").stream_name == "orders"
    assert KinesisStream(ARN).stream_name == "orders"
    assert KinesisStream(stream_arn=ARN).address == ARN


def test_the_region_of_an_arn_is_the_one_that_is_asked(connection: Connect) -> None:
    connection("aws", conn_type="aws", login="x", password="y", extra={"region_name": "us-east-1"})
    source = KinesisStream(stream_arn=ARN, aws_conn_id="aws").open()
    assert source._caller.client.meta.region_name == "eu-west-1"  # type: ignore[attr-defined]
    for address in (TABLE, "leases"):
        store = DynamoDBLeases(address, "aws").open()
        asked = "us-east-1" if address == "leases" else address.split(":")[3]
        assert store.client.meta.region_name == asked  # type: ignore[attr-defined]
        assert store.table == address  # type: ignore[attr-defined]
    assert KinesisStream(ARN, region_name="eu-west-1").stream_name == "orders"


def test_a_region_beside_an_arn_of_another_is_refused() -> None:
    def render(text: str) -> str:
        return text.replace("{{ r }}", "us-east-1").replace("{{ arn }}", ARN)

    for wrong in (
        lambda: KinesisStream(ARN, region_name="us-east-1"),
        lambda: KinesisStream("{{ arn }}", region_name="us-east-1").rendered(render),
        lambda: KinesisStream(ARN, region_name="{{ r }}").rendered(render),
        lambda: DynamoDBLeases(TABLE, region_name="us-east-1"),
        lambda: settings.leases_of(f"dynamodb://{TABLE}?region=us-east-1", "--leases"),
        lambda: kcl_leases(TABLE, "aws", "us-east-1"),
    ):
        with pytest.raises(ConfigurationError, match=r"is in eu-(west|north)-1, and region_name='us-east-1'"):
            wrong()


def test_a_lease_table_by_its_arn() -> None:
    assert settings.leases_of(f"dynamodb://{TABLE}?aws_conn_id=x", "--leases") == DynamoDBLeases(TABLE, "x")
    for wrong in (TABLE + "/index/by_owner", "arn:aws:dynamodb:eu-north-1:1:table/leases", ARN):
        with pytest.raises(ConfigurationError, match="is not the ARN of a DynamoDB table"):
            DynamoDBLeases(wrong)
        with pytest.raises(ConfigurationError):
            settings.leases_of(f"dynamodb://{wrong}", "--leases")


CHANGES = "arn:aws:dynamodb:eu-west-1:111122223333:table/orders/stream/2026-01-01T00:00:00.000"


def test_the_stream_of_a_table_by_name_or_arn() -> None:
    table = CHANGES.partition("/stream/")[0]
    for stream in (DynamoDBStream("orders"), DynamoDBStream(table), DynamoDBStream(stream_arn=CHANGES)):
        assert stream.stream_name == "orders"
    assert DynamoDBStream(stream_arn=CHANGES).address == CHANGES
    assert DynamoDBStream("s", start="LATEST").position == LATEST
    assert DynamoDBStream("s", view="NEW_IMAGE").view is StreamView.NEW_IMAGE
    done = DynamoDBStream("{{ t }}", view="{{ v }}", start="{{ s }}").rendered(
        lambda text: {"{{ t }}": "orders", "{{ v }}": "OLD_IMAGE", "{{ s }}": "LATEST"}.get(text, text)
    )
    assert done == DynamoDBStream("orders", view=StreamView.OLD_IMAGE, start="LATEST")
    with pytest.raises(ConfigurationError, match="names no DynamoDB table"):
        DynamoDBStream("{{ t }}").rendered(lambda text: text and "a/b")


def test_the_calls_of_a_tables_stream_go_to_the_region_of_its_arn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_AWS", '{"conn_type": "aws", "login": "a", "password": "b", "extra": {"region_name": "us-east-1"}}'
    )
    source: Any = DynamoDBStream(stream_arn=CHANGES, aws_conn_id="aws").open()
    assert [client.meta.region_name for client in source._clients] == ["eu-west-1"]
    source = DynamoDBStream("orders", aws_conn_id="aws", page_records=7, calls_per_second=2, view="NEW_IMAGE").open()
    assert [client.meta.service_model.service_name for client in source._clients] == ["dynamodb", "dynamodbstreams"]
    options = source._caller.options
    assert (options.page_records, options.calls_per_second, options.view) == (7, 2, StreamView.NEW_IMAGE)


def test_starts() -> None:
    assert KinesisStream("s").position == TRIM_HORIZON
    assert KinesisStream("s", start="LATEST").position == LATEST
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert KinesisStream("s", start=moment).position == at_timestamp(round(moment.timestamp() * 1000))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: KinesisStream(),
        lambda: KinesisStream("a", stream_arn=ARN),
        lambda: KinesisStream("a", start="latest"),
        lambda: KinesisStream("a", start=datetime(2026, 1, 1)),
        lambda: DynamoDBLeases(""),
        lambda: SQLLeases(""),
        lambda: DynamoDBStream(),
        lambda: DynamoDBStream("a", stream_arn=CHANGES),
        lambda: DynamoDBStream(CHANGES),
        lambda: DynamoDBStream(stream_arn="orders"),
        lambda: DynamoDBStream("a/b"),
        lambda: DynamoDBStream(ARN),
        lambda: DynamoDBStream("a", start=datetime(2026, 1, 1)),
        lambda: DynamoDBStream("a", start="latest"),
        lambda: DynamoDBStream("a", page_records=1001),
        lambda: DynamoDBStream("a", calls_per_second=0),
        lambda: DynamoDBStream("a", view="BOTH"),
        lambda: DynamoDBStream(stream_arn=CHANGES, region_name="us-east-1"),
        lambda: DynamoDBStream("s", aws_conn_id="aws://AKID:s3cr3t@"),
        lambda: KinesisStream("a/b"),
        lambda: KinesisStream(stream_arn="orders"),
        lambda: KinesisStream("arn:aws:sqs:eu-west-1:111122223333:orders"),
        lambda: KinesisStream("a", page_records=0),
        lambda: KinesisStream("a", page_records=10_001),
        lambda: KinesisStream("a", calls_per_second=0),
        lambda: KinesisStream("a", calls_per_second=6),
        lambda: KinesisStream("a", deaggregate="lenient"),
        lambda: KinesisStream("a", deaggregate=True),  # type: ignore[arg-type]
        lambda: Staging("s3://"),
        lambda: Staging("s3:///prefix"),
        lambda: ReadLimits(records=0),
        lambda: KinesisStream("s", fan_out="perhaps"),  # type: ignore[arg-type]
        lambda: ReadLimits(bytes=-1),
        lambda: ReadLimits(concurrency=0),
        lambda: ReadLimits(duration=timedelta(0)),
        lambda: ReadLimits(duration=600),  # type: ignore[arg-type]
        lambda: ClaimOptions(max_shards=0),
        lambda: ClaimOptions(read_tasks=0),
        lambda: ClaimOptions(stuck_after=timedelta(0)),
        lambda: ClaimOptions(attempt_grace=60),  # type: ignore[arg-type]
        lambda: Policies(max_attempts=0),
        lambda: Policies(gap="ignore"),  # type: ignore[arg-type]
        lambda: Staging("relative/folder"),
        lambda: Staging("ftp://host/folder"),
        lambda: Staging(""),
    ],
)
def test_what_cannot_work_is_refused_at_once(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wrong()
    assert caught.value.remedy


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SQLLeases("postgresql://me:s3cr3t@db/leases"),
        lambda: Staging("s3://me:s3cr3t@lake/staging"),
        lambda: settings.leases_of("postgresql://me:s3cr3t@db/leases", "--leases"),
        lambda: settings.leases_of("sql://me:s3cr3t@db/leases", "--leases"),
        lambda: settings.leases_of("sql://leases_db/more", "--leases"),
        lambda: SQLLeases("me:s3cr3t@db/leases"),
        lambda: SQLLeases("db?password=s3cr3t"),
        lambda: DynamoDBLeases("dynamodb://AKID:s3cr3t@t"),
        lambda: DynamoDBLeases("t", "aws://AKID:s3cr3t@"),
        lambda: KinesisStream("s", aws_conn_id="aws://AKID:s3cr3t@"),
        lambda: Staging("s3://lake/x", "aws://AKID:s3cr3t@"),
        lambda: Staging("s3://me:s3/cr3t@lake/staging"),
        lambda: Staging("s3://lake/staging?secret_key=s3cr3t"),
        lambda: Staging("me:s3cr3t@lake/staging"),
        lambda: Staging("ftp://me:s3cr3t@host/staging"),
        lambda: connection("postgresql://me:s3cr3t@db/leases"),
        lambda: connection("me:s3cr3t@db/leases"),
        lambda: settings.leases_of("me:s3cr3t@db/leases", "--leases"),
        lambda: settings.leases_of("dynamodb://t?aws_conn_id=x&secret=s3cr3t", "--leases"),
        lambda: settings.staging_of("s3://lake?aws_conn_id=x&password=s3cr3t", "--staging"),
        lambda: open_store("me:s3cr3t@db"),
        lambda: open_store("s3cr3t@db:5432"),
        lambda: open_store("postgres://me:s3cr3t@db"),
    ],
)
def test_a_url_where_an_id_belongs_is_refused_and_not_repeated(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wrong()
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value, limit=0))
    assert "cr3t" not in str(caught.value)


def test_texts_are_templates() -> None:
    def render(text: str) -> str:
        return text.replace("{{ env }}", "prod")

    assert KinesisStream("orders-{{ env }}").rendered(render) == KinesisStream("orders-prod")
    strict = KinesisStream("orders", deaggregate="{{ params.deaggregate }}")
    assert strict.rendered(lambda text: "strict" if "{{" in text else text).deaggregate == "strict"
    with pytest.raises(ConfigurationError, match="deaggregate='prod'"):
        KinesisStream("orders", deaggregate="{{ env }}").rendered(render)
    assert DynamoDBLeases("leases-{{ env }}").rendered(render) == DynamoDBLeases("leases-prod")
    assert SQLLeases("{{ env }}").rendered(render) == SQLLeases("prod")
    assert Staging("s3://{{ env }}/x", "{{ env }}").rendered(render) == Staging("s3://prod/x", "prod")
    with pytest.raises(ConfigurationError):
        Staging("{{ env }}/x").rendered(render)


def test_a_missing_connection_is_named_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"'nowhere'.*AIRFLOW_CONN_NOWHERE"):
        connection("nowhere")
    with pytest.raises(ConfigurationError, match="'nowhere'"):
        KinesisStream("s", aws_conn_id="nowhere").open()
    with pytest.raises(ConfigurationError, match="'nowhere'"):
        SQLLeases("nowhere").open()
    with pytest.raises(ConfigurationError, match="'nowhere'"):
        Staging("s3://b/k", "nowhere").open()


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        (
            {"conn_type": "postgres", "host": "db", "port": 5433, "login": "u", "password": "p@ss/1", "schema": "app"},
            "postgresql+psycopg://u:p%40ss%2F1@db:5433/app",
        ),
        (
            {"conn_type": "postgres", "host": "db", "extra": {"sslmode": "require", "cursor": "dictcursor"}},
            "postgresql+psycopg://db?sslmode=require",
        ),
        ({"conn_type": "sqlite", "host": "/var/leases.db"}, "sqlite+pysqlite:////var/leases.db"),
    ],
)
def test_the_url_of_a_sql_connection(connection: Connect, fields: dict[str, Any], url: str) -> None:
    connection("db", **fields)
    assert sql_target("db").url.render_as_string(hide_password=False) == url
    assert "p@ss" not in repr(sql_target("db"))


def test_a_sqlite_connection_as_a_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DB", "sqlite:////var/leases.db")
    assert sql_target("db").url.database == "/var/leases.db"


def test_a_connection_of_another_type(connection: Connect) -> None:
    connection("web", conn_type="http", host="x")
    with pytest.raises(ConfigurationError, match="'http'"):
        sql_target("web")
    with pytest.raises(ConfigurationError, match="'http'"):
        aws_client("kinesis", "web", None)


def test_a_client_takes_endpoint_region_and_options_from_its_connection(connection: Connect) -> None:
    extra = {
        "region_name": "eu-west-1",
        "endpoint_url": "http://127.0.0.1:1",
        "config_kwargs": {"read_timeout": 7, "retries": {"total_max_attempts": 9}},
        "service_config": {"s3": {"endpoint_url": "http://127.0.0.1:2"}},
    }
    connection("aws", conn_type="aws", login="AKIDEXAMPLE", password="hidden", extra=extra)
    client = aws_client("kinesis", "aws", None, retries={"total_max_attempts": 1})
    assert client.meta.endpoint_url == "http://127.0.0.1:1"
    assert client.meta.region_name == "eu-west-1"
    assert client.meta.config.read_timeout == 7
    assert client.meta.config.retries["total_max_attempts"] == 1  # the source retries, the client does not
    assert aws_client("kinesis", "aws", "us-east-2").meta.region_name == "us-east-2"
    stream = KinesisStream("s", aws_conn_id="aws")
    stream.open()
    stream.open("etl", timedelta(minutes=10))
    assert "hidden" not in repr(stream)


@pytest.mark.parametrize(("deaggregate", "data"), [("on", [b"one", b"two", b"three"]), ("off", [FIXTURE])])
def test_a_stream_reads_aggregates_as_it_is_told(connection: Connect, deaggregate: str, data: list[bytes]) -> None:
    with StreamServer() as server:
        extra = {"region_name": "eu-west-1", "endpoint_url": server.endpoint_url}
        connection("aws", conn_type="aws", login="123456789012", password="none", extra=extra)
        client = aws_client("kinesis", "aws", None)
        client.create_stream(StreamName="orders", ShardCount=1)
        client.put_record(StreamName="orders", PartitionKey="k", Data=FIXTURE)
        source = KinesisStream("orders", aws_conn_id="aws", deaggregate=deaggregate).open()
        page = next(source.read("shardId-000000000000", TRIM_HORIZON))
        assert page.records.column("data").to_pylist() == data
        assert page.next.sub_sequence_number == 2


@pytest.mark.parametrize("leads_to", ["kinesis", "dynamodb"])
def test_every_call_of_aws_has_a_time_limit(connection: Connect, leads_to: str) -> None:
    connection("aws", conn_type="aws", login="x", password="y", extra={"region_name": "eu-west-1"})
    found = aws_client(leads_to, "aws", None, max_pool_connections=3).meta.config
    assert (found.connect_timeout, found.read_timeout, found.max_pool_connections) == (10, 30, 3)


def test_a_client_without_a_region_says_so(connection: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    connection("aws", conn_type="aws", login="x", password="y")
    with pytest.raises(ConfigurationError, match="region"):
        aws_client("kinesis", "aws", None)


class Refusing(BaseHTTPRequestHandler):
    """An STS that allows nothing."""

    def do_POST(self) -> None:
        body = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None: ...


def test_a_role_that_may_not_be_assumed_is_named_with_the_remedy(connection: Connect) -> None:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        extra = {
            "region_name": "eu-west-1",
            "role_arn": "arn:aws:iam::111122223333:role/reader",
            "service_config": {"sts": {"endpoint_url": f"http://127.0.0.1:{server.server_port}"}},
        }
        connection("other_account", conn_type="aws", login="AKIDEXAMPLE", password="hidden", extra=extra)
        for ask in (KinesisStream("s", aws_conn_id="other_account").open, Staging("s3://b/k", "other_account").open):
            with pytest.raises(ConfigurationError, match=r"'other_account' cannot assume.*trust policy") as told:
                ask()
            assert "hidden" not in str(told.value)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_staging_file_system_has_the_connections_endpoint_region_and_time_limits(connection: Connect) -> None:
    extra = {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"read_timeout": 7}}
    connection("lake", conn_type="aws", login="AKIDEXAMPLE", password="hidden", extra=extra)
    meta = s3_file_system("lake").handler.client.meta  # type: ignore[attr-defined]
    assert (meta.endpoint_url, meta.region_name) == ("http://127.0.0.1:9", "eu-west-1")
    assert (meta.config.read_timeout, meta.config.connect_timeout) == (7, 10)
    assert s3_file_system("lake", "eu-north-1").handler.client.meta.region_name == "eu-north-1"  # type: ignore[attr-defined]


def test_the_deployment_needs_a_name_on_a_shared_store(connection: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    connection("file", conn_type="sqlite", host="/var/leases.db")
    connection("db", conn_type="postgres", host="db")
    assert settings.deployment_id(SQLLeases("file")) == "local"
    for leases in (SQLLeases("db"), DynamoDBLeases("t")):
        with pytest.raises(ConfigurationError, match=r"\[shardbatch\] deployment_id"):
            settings.deployment_id(leases)
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    assert settings.deployment_id(SQLLeases("db")) == "prod"


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e300", "3601", "soon"])
def test_a_time_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert (settings.seconds_setting("store_timeout"), settings.seconds_setting("staging_timeout")) == (30, 60)
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STORE_TIMEOUT", "2.5")
    assert settings.seconds_setting("store_timeout") == 2.5
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STORE_TIMEOUT", text)
    with pytest.raises(ConfigurationError, match=r"\[shardbatch\] store_timeout"):
        settings.seconds_setting("store_timeout")


@pytest.mark.parametrize("text", ["dynamodb://", "redis://x", "sql://a?b=c", "dynamodb://t?conn=x"])
def test_a_default_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", text)
    with pytest.raises(ConfigurationError, match="leases"):
        settings.default_leases()


def test_parsing_a_dag_file_imports_no_vendor_library(tmp_path: Path) -> None:
    program = """
import sys
from airflow.sdk import DAG, task
before = set(sys.modules)
from shardbatch import DynamoDBLeases, KinesisStream, ParkBatchOperator, ReadLimits, Staging, StreamBatch, batch_params
with DAG("d", params=batch_params("b")):
    with StreamBatch("b", app_name="a", stream=KinesisStream("s"), leases=DynamoDBLeases("t"), staging=Staging("/x")):
        task(lambda: None, task_id="work")()
    given = dict(app_name="a", stream=KinesisStream("s"), leases=DynamoDBLeases("t"), reason="x")
    ParkBatchOperator(task_id="park", batch_id="b", **given)
heavy = "boto3 botocore pyarrow sqlalchemy pyspark pandas msgspec airflow.providers.amazon"
heavy += " shardbatch.run shardbatch.control"
print(*[name for name in heavy.split() if name in set(sys.modules) - before])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == []
