# SPDX-License-Identifier: Apache-2.0
"""Every example DAG runs in a real Airflow and leaves what the source data say; and each is cheap to parse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scripts import spark_connect
from scripts.airflow_client import ApiError, wait_until
from scripts.airflow_instance import AirflowInstance
from scripts.demo.flights import Expected, read_flights
from scripts.demo.watcher import DAG_ID as OF_THE_DEMO
from scripts.environment import QUICK_JAVA, process_environment
from shardbatch import read_committed_files
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.local import StreamServer
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import PRELOADED
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "dags").glob("*.py"))
#: DAGs that a person starts, or that act on what the others leave.
TOOLS = ("clean_staging", "replay_batch", "reset_checkpoints")
FLIGHTS = 600
ORDERS = 60
NO_FIT = "order-of-mills"
BUCKET = "flights-of-the-examples"

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Examples:
    """The Airflow in which all examples run, one after the other, on the same stream."""

    airflow: AirflowInstance
    folder: Path
    aws: AwsServer
    expected: Expected
    #: The amounts of the orders that the table has in the end, by id, and how many changes it had.
    orders: dict[str, str]
    changes: int


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory, ministack: AwsServer) -> Iterator[Examples]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "flights" / "staging").mkdir(parents=True)
    ministack.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    with StreamServer() as streams:
        expected = Expected()
        fill(AwsServer("streams", streams.endpoint_url), expected)
        (folder / "orders" / "staging").mkdir(parents=True)
        orders, changes = change_orders(streams)
        instance = AirflowInstance(
            folder / "airflow",
            ROOT / "dags",
            env=environment(folder, streams, ministack),
            base=process_environment(),
            preload=PRELOADED,
        )
        with instance:
            yield Examples(instance, folder / "flights", ministack, expected, orders, changes)


@pytest.fixture
def connect_server(examples: Examples, tmp_path: Path) -> Iterator[None]:
    """A Spark Connect server, with its connection in Airflow."""
    with spark_connect.start(tmp_path) as server:
        connection = {"connection_id": "spark_connect_default", **server.connection()}
        examples.airflow.client.call("POST", "connections", connection)
        yield


def fill(server: AwsServer, expected: Expected) -> None:
    client = server.client("kinesis")
    client.create_stream(StreamName="flights", ShardCount=2)
    records = [{"PartitionKey": record.key, "Data": record.data} for record in read_flights(FLIGHTS, expected)]
    for at in range(0, FLIGHTS, 500):
        answer = client.put_records(StreamName="flights", Records=records[at : at + 500])
        assert answer["FailedRecordCount"] == 0


def change_orders(streams: StreamServer) -> tuple[dict[str, str], int]:
    """A table whose items are put, changed and deleted while its stream's shards roll and split; the amounts that it
    has in the end, and the number of changes. One order has an amount that does not fit the schema of the job."""
    client = AwsServer("streams", streams.endpoint_url).client("dynamodb")
    streams.tables.create("orders", shards=2, region=REGION)
    orders: dict[str, str] = {}
    changes = 0
    for version, reshard in enumerate((streams.tables.roll, streams.tables.split, streams.tables.roll)):
        for number in range(ORDERS):
            name, amount = f"order-{number}", f"{number}.{version}5"
            client.put_item(
                TableName="orders",
                Item={"id": {"S": name}, "amount": {"N": amount}, "tags": {"SS": ["new", "gift"]}},
            )
            orders[name] = amount
            changes += 1
        gone = f"order-{version}"
        client.delete_item(TableName="orders", Key={"id": {"S": gone}})
        del orders[gone]
        changes += 1
        reshard("orders", region=REGION)
    client.put_item(TableName="orders", Item={"id": {"S": NO_FIT}, "amount": {"N": "1.234"}})
    return orders, changes


def environment(folder: Path, streams: StreamServer, aws: AwsServer) -> dict[str, str]:
    """Connections as a user makes them; one AWS connection leads to two servers."""
    services = {
        "kinesis": {"endpoint_url": streams.endpoint_url},
        "dynamodb": {"endpoint_url": aws.url},
        "s3": {"endpoint_url": aws.url},
    }
    extra = {"region_name": REGION, "service_config": services}
    tables = {"region_name": REGION, "endpoint_url": streams.endpoint_url}
    return {
        "AIRFLOW_CONN_ORDERS_AWS": json.dumps(
            {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": tables}
        ),
        "ORDERS_FOLDER": str(folder / "orders"),
        "ORDERS_EVERY_SECONDS": "86400",
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(
            {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": extra}
        ),
        "AIRFLOW_CONN_LEASES_DB": json.dumps({"conn_type": "sqlite", "host": str(folder / "leases.db")}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW__SHARDBATCH__DEPLOYMENT_ID": "examples",
        "FLIGHTS_FOLDER": str(folder / "flights"),
        "FLIGHTS_APPLICATIONS": "flights-by-airport",  # the others may not have run
        "FLIGHTS_BUCKET": BUCKET,
        "FLIGHTS_EVERY_SECONDS": "86400",
        "SPARK_SUBMIT_OPTS": QUICK_JAVA,
    }


# ---------------------------------------------------------------------- what each leaves


def committed(out: Path) -> Counter[str]:
    """Flights per carrier in the starts that the markers of an output root record."""
    counts: Counter[str] = Counter()
    for marker in (out / "_shardbatch").glob("*.json"):
        for start in json.loads(marker.read_text("utf-8"))["folders"]:
            for file in (out / start).glob("*.parquet"):
                for row in pq.read_table(file).to_pylist():
                    counts[row["carrier"]] += row["flights"]
    return counts


def by_day(name: str) -> Callable[[Examples], None]:
    def check(examples: Examples) -> None:
        wanted = {carrier: day.flights for carrier, day in examples.expected.by_carrier().items()}
        assert committed(examples.folder / name) == wanted

    return check


def by_airport(examples: Examples) -> None:
    (file,) = (examples.folder / "by_airport").iterdir()
    sums = json.loads(file.read_text("utf-8"))
    assert sorted(sums) == ["EWR", "JFK", "LGA"]
    days = examples.expected.days.values()
    for name in ("flights", "departures", "delay_minutes"):
        assert sum(airport[name] for airport in sums.values()) == sum(getattr(day, name) for day in days)


def by_month(examples: Examples) -> None:
    s3 = examples.aws.client("s3")
    (entry,) = s3.list_objects_v2(Bucket=BUCKET, Prefix="by_month/")["Contents"]
    counts = json.loads(s3.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read())
    wanted: Counter[str] = Counter()
    for (carrier, date), day in examples.expected.days.items():
        wanted[f"{carrier} {date[:7]}"] += day.flights
    assert counts == wanted


def latest_orders(examples: Examples) -> None:
    """Every change is in the lake once; the last ones make the table; what does not fit is apart, with its reason."""
    lake = examples.folder.parent / "orders" / "lake"

    def rows(root: str) -> list[dict[str, Any]]:
        files = read_committed_files(str(lake / root))
        return [row for file in files for row in pq.read_table(file.path, partitioning=None).to_pylist()]

    assert len(rows("changes")) == examples.changes
    (reject,) = rows("rejects")
    assert (reject["partition_key"], reject["path"]) == (f'{{"id":{{"S":"{NO_FIT}"}}}}', "new.amount")
    latest = {row["partition_key"]: row for row in rows("latest")}
    assert len(latest) == len(rows("latest"))
    unknown = latest.pop(reject["partition_key"])
    assert (unknown["new"], unknown["deleted"], unknown["reason"]) == (None, None, reject["reason"])
    assert {row["new"]["id"]: row["new"]["amount"] for row in latest.values() if not row["deleted"]} == {
        name: Decimal(amount) for name, amount in examples.orders.items()
    }


CHECKS: dict[str, Callable[[Examples], None]] = {
    "flights": by_day("output"),
    "flights_by_hand": by_day("by_hand"),
    "flights_connect": by_day("over_connect"),
    "flights_in_python": by_airport,
    "flights_on_aws": by_month,
    "orders": latest_orders,
}

#: What other tests run as it is and compare: the demo, and test_orders.py with kills, rolls and a gap.
RUN_ELSEWHERE = (OF_THE_DEMO, "orders")


# ---------------------------------------------------------------------- tests


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.parametrize(
    "dag_id",
    [
        pytest.param(path.stem, marks=pytest.mark.long if path.stem in RUN_ELSEWHERE else ())
        for path in FILES
        if path.stem not in TOOLS
    ],
)
def test_example_runs_and_leaves_the_sums_of_the_source(
    examples: Examples, dag_id: str, request: pytest.FixtureRequest
) -> None:
    if dag_id == OF_THE_DEMO:
        request.getfixturevalue("connect_server")
    require_first_run(examples, dag_id)
    CHECKS[dag_id](examples)


def require_first_run(examples: Examples, dag_id: str) -> None:
    client = examples.airflow.client
    client.wait_for_dag(dag_id, timeout=180)  # unpaused, it is due at once
    (run, *_) = wait_until(lambda: client.runs(dag_id), 60, lambda: f"the scheduler made no run of {dag_id}")
    state = client.wait_for_run(dag_id, run["dag_run_id"], timeout=400)
    states = client.task_states(dag_id, run["dag_run_id"])
    assert state == "success", states
    assert run["run_type"] == "scheduled"
    assert set(states.values()) == {"success"}


@pytest.mark.slow
@pytest.mark.airflow
def test_the_tools_of_operators_act_on_an_example(examples: Examples) -> None:
    """A batch is replayed, staging is cleaned, and checkpoints are reset once a person has approved it."""
    require_first_run(examples, "flights_in_python")
    client, application = examples.airflow.client, {"app_name": "flights-by-airport", "stream": "flights"}
    (file,) = (examples.folder / "by_airport").iterdir()
    file.unlink()

    def start(dag_id: str, **conf: Any) -> str:
        client.wait_for_dag(dag_id)
        return client.trigger(dag_id, conf=conf)

    def require(dag_id: str, run_id: str) -> None:
        state = client.wait_for_run(dag_id, run_id, timeout=300)
        assert state == "success", client.task_states(dag_id, run_id)

    with pytest.raises(ApiError, match="batch_id"):  # the form has to be filled in
        start("replay_batch", **application, reason="nothing was chosen")
    replay = start("replay_batch", **application, batch_id=file.stem, reason="the file was lost")
    cleaning = start("clean_staging")
    reset = start("reset_checkpoints", **application, to="TRIM_HORIZON", reason="a drill")
    require("replay_batch", replay)
    by_airport(examples)
    require("clean_staging", cleaning)

    client.wait_for_task("reset_checkpoints", reset, "approve", ["awaiting_input"])
    asked = client.question("reset_checkpoints", reset, "approve")
    rows = leases(examples, "flights-by-airport")
    assert len(rows) >= 2
    assert all(row.checkpoint.exact and row.shard_id in asked["body"] for row in rows)
    client.answer("reset_checkpoints", reset, "approve", "Approve")
    require("reset_checkpoints", reset)
    assert {row.checkpoint for row in leases(examples, "flights-by-airport")} == {TRIM_HORIZON}


def leases(examples: Examples, app_name: str) -> list[Any]:
    store = SQLStore(f"sqlite:///{examples.folder.parent / 'leases.db'}", create=False)
    try:
        return list(store.list(SHARD_LEASE, Namespace(app_name, "flights")))
    finally:
        store.close()


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=pytest.mark.long if at else ()) for at, path in enumerate(FILES)]
)
def test_parsing_an_example_loads_no_vendor_library(path: Path) -> None:
    program = f"""
import runpy, sys
runpy.run_path({str(path)!r})
loaded = sorted({{"boto3", "botocore", "pyarrow", "pyspark", "aiobotocore"}} & set(sys.modules))
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_readme_shows_the_dag_and_the_job_that_run() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for path in (ROOT / "dags" / "flights.py", ROOT / "dags" / "jobs" / "flights.py"):
        code = path.read_text("utf-8").partition('"""\n\n')[2].removeprefix("from __future__ import annotations\n\n")
        assert f"```python\n{code}```" in readme, f"README.md does not show {path.name} as it is"
