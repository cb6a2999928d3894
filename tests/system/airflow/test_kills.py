# SPDX-License-Identifier: Apache-2.0
"""Task processes, and their supervisors, that are killed in a real Airflow: whoever goes on, every record comes once.

All cases run side by side, each a DAG of its own on a stream that splits; the tests look at what came of them.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import GROUP, Deployment
from tests.support.committed import committed
from tests.support.deadly import Orders
from tests.system.airflow.kill_cases import CASES, REPEATED, Case

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1500)]

#: Seconds for all cases together.
PATIENCE = 700.0
FINISHED = ("success", "failed")

ALL = [
    *(pytest.param(case, id=case.dag_id) for case in CASES),
    *(pytest.param(case, id=case.dag_id, marks=pytest.mark.long) for case in REPEATED),
]
each_case = pytest.mark.parametrize("case", ALL)


@dataclass
class Story:
    """What happened to one case: its runs in order, states of the first at its first end, and of the last."""

    case: Case
    sent: list[str]
    positions: dict[str, str]
    orders: Orders
    runs: list[str] = field(default_factory=list)
    first: dict[str, str | None] = field(default_factory=dict)
    first_state: str = ""
    last: dict[str, str | None] = field(default_factory=dict)
    state: str = ""
    cleared: bool = False
    marked: bool = False
    over: bool = False
    seen: list[str] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)

    @property
    def committed(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.state is BatchState.COMMITTED]


@pytest.fixture(scope="module")
def stories(airflow: Deployment, request: pytest.FixtureRequest) -> dict[str, Story]:
    chosen = [getattr(item, "callspec", None) for item in request.session.items if item.module is request.module]
    cases = {found.params["case"].dag_id: found.params["case"] for found in chosen if found is not None}
    told = [_begin(airflow, case) for case in cases.values()]
    deadline = time.monotonic() + PATIENCE
    while (waiting := {story.case.dag_id: story for story in told if not story.over}) and time.monotonic() < deadline:
        runs = _runs(airflow, list(waiting))
        for dag_id, story in waiting.items():
            _go_on(airflow, story, runs[dag_id])
        time.sleep(0.5)
    seen = committed(airflow.folder / "out" / story.case.dag_id for story in told)
    for story in told:
        story.seen = seen[story.case.dag_id]
        _look(airflow, story)
    return {story.case.dag_id: story for story in told}


def _begin(airflow: Deployment, case: Case) -> Story:
    """Fills a stream that splits in between, says where to die, and lets the DAG run."""
    name = case.dag_id
    airflow.create_stream(name)
    last: dict[str, str] = {}
    sent = _put(airflow, name, 0, 30, last)
    [parent, _] = airflow.kinesis.list_shards(StreamName=name)["Shards"]
    keys = parent["HashKeyRange"]
    middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
    airflow.kinesis.split_shard(StreamName=name, ShardToSplit=parent["ShardId"], NewStartingHashKey=str(middle))
    sent += _put(airflow, name, 30, 60, last)
    assert len(last) == 4
    orders = Orders(airflow.folder, name)
    inside = f"inside-{name}" if case.spark and case.place == "working" else ""
    if inside:
        airflow.tell(f"hold-{name}")
    orders.arm(case.order, supervisor=case.supervisor, when=inside)
    airflow.client.wait_for_dag(name)
    if case.healing != "next":
        airflow.client.trigger(name)
    return Story(case, sorted(sent), last | {parent["ShardId"]: "SHARD_END"}, orders)


def _put(airflow: Deployment, name: str, first: int, last: int, positions: dict[str, str]) -> list[str]:
    data = [f"r{number}" for number in range(first, last)]
    records = [{"Data": text.encode(), "PartitionKey": text} for text in data]
    for answer in airflow.kinesis.put_records(StreamName=name, Records=records)["Records"]:
        positions[answer["ShardId"]] = answer["SequenceNumber"]
    return data


def _runs(airflow: Deployment, dag_ids: list[str]) -> dict[str, list[dict[str, Any]]]:
    asked = {"dag_ids": dag_ids, "page_limit": 2 * len(dag_ids), "order_by": "run_after"}
    found: dict[str, list[dict[str, Any]]] = {dag_id: [] for dag_id in dag_ids}
    for run in airflow.client.call("POST", "dags/~/dagRuns/list", asked)["dag_runs"]:
        found[run["dag_id"]].append(run)
    return found


def _go_on(airflow: Deployment, story: Story, runs: list[dict[str, Any]]) -> None:
    """Looks how far a case is, and does what its person does."""
    case, dag_id = story.case, story.case.dag_id
    story.runs = [run["dag_run_id"] for run in runs]
    if case.by_hand and not story.marked and story.orders.obeyed(case.order):
        airflow.client.mark_task(dag_id, story.runs[0], f"{GROUP}.{case.task}", "failed")
        story.marked = True
    if not runs or runs[0]["state"] not in FINISHED:
        return
    if not story.first:
        story.first, story.first_state = airflow.states(dag_id, story.runs[0]), runs[0]["state"]
    if case.healing == "cleared" and not story.cleared:
        airflow.client.clear(dag_id, story.runs[0], only_failed=True)
        story.cleared = True
    elif case.healing != "next" or (len(runs) == 2 and runs[1]["state"] in FINISHED):
        story.state = runs[-1]["state"]
        story.over = True


def _look(airflow: Deployment, story: Story) -> None:
    name = story.case.dag_id
    story.last = airflow.states(name, story.runs[-1]) if story.runs else {}
    story.leases = airflow.leases(name)
    store = SQLStore(f"sqlite:///{airflow.folder / 'leases.db'}", create=False)
    try:
        story.batches = list(store.list(BATCH, Namespace("test", name)))
    finally:
        store.close()
    story.events = Counter(event["extra"]["batch_id"] for event in airflow.events(name))


@each_case
def test_every_record_is_read_once_by_readers_of_what_is_committed(stories: dict[str, Story], case: Case) -> None:
    story = stories[case.dag_id]
    assert story.orders.obeyed(case.order)
    assert story.over, (story.first, story.last)
    killed = "success" if case.healing == "retried" else "failed"
    assert (story.first_state, story.state) == (killed, "success"), (story.first, story.last)
    assert story.first[case.task] == killed, story.first
    assert story.seen == story.sent


@each_case
def test_no_lease_is_held_and_checkpoints_are_where_the_stream_ended(stories: dict[str, Story], case: Case) -> None:
    leases = stories[case.dag_id].leases
    assert {lease.shard_id: str(lease.checkpoint) for lease in leases} == stories[case.dag_id].positions
    assert [lease for lease in leases if lease.lease_owner or lease.pending or lease.batch_id] == []
    assert [lease.completed for lease in leases] == [str(lease.checkpoint) == "SHARD_END" for lease in leases]


@each_case
def test_one_batch_is_committed_and_none_is_left_open(stories: dict[str, Story], case: Case) -> None:
    story = stories[case.dag_id]
    [batch] = story.committed
    assert batch.records == len(story.sent)
    # What was stamped and never had a row never will have one.
    void = [BatchState.VOID] if case.place in ("after-stamped", "before-frozen") else []
    assert Counter(row.state for row in story.batches) == Counter([BatchState.COMMITTED, *void])


@each_case
def test_a_committed_batch_has_one_event(stories: dict[str, Story], case: Case) -> None:
    story = stories[case.dag_id]
    [batch] = story.committed
    # An event belongs to the task of the run that decided: when that is dead and nobody clears it, there is none.
    unsaid = case.healing == "next" and case.place in ("after-decided", "after-rolled", "end-of-commit")
    assert story.events == ({} if unsaid else {batch.batch_id: 1})
