# SPDX-License-Identifier: Apache-2.0
"""The example of a table's changes is exact after kills, rolls, splits and a trimmed gap."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.airflow_client import FINISHED, wait_until
from shardbatch.core.batch import BatchState
from shardbatch.core.manifest import Manifest
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.core.slice import Gap
from shardbatch.local import Clock, StreamServer
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.aws import ACCOUNT, REGION, SECRET
from tests.support.deadly import Orders
from tests.support.orders import TABLE, Json, OrdersTable, all_fit, fits, lake_rows, last_of, number_of, row_of, typed

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1500)]

DAG_ID = "orders"
APP = "orders-lake"
HOUR = 3600.0


@dataclass
class Lake:
    """The example's DAG with its table, the gestures of its people, and what readers of the lake see."""

    airflow: Deployment
    server: StreamServer
    table: OrdersTable
    deaths: Orders

    # runs

    def begin(self) -> str:
        """The first run, which is scheduled once the DAG is unpaused."""
        client = self.airflow.client
        client.wait_for_dag(DAG_ID)
        return str(wait_until(lambda: client.runs(DAG_ID), 60, lambda: "no run was scheduled")[0]["dag_run_id"])

    def run(self, wanted: str = "success") -> str:
        """A run from trigger to end."""
        run_id = self.airflow.client.trigger(DAG_ID)
        self.require(run_id, wanted)
        return run_id

    def require(self, run_id: str, wanted: str = "success") -> None:
        """Wait for the end of a run, which has to be this."""
        state = self.airflow.client.wait_for_run(DAG_ID, run_id, PATIENCE)
        assert state == wanted, self.airflow.client.task_states(DAG_ID, run_id)

    def kill(self, run_id: str, name: str) -> None:
        """Kill the process of a task that is running, unless the run ends before."""

        def running() -> list[int]:
            found = [task for task in self.tasks(run_id, name) if task["state"] == "running" and task["pid"]]
            return [task["pid"] for task in found]

        def ended() -> bool:
            return str(self.airflow.client.run(DAG_ID, run_id)["state"]) in FINISHED

        wait_until(lambda: running() or ended(), PATIENCE, lambda: f"{name} did not begin")
        for pid in running():
            os.kill(pid, signal.SIGKILL)

    def tasks(self, run_id: str, name: str) -> list[Json]:
        return [task for task in self.airflow.client.tasks(DAG_ID, run_id) if task["task_id"] == f"{DAG_ID}.{name}"]

    def tries(self, run_id: str, name: str) -> int:
        return max(int(task["try_number"]) for task in self.tasks(run_id, name))

    def accept_gap(self, reason: str) -> str:
        """What the error advises; what the command printed."""
        where = ("--app-name", APP, "--stream-name", TABLE, "--leases", "sql://leases_db")
        words = ("accept-gap", *where, "--all", "--reason", reason, "--yes", "--output", "json")
        return self.airflow.instance.airflow("shardbatch", *words)

    # what the application has done

    def batches(self) -> list[Any]:
        """The rows of batches, the oldest first."""
        store = SQLStore(f"sqlite:///{self.airflow.folder / 'leases.db'}", create=False)
        try:
            found: list[Any] = list(store.list(BATCH, Namespace(APP, TABLE)))
        finally:
            store.close()
        return sorted(found, key=lambda batch: str(batch.batch_id))

    def gaps(self) -> list[tuple[str, Gap]]:
        """The gaps of committed batches, with their shards, as the manifests tell them."""
        uris = [batch.manifest_uri for batch in self.batches() if batch.state is BatchState.COMMITTED]
        slices = [
            entry.slice
            for uri in uris
            for entry in Manifest.loads(Path(uri.removeprefix("file://")).read_text("utf-8")).slices
        ]
        return [(one.shard_id, gap) for one in slices for gap in one.gaps]

    def lost(self) -> list[str]:
        """The event ids of all records that the gaps say are lost."""
        bounds = [(shard, int(str(gap.after)), int(gap.first_available or "0")) for shard, gap in self.gaps()]
        return [
            event_id
            for event_id, record in self.table.records.items()
            if any(record["shard"] == shard and after < number_of(record) < until for shard, after, until in bounds)
        ]

    def stale(self) -> list[str]:
        """The items whose last changes are lost."""
        lost = self.lost()
        return [name for name, record in last_of(self.table.records.values()).items() if record["eventID"] in lost]

    # the lake

    def rows(self, root: str) -> list[Json]:
        return lake_rows(self.airflow.folder / "orders" / "lake" / root)

    def latest(self) -> Json:
        """The items of the table, as readers of the lake see them."""
        last: Json = {}
        for row in self.rows("latest"):
            name = json.loads(row["partition_key"])["id"]["S"]
            if name not in last or last[name]["version"] < row["version"]:
                last[name] = row
        return {name: row["new"] for name, row in last.items() if row["deleted"] is False}

    def require_exact(self, without: Collection[str] = ()) -> None:
        """The lake has each change of the table once, typed and on its day, or among the rejects, but for those that
        are not in it; and its latest images are the last changes of the others."""
        self.table.collect()
        records = {event_id: record for event_id, record in self.table.records.items() if event_id not in without}
        wanted = {event_id: row_of(record) for event_id, record in records.items() if all_fit(record)}
        names = next(iter(wanted.values()))
        rows = self.rows("changes")
        found = {row["event_id"]: {name: row[name] for name in names} for row in rows}
        assert (len(rows), found) == (len(wanted), wanted)
        rejects = [(row["shard_id"], row["sequence_number"]) for row in self.rows("rejects")]
        unfit = [record for record in records.values() if not all_fit(record)]
        assert sorted(rejects) == sorted((record["shard"], record["dynamodb"]["SequenceNumber"]) for record in unfit)
        assert unfit
        images = {name: record["dynamodb"].get("NewImage") for name, record in last_of(records.values()).items()}
        assert self.latest() == typed_items(images)


def typed_items(images: Json) -> Json:
    """The items that there are and that fit the schema of the job."""
    return {name: typed(image) for name, image in images.items() if image is not None and fits(image)}


@pytest.fixture(scope="module")
def lake(airflow: Deployment) -> Iterator[Lake]:
    """The example with the connections that it asks for, and a table to which it is the day before."""
    with StreamServer(clock=Clock(lambda: time.time() - 22 * HOUR)) as server:
        (airflow.folder / "orders").mkdir()
        aws = {"region_name": REGION, "endpoint_url": server.endpoint_url}
        for conn_id, fields in {
            "orders_aws": {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": json.dumps(aws)},
            "leases_db": {"conn_type": "sqlite", "host": str(airflow.folder / "leases.db")},
            "spark_default": {"conn_type": "spark", "host": "local[2]"},
        }.items():
            airflow.client.call("POST", "connections", {"connection_id": conn_id, **fields})
        yield Lake(airflow, server, OrdersTable(server), Orders(airflow.folder, DAG_ID))


def test_the_lake_is_exact_after_a_kill_a_roll_a_split_and_a_trimmed_gap(lake: Lake) -> None:
    table, server = lake.table, lake.server
    table.change(150)

    # A read is killed between two answers. Meanwhile all shards roll, and their children are listed late.
    server.faults.add("GetRecords", "latency", seconds=300, stream=TABLE, shard=table.open_shards()[0], after=1)
    first = lake.begin()
    wait_until(lambda: not server.faults.waiting(), 120, lambda: "no read asked for a second answer")
    table.change(100)
    server.options.child_seconds = 1.0
    server.tables.roll(TABLE, region=REGION)
    table.change(50)
    lake.kill(first, "read")
    server.faults.clear()
    lake.require(first)
    assert lake.tries(first, "read") == 2
    lake.require_exact()
    read = list(table.records)
    server.clock.advance(10 * HOUR)

    # One shard splits; of the other one, changes are trimmed that are not read yet. The run says what to do.
    split, trimmed = table.open_shards()
    server.tables.split(TABLE, split, region=REGION)
    table.change(100)
    unread = [record for record in table.records.values() if record["shard"] == trimmed]
    unread = [record for record in unread if record["eventID"] not in read]
    server.tables.trim(TABLE, trimmed, before=unread[-10]["dynamodb"]["SequenceNumber"], region=REGION)
    failed = lake.run("failed")
    assert [task["state"] for task in lake.tasks(failed, "commit")] == ["success"]
    told = lake.airflow.client.log(DAG_ID, failed, f"{DAG_ID}.report")
    assert all(word in told for word in ("GapFound", trimmed, "'airflow shardbatch accept-gap\\'"))
    lake.require_exact(without=[record["eventID"] for record in unread])

    # The gap is accepted. The lake lacks what the gap says, and no image but those whose last change is in it is old.
    assert unread[-10]["dynamodb"]["SequenceNumber"] in lake.accept_gap("they are written again")
    lake.run()
    [(shard, gap)] = lake.gaps()
    assert (shard, (gap.accepted or "").rpartition(": ")[2]) == (trimmed, "they are written again")
    assert lake.lost() == [record["eventID"] for record in unread[:-10]]
    lake.require_exact(without=lake.lost())
    latest, items, stale = lake.latest(), typed_items(table.scan()), lake.stale()
    old = {name for name in latest | items if latest.get(name) != items.get(name)}
    assert old
    assert old <= set(stale)


@pytest.mark.long
@pytest.mark.parametrize("name", ["claim", "read", "freeze", "to_lake", "commit", "written", "done"])
def test_the_lake_is_exact_whatever_dies_and_whatever_is_replayed(lake: Lake, name: str) -> None:
    table, server = lake.table, lake.server
    table.change(100)
    lake.airflow.client.wait_for_run(DAG_ID, lake.begin(), PATIENCE)
    table.resend(lake.stale())
    run_id = lake.airflow.client.trigger(DAG_ID)
    if name in ("written", "done"):
        lake.deaths.arm(name, supervisor=True)
    else:
        lake.kill(run_id, name)
    server.tables.roll(TABLE, region=REGION)
    table.change(50)
    lake.airflow.client.wait_for_run(DAG_ID, run_id, PATIENCE)
    server.tables.split(TABLE, table.open_shards()[0], region=REGION)
    table.change(50)
    lake.run()  # takes over what was left
    lake.run()
    lake.require_exact(without=lake.lost())
    assert lake.latest() == typed_items(table.scan())

    # An old batch is worked on again, after newer ones.
    oldest = next(batch for batch in lake.batches() if batch.records)
    run_id = lake.airflow.client.trigger(DAG_ID, conf={f"{DAG_ID}.replay": oldest.batch_id})
    lake.require(run_id)
    assert next(batch for batch in lake.batches() if batch.batch_id == oldest.batch_id).attempt > oldest.attempt
    lake.require_exact(without=lake.lost())
    assert lake.latest() == typed_items(table.scan())
