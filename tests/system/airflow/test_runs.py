# SPDX-License-Identifier: Apache-2.0
"""Whole runs in a real Airflow: scheduler, workers, task states, XComs, asset events."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardbatch import SQLLeases
from shardbatch.hooks.leases import store_digest
from shardbatch.local import FaultKind
from tests.support.airflow_instance import Deployment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

ALL = ("claim", "freeze", "work", "commit")
#: A DAG whose runs over an interval have an owner that no key of a row has room for.
INTERVAL, RUN = "интервал" * 14, "manual__" + "r" * 92


#: Libraries that say nothing at the level of Airflow's task logs in a run that goes well, if they keep their own.
LOUD = ("botocore.", "boto3.", "urllib3.", "pyarrow", "sqlalchemy.", "DEBUG")


def _the_logs_tell_the_story(airflow: Deployment, run_id: str, outcome: dict[str, Any]) -> None:
    """Each task says once what it did; each shard from where to where it was read, and why no further."""
    log = {name: airflow.log("whole", run_id, name) for name in ("claim", "freeze", "work", "commit", "report")}
    reads = [airflow.log("whole", run_id, "read", map_index=index) for index in (0, 1)]
    batch_id = outcome["batch_id"]
    told = {
        "claim": "Claimed 3 shards in 2 read tasks.",
        "freeze": f"Froze batch {batch_id}: 300 records of 3 shards.",
        "work": f"Attempt 1 of batch {batch_id}: this task ended well;",
        "commit": airflow.xcom("whole", run_id, "commit", "summary"),
        "report": "Every shard was read, and none waits behind a gap.",
    }
    for name, words in told.items():
        assert log[name].count(words) == 1, f"{name}: {log[name]}"
    shards = {lease.shard_id: str(lease.checkpoint) for lease in airflow.leases("whole")}
    for shard, place in shards.items():
        [line] = [line for text in reads for line in text.splitlines() if f"Shard {shard}: " in line]
        where = f", from TRIM_HORIZON to {place}, read to the tip as of the run's start"
        assert re.search(rf"Shard {shard}: \d+ records that arrived \S+Z/\S+Z{re.escape(where)}", line), line
    assert all(len(re.findall(r"Read task \S+: \d+ records", text)) == 1 for text in reads)
    summary = (
        rf"Committed batch {batch_id}: 300 records that arrived (\S+)/(\S+), 0 gaps; 3 checkpoints moved, 0 shards"
    )
    times = re.search(summary, told["commit"])
    assert times is not None
    began, ended = (datetime.fromisoformat(text) for text in times.groups())
    assert timedelta(0) <= ended - began < timedelta(minutes=5)
    assert abs(datetime.now(UTC) - ended) < timedelta(minutes=10)
    for name, text in {**log, **{f"read[{index}]": text for index, text in enumerate(reads)}}.items():
        assert [word for word in LOUD if word in text] == [], f"{name}: {text}"


def test_full_empty_and_drained_runs(airflow: Deployment) -> None:
    airflow.create_stream("whole", shards=3)
    sent = airflow.put("whole", 0, 300)

    first, state = airflow.run("whole")
    assert state == "success"
    states = airflow.states("whole", first)
    assert set(states.values()) == {"success"}  # none is skipped
    assert states.keys() == {*ALL, "read[0]", "read[1]", "report", "after"}
    assert airflow.output("whole") == sent
    tasks = {(task["task_id"], task["map_index"]): task for task in airflow.client.tasks("whole", first)}
    labels = [tasks["batch.read", index]["rendered_map_index"] for index in range(2)]
    assert ["shard" in label for label in labels] == [True, True]
    reads = sorted(
        (tasks["batch.read", index]["start_date"], tasks["batch.read", index]["end_date"]) for index in (0, 1)
    )
    assert reads[0][1] <= reads[1][0]  # one slot is enough
    outcome = airflow.xcom("whole", first, "commit", "committed")
    assert (outcome["newly"], outcome["records"], outcome["shards"]) == (True, 300, 3)
    [event] = airflow.events("whole")
    assert (event["extra"]["records"], event["extra"]["batch_id"]) == (300, outcome["batch_id"])

    _the_logs_tell_the_story(airflow, first, outcome)

    # Nothing new: no work, no event, and the run is green.
    empty, state = airflow.run("whole")
    assert state == "success"
    nothing = "Nothing new: no shard had records or a gap to tell, so there is no batch and no checkpoint moves."
    assert airflow.xcom("whole", empty, "commit", "summary") == nothing
    assert nothing in airflow.log("whole", empty, "commit")
    quiet = "".join(airflow.log("whole", empty, "read", map_index=index) for index in (0, 1))
    assert quiet.count("shards had nothing new, read to the tip as of the run's start: shardId-") == 2
    states = airflow.states("whole", empty)
    assert {task for task, state in states.items() if state != "success"} == {"work"}
    assert len(airflow.events("whole")) == 1

    # A split between runs: the parents end, their children are read on in the same run.
    [shard] = list(airflow.kinesis.list_shards(StreamName="whole")["Shards"])[:1]
    middle = (int(shard["HashKeyRange"]["StartingHashKey"]) + int(shard["HashKeyRange"]["EndingHashKey"])) // 2
    airflow.kinesis.split_shard(StreamName="whole", ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle))
    sent = sorted(sent + airflow.put("whole", 300, 500))
    last, state = airflow.run("whole")
    assert state == "success"
    assert airflow.output("whole") == sent
    assert airflow.xcom("whole", last, "commit", "committed")["completed"] == 1
    completed = {lease.shard_id for lease in airflow.leases("whole") if lease.completed}
    assert completed == {shard["ShardId"]}


@pytest.mark.long
def test_failed_work_moves_nothing_and_the_next_run_finishes_the_same_batch(airflow: Deployment) -> None:
    # R93: the run that takes over has no read task at all, also when it is tried again.
    airflow.create_stream("failing")
    sent = airflow.put("failing", 0, 50)
    told = airflow.tell("fail-failing")
    first, state = airflow.run("failing")
    states = airflow.states("failing", first)
    assert (state, states["work"], states["commit"], states["report"]) == (
        *("failed", "failed"),
        *("upstream_failed", "upstream_failed"),
    )
    assert {str(lease.checkpoint) for lease in airflow.leases("failing")} == {"TRIM_HORIZON"}
    assert airflow.events("failing") == []

    told.unlink()
    second, state = airflow.run("failing")
    states = airflow.states("failing", second)
    assert (state, states["read"], states["work"], states["commit"]) == ("success", "skipped", "success", "success")
    assert airflow.xcom("failing", second, "claim", "outcome") == "adopted"
    batch_id = airflow.xcom("failing", first, "freeze", "batch_id")
    assert airflow.xcom("failing", second, "freeze", "batch_id") == batch_id
    assert airflow.batches("failing") == {batch_id: 2}
    assert airflow.output("failing") == sent

    assert airflow.again("failing", second, ["read"]) == "success"  # the task with zero length, once more
    assert airflow.states("failing", second)["read"] == "skipped"

    # Clearing the work of the first run is refused, with the name of who has its batch; nothing moves.
    assert airflow.again("failing", first, ["work"], include_downstream=True) == "failed"
    assert airflow.states("failing", first)["freeze"] == "failed"
    assert second in airflow.log("failing", first, "freeze", attempt=2)
    assert airflow.batches("failing") == {batch_id: 2}


def test_clearing_the_work_of_a_committed_run_replays_it(airflow: Deployment) -> None:
    airflow.create_stream("replayed")
    sent = airflow.put("replayed", 0, 40)
    run_id, state = airflow.run("replayed")
    assert state == "success"
    batch_id = airflow.xcom("replayed", run_id, "freeze", "batch_id")
    positions = {lease.shard_id: str(lease.checkpoint) for lease in airflow.leases("replayed")}
    airflow.put("replayed", 40, 60)

    # freeze is a setup task: clearing the work runs it again, and it opens the next attempt of the same batch.
    assert airflow.again("replayed", run_id, ["work"], include_downstream=True) == "success"
    assert airflow.xcom("replayed", run_id, "freeze", "replay") is True
    assert airflow.batches("replayed") == {batch_id: 2}
    assert airflow.xcom("replayed", run_id, "commit", "committed")["replayed"] is True
    assert {lease.shard_id: str(lease.checkpoint) for lease in airflow.leases("replayed")} == positions
    assert airflow.output("replayed") == sent
    assert len(airflow.events("replayed")) == 1

    # The whole run: the same again, and never new records.
    assert airflow.again("replayed", run_id) == "success"
    assert airflow.batches("replayed") == {batch_id: 3}
    assert airflow.output("replayed") == sent
    assert len(airflow.events("replayed")) == 1


def test_clearing_commit_alone_decides_nothing_again(airflow: Deployment) -> None:
    airflow.create_stream("events")
    airflow.put("events", 0, 10)
    run_id, _ = airflow.run("events")
    assert len(airflow.events("events")) == 1
    rows = airflow.leases("events")
    assert airflow.again("events", run_id, ["commit"]) == "success"
    assert airflow.xcom("events", run_id, "commit", "committed")["newly"] is False
    assert "could not say" not in airflow.log("events", run_id, "commit", 2)  # Airflow told that its event is out
    assert airflow.leases("events") == rows
    assert len(airflow.events("events")) == 1


def test_a_shard_that_cannot_be_read_fails_the_run_after_its_commit(airflow: Deployment) -> None:
    airflow.create_stream("isolated", shards=4)
    airflow.put("isolated", 0, 200)
    sick = airflow.kinesis.list_shards(StreamName="isolated")["Shards"][0]["ShardId"]
    airflow.streams.faults.add(
        "GetRecords", FaultKind.ERROR, stream="isolated", shard=sick, times=1000, error="KMSAccessDeniedException"
    )
    try:
        run_id, state = airflow.run("isolated")
    finally:
        airflow.streams.faults.clear()
    states = airflow.states("isolated", run_id)
    assert (state, states["commit"], states["report"], states["after"]) == ("failed", "success", "failed", "success")
    assert sick in airflow.log("isolated", run_id, "report")
    assert len(airflow.events("isolated")) == 1

    run_id, state = airflow.run("isolated")  # and the next run reads it
    assert state == "success"
    assert len(airflow.output("isolated")) == 200


@pytest.fixture(scope="module", autouse=True)
def beside(airflow: Deployment) -> tuple[str, list[str]]:
    """A run over an interval, and what was sent. It waits until a minute after its end, while other tests go on."""
    airflow.create_stream("interval")
    sent = airflow.put("interval", 0, 60)
    end = datetime.now(UTC) + timedelta(seconds=1)
    conf = {"batch.from": (end - timedelta(hours=1)).isoformat(), "batch.to": end.isoformat()}
    return airflow.start(INTERVAL, conf=conf, run_id=RUN), sent


def test_an_interval_is_read_beside_the_live_application(airflow: Deployment, beside: tuple[str, list[str]]) -> None:
    run_id, sent = beside

    # The live application reads the same records, from its own checkpoints.
    _, state = airflow.run(INTERVAL)
    assert state == "success"
    assert airflow.client.wait_for_run(INTERVAL, run_id, 300) == "success"
    assert airflow.output("interval") == sorted(sent + sent)
    assert sorted(event["extra"]["mode"] for event in airflow.events("interval")) == ["incremental", "interval"]


def test_a_read_that_is_ended_by_hand_stops_and_the_next_run_goes_on(airflow: Deployment) -> None:
    airflow.create_stream("stopped")
    sent = airflow.put("stopped", 0, 20)
    throttled = "ProvisionedThroughputExceededException"
    fault = airflow.streams.faults.add("GetRecords", FaultKind.ERROR, stream="stopped", times=100_000, error=throttled)
    try:
        run_id = airflow.start("stopped")
        airflow.client.wait_for_task("stopped", run_id, "batch.read[0]", ["running"])
        wait_until(lambda: fault not in airflow.streams.faults.waiting(), 60, "a read to be refused")
        airflow.client.mark_run("stopped", run_id, "failed")
        wait_until(
            lambda: "told to stop" in airflow.log("stopped", run_id, "read", map_index=0), 60, "the read to stop"
        )
    finally:
        airflow.streams.faults.clear()
    _, state = airflow.run("stopped")
    assert (state, airflow.output("stopped")) == ("success", sent)


@pytest.mark.parametrize(
    ("dag_id", "conf", "named"),
    [
        ("no_stream", {}, "nowhere"),
        ("no_connection", {}, "absent"),
        ("shapes", {"batch.form": 1}, "batch.form"),
        ("shapes", {"batch.mode": "interval"}, "CronDataIntervalTimetable"),
    ],
)
def test_bad_input_fails_the_claim_at_once_and_names_the_thing(
    airflow: Deployment, dag_id: str, conf: dict[str, object], named: str
) -> None:
    run_id, state = airflow.run(dag_id, conf=conf)
    assert state == "failed"
    assert airflow.states(dag_id, run_id)["claim"] == "failed"
    task = airflow.client.wait_for_task(dag_id, run_id, "batch.claim", ["failed"])
    assert task["try_number"] == 1
    assert named in airflow.log(dag_id, run_id, "claim")


def test_a_missing_staging_folder_is_named_and_never_made(airflow: Deployment) -> None:
    run_id, state = airflow.run("no_staging")
    assert (state, airflow.states("no_staging", run_id)["claim"]) == ("failed", "failed")
    log = airflow.log("no_staging", run_id, "claim")
    assert f"The staging folder file://{airflow.folder}/missing/too does not exist, nor does the folder" in log
    assert airflow.client.wait_for_task("no_staging", run_id, "batch.claim", ["failed"])["try_number"] == 1
    assert not (airflow.folder / "missing").exists()
    # The link stands there after a failure, too.
    address = f"/plugin/streams#/app/{store_digest(SQLLeases('leases_local'))}/test/no_staging"
    assert airflow.links("no_staging", run_id, "claim") == {"Batch": address}


def test_no_secret_and_no_record_in_metadata_or_logs(airflow: Deployment) -> None:
    airflow.create_stream("killed")
    airflow.kinesis.put_records(
        StreamName="killed", Records=[{"Data": b"s3cr3t-of-a-record", "PartitionKey": str(key)} for key in range(5)]
    )
    run_id, state = airflow.run("killed")
    assert state == "success"
    assert len(airflow.leases("killed", app_name="2026")) == 2
    pushed = airflow.metadata_rows("SELECT value::text FROM xcom WHERE dag_id = 'killed'")
    rendered = airflow.metadata_rows("SELECT rendered_fields::text FROM rendered_task_instance_fields")
    serialized = airflow.metadata_rows("SELECT data::text FROM serialized_dag")
    seen = "".join(str(row) for row in [*pushed, *rendered, *serialized])
    logs = (airflow.folder / "home" / "logs" / "dag_id=killed").rglob("*.log")
    seen += "".join(path.read_text("utf-8") for path in logs)
    assert run_id in seen
    assert "s3cr3t" not in seen
