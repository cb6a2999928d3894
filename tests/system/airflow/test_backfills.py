# SPDX-License-Identifier: Apache-2.0
"""`airflow backfill create` over days around a change of clocks, beside live runs and over one that was there (R95)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import boto3
import pytest

from shardbatch.local import Clock, StreamServer
from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

BERLIN = ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)


def midnight(instant: datetime) -> datetime:
    """When the day of an instant began, in Berlin."""
    return instant.astimezone(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)


def length(day: datetime) -> timedelta:
    return midnight(day + DAY).astimezone(UTC) - day.astimezone(UTC)


def changing_day() -> datetime:
    """The latest day, over for some days already, that does not have 24 hours."""
    day = midnight(datetime.now(UTC) - 6 * DAY)
    while length(day) == DAY:
        day -= DAY
    return day


@dataclass
class World:
    """Streams with records in the days around that one. The clock of their server was set, and is now right."""

    airflow: Deployment
    kinesis: Any
    clock: Clock
    first: datetime
    sent: dict[str, dict[str, datetime]] = field(default_factory=dict)

    def put(self, stream: str, text: str, at: datetime | None = None) -> None:
        """Put a record that arrives at an instant, or now; one key for each."""
        if at is not None:
            self.clock.advance(max(0.0, at.timestamp() - self.clock.now()))  # two streams have records of one moment
        self.kinesis.put_record(StreamName=stream, Data=text.encode(), PartitionKey=text)
        self.sent.setdefault(stream, {})[text] = at or datetime.now(UTC)

    def within(self, stream: str, begin: datetime, end: datetime) -> list[str]:
        return sorted(text for text, at in self.sent[stream].items() if begin <= at < end)

    def read_by(self, dag_id: str, run: dict[str, Any]) -> list[str]:
        """The records of the batch of a run, whatever it is."""
        batch_id = self.airflow.xcom(dag_id, run["dag_run_id"], "freeze", "batch_id")
        path = self.airflow.folder / "out" / dag_id / f"{batch_id}.json"
        return sorted(json.loads(path.read_text("utf-8"))["data"])

    def backfill(self, dag_id: str, *more: str) -> list[dict[str, Any]]:
        """The runs of the three days once a backfill over them is over, in order; as Airflow shows them."""
        wait_until(lambda: self.is_over(dag_id), PATIENCE, "the backfill before to be over")
        last = self.first + 2 * DAY + timedelta(hours=20)
        dates = ["--from-date", self.first.isoformat(), "--to-date", last.isoformat()]
        self.airflow.instance.airflow("backfill", "create", "--dag-id", dag_id, *dates, *more)
        for run in self.runs(dag_id):
            assert self.airflow.client.wait_for_run(dag_id, run["dag_run_id"], PATIENCE) == "success"
        return self.runs(dag_id)

    def is_over(self, dag_id: str) -> bool:
        found = self.airflow.client.call("GET", "backfills", dag_id=dag_id)["backfills"]
        return all(backfill["completed_at"] for backfill in found)

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        begin, end = self.first.timestamp(), (self.first + 3 * DAY).timestamp()
        dated = [run for run in self.airflow.client.runs(dag_id) if run["logical_date"] is not None]
        found = [run for run in dated if begin <= instant(run["logical_date"]).timestamp() < end]
        return sorted(found, key=lambda run: instant(run["logical_date"]))


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@pytest.fixture(scope="module")
def world(airflow: Deployment) -> Iterator[World]:
    day = changing_day()
    first = midnight(day - timedelta(hours=12))
    begin = first - timedelta(hours=1)
    now = begin.timestamp() - 600
    started = datetime.now(UTC).timestamp()
    with StreamServer(clock=Clock(lambda: now + datetime.now(UTC).timestamp() - started)) as server:
        place = {"endpoint_url": server.endpoint_url, "region_name": "us-east-1"}
        body = {"connection_id": "aws_days", "conn_type": "aws", "login": "x", "password": "y"}
        airflow.client.call("POST", "connections", {**body, "extra": json.dumps(place)})
        kinesis = boto3.client("kinesis", aws_access_key_id="x", aws_secret_access_key="y", **place)
        made = World(airflow, kinesis, server.clock, first)
        for stream in ("days", "mornings"):
            kinesis.create_stream(StreamName=stream, ShardCount=2)
            kinesis.increase_stream_retention_period(StreamName=stream, RetentionPeriodHours=8760)
        for hour in range(74):  # more than three days, each hour also of the day that has more or fewer
            at = begin.astimezone(UTC) + timedelta(hours=hour)
            for stream in ("days", "mornings"):
                made.put(stream, f"{at:%d-%H}", at)
        server.clock.advance(max(0.0, datetime.now(UTC).timestamp() - server.clock.now()))
        yield made
        kinesis.close()


@dataclass
class First:
    """The runs of a backfill of the three days, backwards, and the run of the second one, which was there before."""

    runs: list[dict[str, Any]]
    live: str
    batch_id: str


@pytest.fixture(scope="module")
def first(world: World) -> First:
    airflow, second = world.airflow, midnight(world.first + timedelta(hours=36))
    live = airflow.start("days", logical_date=second.isoformat())  # a run of the live application of the second day
    assert airflow.client.wait_for_run("days", live, PATIENCE) == "success"
    batch_id = airflow.xcom("days", live, "freeze", "batch_id")
    assert batch_id
    world.put("days", "new")
    beside = airflow.start("days")
    runs = world.backfill("days", "--reprocess-behavior", "completed", "--run-backwards", "--max-active-runs", "2")
    assert airflow.client.wait_for_run("days", beside, PATIENCE) == "success"
    return First(runs, live, batch_id)


def test_a_backfill_reads_each_day_once_beside_the_live_runs_and_replays_the_batch_of_one(
    world: World, first: First
) -> None:
    airflow, runs, live, batch_id = world.airflow, first.runs, first.live, first.batch_id
    assert [run["run_type"] for run in runs] == ["backfill"] * 3
    assert runs[1]["dag_run_id"] == live
    assert airflow.xcom("days", live, "claim", "outcome") == "replay"
    assert airflow.xcom("days", live, "freeze", "batch_id") == batch_id
    assert airflow.batches("days")[batch_id] == 2
    for run in (runs[0], runs[2]):
        begin, end = instant(run["data_interval_start"]), instant(run["data_interval_end"])
        assert world.read_by("days", run) == world.within("days", begin, end)
    spans = [
        instant(runs[2]["data_interval_end"]) - instant(runs[0]["data_interval_start"]),
        length(midnight(world.first + timedelta(hours=36))),
    ]
    assert spans[0] - 2 * DAY == spans[1] != DAY


@pytest.mark.long
@pytest.mark.parametrize(("behavior", "again"), [("none", False), ("failed", False), ("completed", True)])
def test_a_backfill_that_is_repeated_replays_the_batches_of_its_runs_or_leaves_them_alone(
    world: World, first: First, behavior: str, again: bool
) -> None:
    batches = world.airflow.batches("days")
    checkpoints = world.airflow.leases("days")
    runs = world.backfill("days", "--reprocess-behavior", behavior)
    assert [run["dag_run_id"] for run in runs] == [run["dag_run_id"] for run in first.runs]
    own = {world.airflow.xcom("days", run["dag_run_id"], "freeze", "batch_id") for run in runs}
    found = world.airflow.batches("days")
    assert found == {name: attempt + (again and name in own) for name, attempt in batches.items()}
    assert world.airflow.leases("days") == checkpoints  # live positions are as they were


@pytest.mark.long
def test_what_arrives_between_two_intervals_is_in_none(world: World) -> None:
    world.airflow.client.wait_for_dag("mornings")
    runs = world.backfill("mornings")
    assert len(runs) == 3
    found = []
    for run in runs:
        begin, end = instant(run["data_interval_start"]), instant(run["data_interval_end"])
        assert end - begin == timedelta(hours=6)
        assert world.read_by("mornings", run) == world.within("mornings", begin, end)
        found += world.read_by("mornings", run)
    assert 0 < len(found) < len(world.sent["mornings"]) // 3
