# SPDX-License-Identifier: Apache-2.0
"""One real Airflow for all system tests that need one: PostgreSQL metadata, a stream server, SQLite leases."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest

from scripts.airflow_client import AirflowClient
from scripts.airflow_instance import AirflowInstance
from scripts.environment import process_environment, python_path
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.local import Clock, Options, StreamServer
from shardbatch.stores.sql import SQLStore
from tests.support.execution_proxy import ExecutionProxy
from tests.support.postgres import PostgresServer
from tests.support.statsd import StatsD

DAGS = Path(__file__).parent.parent / "system" / "airflow" / "dags"
GROUP = "batch"
#: Libraries that most tasks would load anew, for seconds each: nothing of ours, which every task loads as ever. In the
#: demo a task loads all of it itself.
PRELOADED = (
    "airflow.providers.amazon.aws.hooks.base_aws",
    "airflow.providers.openlineage.plugins.listener",
    "airflow.sdk.definitions.decorators.setup_teardown",
    "botocore.config",
    "google.protobuf.descriptor_pb2",
    "jinja2.ext",
    "pandas",  # pyarrow loads it where it is installed
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pyarrow.parquet",
    "sqlite3",
    "statsd",
)
#: Seconds for one run on a machine that is busy with other things.
PATIENCE = 600.0
#: By how many seconds the clock of the second stream server is behind: within what clocks may differ.
BEHIND = 240.0


@dataclass
class Deployment:
    """Airflow with what its DAGs need, and the gestures of the people in front of it.

    ``late`` is a second stream server, behind the clock of this machine by :data:`BEHIND` seconds.
    """

    instance: AirflowInstance
    streams: StreamServer
    late: StreamServer
    proxy: ExecutionProxy
    statsd: StatsD
    folder: Path
    kinesis: Any
    metadata: PostgresServer
    database: str

    @property
    def client(self) -> AirflowClient:
        return self.instance.client

    # -------------------------------------------------------------- the stream

    def create_stream(self, name: str, shards: int = 2) -> None:
        self.kinesis.create_stream(StreamName=name, ShardCount=shards)

    def put(self, stream: str, first: int, last: int) -> list[str]:
        """Puts the records r<first> to r<last - 1>; their data."""
        data = [f"r{number}" for number in range(first, last)]
        for at in range(0, len(data), 500):
            records = [{"Data": text.encode(), "PartitionKey": text} for text in data[at : at + 500]]
            answer = self.kinesis.put_records(StreamName=stream, Records=records)
            assert answer["FailedRecordCount"] == 0
        return sorted(data)

    # -------------------------------------------------------------- runs

    def start(self, dag_id: str, **fields: Any) -> str:
        self.client.wait_for_dag(dag_id)
        return self.client.trigger(dag_id, **fields)

    def run(self, dag_id: str, **fields: Any) -> tuple[str, str]:
        """A run from trigger to end: its id and state."""
        run_id = self.start(dag_id, **fields)
        return run_id, self.client.wait_for_run(dag_id, run_id, PATIENCE)

    def again(self, dag_id: str, run_id: str, task_ids: list[str] | None = None, **fields: Any) -> str:
        """Clears tasks of a run (default: all) and waits for its new end; its state."""
        ids = None if task_ids is None else [f"{GROUP}.{task_id}" for task_id in task_ids]
        before = self.client.run(dag_id, run_id)["end_date"]
        self.client.clear(dag_id, run_id, ids, **fields)
        assert self.client.run(dag_id, run_id)["end_date"] != before
        return self.client.wait_for_run(dag_id, run_id, PATIENCE)

    def states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Task states, the group's own tasks without its id."""
        found = self.client.task_states(dag_id, run_id)
        return {task_id.removeprefix(f"{GROUP}."): state for task_id, state in found.items()}

    def xcom(self, dag_id: str, run_id: str, task: str, key: str = "return_value", map_index: int = -1) -> Any:
        return self.client.xcom(dag_id, run_id, f"{GROUP}.{task}", key, map_index)

    def log(self, dag_id: str, run_id: str, task: str, attempt: int = 1, map_index: int = -1) -> str:
        return self.client.log(dag_id, run_id, f"{GROUP}.{task}", attempt, map_index)

    # -------------------------------------------------------------- what came out

    def succeeds(self, dag_id: str, run_id: str) -> None:
        """Waits for the end of a run; one that fails shows the logs of its failed tasks."""
        if self.client.wait_for_run(dag_id, run_id, PATIENCE) == "success":
            return
        tasks = self.client.tasks(dag_id, run_id)
        logs = [
            self.client.log(dag_id, run_id, task["task_id"], task["try_number"], task["map_index"])
            for task in tasks
            if task["state"] == "failed"
        ]
        pytest.fail("\n".join([f"{dag_id}: {self.client.task_states(dag_id, run_id)}", *logs]))

    def output(self, dag_id: str) -> list[str]:
        """The data that the work has written, over all batches."""
        found = [json.loads(path.read_text("utf-8")) for path in (self.folder / "out" / dag_id).glob("*.json")]
        return sorted(text for batch in found for text in batch["data"])

    def batches(self, dag_id: str) -> dict[str, int]:
        """The batches that the work has written, with the attempt that wrote last."""
        return {
            path.stem: json.loads(path.read_text("utf-8"))["attempt"]
            for path in (self.folder / "out" / dag_id).glob("*.json")
        }

    def events(self, stream: str) -> list[dict[str, Any]]:
        """The asset events of an application's batches."""
        found = self.client.call("GET", "assets/events", limit=1000)["asset_events"]
        return [event for event in found if event["name"] == f"test/{stream}"]

    def lineage(self, dag_id: str) -> list[dict[str, Any]]:
        """What OpenLineage was told of the tasks of a DAG that asks for it, one entry an event."""
        events = self.folder / "lineage.jsonl"
        text = events.read_text("utf-8") if events.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # the last line may be half written
        found = [json.loads(line) for line in whole.splitlines()]
        return [event for event in found if event.get("job", {}).get("name", "").startswith(f"{dag_id}.")]

    def links(self, dag_id: str, run_id: str, task: str, map_index: int = -1) -> dict[str, str | None]:
        """The extra links of a task."""
        path = f"dags/{quote(dag_id)}/dagRuns/{quote(run_id)}/taskInstances/{GROUP}.{task}/links"
        links: dict[str, str | None] = self.client.call("GET", path, map_index=map_index)["extra_links"]
        return links

    def leases(self, stream: str, app_name: str = "test") -> list[Any]:
        store = SQLStore(f"sqlite:///{self.folder / 'leases.db'}", create=False)
        try:
            return list(store.list(SHARD_LEASE, Namespace(app_name, stream)))
        finally:
            store.close()

    def tell(self, word: str) -> Path:
        """Leaves a file that the work looks for."""
        path = self.folder / word
        path.touch()
        return path

    def metadata_rows(self, statement: str, *values: Any) -> list[Any]:
        """Asks Airflow's metadata database itself."""
        with self.metadata.connect(self.database) as session:
            return session.execute(statement, values).fetchall()


@contextmanager
def deployment(postgres: PostgresServer) -> Iterator[Deployment]:
    """Starts it all; everything is gone afterwards."""
    database = "airflow_metadata"
    proxy = ExecutionProxy()
    with (
        tempfile.TemporaryDirectory(prefix="shardbatch-airflow-") as name,
        StreamServer(options=Options()) as streams,
        StreamServer(clock=Clock(lambda: time.time() - BEHIND)) as late,
        StatsD() as statsd,
    ):
        folder = Path(name)
        (folder / "staging").mkdir()
        aws = {"region_name": "us-east-1", "endpoint_url": streams.endpoint_url}
        behind = {**aws, "endpoint_url": late.endpoint_url}
        instance = AirflowInstance(
            folder / "home",
            DAGS,
            base=process_environment(),
            preload=PRELOADED,
            triggerer=True,
            parallelism=10,  # some tests hold runs open while others ask about them
            database=postgres.create_database(database),
            env={
                "SHARDBATCH_TEST_FOLDER": str(folder),
                "AIRFLOW_CONN_AWS_LOCAL": json.dumps(
                    {"conn_type": "aws", "login": "AKIDEXAMPLE", "password": "s3cr3t-of-aws", "extra": aws}
                ),
                "AIRFLOW_CONN_AWS_LATE": json.dumps(
                    {"conn_type": "aws", "login": "AKIDEXAMPLE", "password": "s3cr3t-of-aws", "extra": behind}
                ),
                "AIRFLOW_CONN_LEASES_LOCAL": json.dumps({"conn_type": "sqlite", "host": str(folder / "leases.db")}),
                "AIRFLOW_CONN_SPARK_LOCAL": json.dumps({"conn_type": "spark", "host": "local[1]"}),
                "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{proxy.address}/execution/",
                "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "8",
                "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "2",
                "AIRFLOW__API__MAXIMUM_PAGE_LIMIT": "1000",  # the events of all files of tests on one page
                # The files stay as they are, and parsing them again and again would take half a core.
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
                # Supervisors beat every 5 seconds; what is lost with one is noticed after this.
                "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
                "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
                **statsd.settings,
                # Only of DAGs that ask for it.
                "AIRFLOW__OPENLINEAGE__DISABLED": "False",
                "AIRFLOW__OPENLINEAGE__SELECTIVE_ENABLE": "True",
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
                    {"type": "file", "log_file_path": str(folder / "lineage.jsonl"), "append": True}
                ),
                "PYTHONPATH": python_path(),
            },
        )
        proxy.upstream = instance.address
        kinesis = boto3.client(
            "kinesis",
            endpoint_url=streams.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="y",
        )
        try:
            with instance:
                yield Deployment(instance, streams, late, proxy, statsd, folder, kinesis, postgres, database)
        finally:
            kinesis.close()
            proxy.close()
