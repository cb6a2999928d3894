# SPDX-License-Identifier: Apache-2.0
"""A claim that waits for something to claim: away from its worker, against one deadline, and taking nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import KinesisStream, Policies, SQLLeases, Staging, StreamBatch
from shardbatch.core.metrics import GAPS
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.errors import ConfigurationError, SourceError
from shardbatch.operators import claim as module
from shardbatch.operators.claim import ClaimOperator
from shardbatch.operators.claim_wait import EVERY_S, LONGEST_PAUSE_S, ClaimWait
from shardbatch.operators.come_back import SLACK
from shardbatch.operators.read import ReadOperator
from shardbatch.stores.sql import SQLStore
from shardbatch.tasks.metrics import Meter
from shardbatch.triggers import AskingToClaim, TimePassed
from tests.support.scripted import ScriptedStream
from tests.support.statsd import StatsD
from tests.support.waiting import wait_until

WAIT = timedelta(minutes=10)
REACHED = {"outcome": "reached", "told": {"why": "a shard"}}


class Kept(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


class World:
    """An application that has read all there is, and runs whose claims wait."""

    def __init__(self, folder: Path, stream: ScriptedStream, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.stream = folder, stream
        self.kept: dict[str, Kept] = {}
        self.clears: dict[str, int] = {}
        self.confs: dict[str, dict[str, Any]] = {}
        self.over: set[str] = set()
        self.pushed: dict[str, Any] = {}
        state = staticmethod(lambda dag_id, run_id: "success" if run_id in self.over else "running")
        monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", state)
        states = staticmethod(lambda dag_id, run_ids, task_ids=None: {run_ids[0]: {}})
        monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)

    def task(self, kind: Any = ClaimOperator, **more: Any) -> Any:
        given: dict[str, Any] = {"wait": WAIT} if kind is ClaimOperator else {}
        return kind(
            task_id=kind.__name__, app_name="etl", stream=KinesisStream("orders"), leases=SQLLeases("leases_db"),
            staging=Staging(str(self.folder / "staging")), **{**given, **more},
        )  # fmt: skip

    def context(self, run: str) -> Any:
        dag_run = SimpleNamespace(
            dag_id="d", run_id=run, run_type="manual", conf=self.confs.get(run, {}), start_date=None,
            clear_number=self.clears.get(run, 0), data_interval_start=None, data_interval_end=None,
        )  # fmt: skip
        ti = SimpleNamespace(
            dag_id="d", run_id=run, try_number=1, max_tries=3, xcom_pull=lambda **_: None,
            xcom_push=lambda key, value: self.pushed.update({key: value}),
        )  # fmt: skip
        kept = self.kept.setdefault(run, Kept())
        return {"ti": ti, "dag_run": dag_run, "params": {}, "task_state_store": kept}

    def away(self, run: str, order: TaskDeferred | None = None, event: Any = REACHED, **more: Any) -> TaskDeferred:
        """The deferral of a run's claim, of the first or after another one."""
        with pytest.raises(TaskDeferred) as caught:
            self.claims(run, order, event, **more)
        return caught.value

    def claims(self, run: str, order: TaskDeferred | None = None, event: Any = REACHED, **more: Any) -> Any:
        task = self.task(**more)
        if order is None:
            return task.execute(self.context(run))
        return task.resume_execution(order.method_name, {**(order.kwargs or {}), "event": event}, self.context(run))

    def drain(self, run: str) -> None:
        """A whole run of the application reads what there is."""
        for entry in self.claims(run, wait=None):
            self.task(ReadOperator, entry=entry).execute(self.context(run))
        self.over.add(run)

    def owners(self) -> set[str | None]:
        store = SQLStore(f"sqlite:///{self.folder / 'leases.db'}", create=False)
        try:
            return {row.lease_owner for row in store.list(SHARD_LEASE, Namespace("etl", "orders"))}  # type: ignore[attr-defined]
        finally:
            store.close()


@pytest.fixture
def world(connection: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    (tmp_path / "staging").mkdir()
    stream = ScriptedStream(shards=2)
    stream.now_ms = round(time.time() * 1000)
    monkeypatch.setattr(KinesisStream, "open", lambda *_: stream)
    made = World(tmp_path, stream, monkeypatch)
    made.drain("r0")  # the stream is empty: each lease was given back, its tip noted
    assert made.owners() == {None}
    return made


def test_with_nothing_to_claim_it_is_deferred_with_literals_and_has_taken_nothing(world: World) -> None:
    order = world.away("r1")
    path, arguments = order.trigger.serialize()
    assert path == f"{AskingToClaim.__module__}.{AskingToClaim.__name__}"
    assert json.loads(json.dumps(arguments)) == arguments
    assert AskingToClaim(**arguments).serialize() == (path, arguments)
    assert arguments["question"] == {"deployment": "prod", "lease_duration_ms": 300_000}  # the same for all runs
    assert arguments["deadline"] == pytest.approx(time.time() + 600, abs=60)
    assert (arguments["every"], arguments["begin"]) == (EVERY_S, 0)
    assert order.timeout == pytest.approx(WAIT + SLACK, abs=timedelta(minutes=1))
    assert world.owners() == {None}
    assert world.pushed["outcome"] == "leases"  # of the run before: this one has pushed nothing


def test_what_is_there_already_is_claimed_at_once(world: World) -> None:
    world.stream.put("a")
    (entry,) = world.claims("r1")
    assert entry["group"] == "000"
    assert "deadline" in world.kept["r1"]


def test_it_goes_on_when_it_is_called_and_reads_what_came_while_it_waited(world: World) -> None:
    order = world.away("r1")
    world.stream.now_ms = round(time.time() * 1000) + 5
    world.stream.put("a", "b", "c", "d", "e", "f", "g", "h")
    (entry,) = world.claims("r1", order)
    assert int(entry["began"]) == pytest.approx(time.time() * 1000, abs=60_000)
    read = world.task(ReadOperator, entry=entry)
    assert read._began_ms(world.context("r1")) == int(entry["began"])
    assert read.execute(world.context("r1"))["records"] == 8


def test_a_read_without_a_wait_goes_by_the_start_of_its_run(world: World) -> None:
    context = world.context("r1")
    context["dag_run"].start_date = datetime(2026, 1, 1, tzinfo=UTC)
    read = world.task(ReadOperator, entry={"group": "000", "label": "x"})
    assert read._began_ms(context) == 1_767_225_600_000
    (entry,) = world.claims("r1", wait=None)
    assert set(entry) == {"group", "label"}


def test_of_the_runs_that_are_called_one_claims_and_the_others_wait_on_against_their_deadline(world: World) -> None:
    orders = {run: world.away(run) for run in ("r1", "r2")}
    first = orders["r2"].trigger.deadline  # type: ignore[attr-defined]
    world.stream.put("a", "b")
    assert world.claims("r1", orders["r1"])
    again = world.away("r2", orders["r2"])
    trigger: Any = again.trigger
    assert trigger.deadline == first
    assert trigger.begin == pytest.approx(time.time() + EVERY_S, abs=8)  # it does not spin if it is called in vain
    assert (again.kwargs or {})["vain"] == 1


def test_a_claim_in_vain_waits_on_although_something_seemed_to_be_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.stream.put("a")
    world.claims("r1")
    world.stream.put("b")
    monkeypatch.setattr(ClaimWait, "look", lambda *_: SimpleNamespace(reached=True, why="It seems so."))
    world.pushed.clear()
    order = world.away("r2")
    assert world.pushed == {}
    assert order.method_name == "wait_on"


def test_pauses_grow_while_it_is_called_in_vain_and_begin_anew_when_it_was_not(world: World) -> None:
    wait = ClaimWait()
    pauses = []
    for _ in range(6):
        wait = wait.called(REACHED)
        pauses.append(wait.pause)
    assert pauses == [EVERY_S, 2 * EVERY_S, 4 * EVERY_S, *[LONGEST_PAUSE_S] * 3]
    assert wait.called({"outcome": "timeout", "why": ""}).vain == 0
    assert wait.called(10.0).vain == 0


def test_at_the_deadline_it_claims_and_reads_once(world: World) -> None:
    order = world.away("r1")
    world.kept["r1"]["deadline"]["at"] = time.time() - 1
    (entry,) = world.claims("r1", order, {"outcome": "timeout", "why": "Nothing"})
    assert world.task(ReadOperator, entry=entry).execute(world.context("r1"))["stops"] == {"tip": 2}


def test_a_retry_has_the_same_deadline_and_a_cleared_run_one_of_its_own(world: World) -> None:
    deadline = world.away("r1").trigger.deadline  # type: ignore[attr-defined]
    world.kept["r1"]["deadline"]["at"] = deadline = deadline - 100
    assert world.away("r1").trigger.deadline == deadline  # type: ignore[attr-defined]
    world.kept["r1"]["deadline"]["at"] = time.time() - 1
    world.clears["r1"] = 1
    assert world.away("r1").trigger.deadline > time.time() + 500  # type: ignore[attr-defined]


def test_an_own_lease_or_a_first_claim_needs_no_wait(world: World) -> None:
    world.stream.put("a")
    assert world.claims("r1")
    world.task(ReadOperator, entry={"group": "000", "label": "x"}).execute(world.context("r1"))
    assert world.claims("r1")  # it was cleared, and has a slice


def test_an_interval_and_a_replay_do_not_wait(world: World) -> None:
    at = datetime.fromtimestamp(world.stream.now_ms / 1000, UTC)
    world.confs["r1"] = {
        "ClaimOperator.from": (at - timedelta(hours=2)).isoformat(),
        "ClaimOperator.to": (at - timedelta(hours=1)).isoformat(),
    }
    assert world.claims("r1", group_id="ClaimOperator")
    assert world.kept["r1"] == {}


def test_a_stream_that_cannot_be_written_as_literals_is_looked_at_by_the_task(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardbatch.operators.claim_wait.stream_to_json", lambda stream: None)
    order = world.away("r1")
    assert order.trigger.serialize() == (f"{TimePassed.__module__}.TimePassed", {"seconds": EVERY_S})
    again = world.away("r1", order, event=EVERY_S)
    assert isinstance(again.trigger, TimePassed)
    world.stream.put("a")
    assert world.claims("r1", again, event=EVERY_S)


def test_where_the_triggerer_cannot_look_the_task_does_from_time_to_time(world: World) -> None:
    order = world.away("r1")
    again = world.away("r1", order, {"outcome": "failed", "why": "The triggerer cannot import the stream's class x."})
    assert isinstance(again.trigger, TimePassed)
    assert (again.kwargs or {})["alone"]
    third = world.away("r1", again, event=EVERY_S)
    assert isinstance(third.trigger, TimePassed)


def test_without_a_triggerer_it_waits_in_its_worker_and_is_measured_once(
    world: World, monkeypatch: pytest.MonkeyPatch, statsd: StatsD
) -> None:
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            world.stream.put("a")

    monkeypatch.setattr(module, "time", SimpleNamespace(time=time.time, sleep=sleep))
    found = world.task().resume_execution("__fail__", {"error": "Trigger failure"}, world.context("r1"))
    assert len(found) == 1
    assert slept == [EVERY_S, EVERY_S]
    Meter("etl", "orders", "incremental")(GAPS, 1)  # arrives after all that was sent before
    wait_until(lambda: "shardbatch.committed.gaps" in [sent.name for sent in statsd.sent()], 10, "the last metric")
    assert [sent.name for sent in statsd.sent()].count("shardbatch.step.duration") == 1


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(seconds=-1), 60, "1 h"])
def test_a_wait_that_is_no_time_is_refused(world: World, wait: Any) -> None:
    with pytest.raises(ConfigurationError, match="wait="):
        world.task(wait=wait)
    with pytest.raises(ConfigurationError, match=r"StreamBatch 'orders'.*wait="), DAG("d", schedule=None):
        group(wait)


def group(wait: Any) -> StreamBatch:
    return StreamBatch(
        "orders", app_name="etl", stream=KinesisStream("orders"), leases=SQLLeases("leases_db"),
        staging=Staging("/staging"), policies=Policies(sink="own"), wait=wait,
    )  # fmt: skip


def test_a_group_waits_as_its_author_says_and_for_less_than_its_run_may_take() -> None:
    with DAG("d", schedule=None, dagrun_timeout=timedelta(hours=2)) as dag:
        with group(timedelta(hours=1)):
            pass
        claim: Any = dag.get_task("orders.claim")
        assert claim.wait == timedelta(hours=1)
    with DAG("e", schedule=None) as dag:
        with group(None):
            pass
        assert dag.get_task("orders.claim").wait is None  # type: ignore[attr-defined]
    with (
        pytest.raises(ConfigurationError, match="dagrun_timeout"),
        DAG("f", schedule=None, dagrun_timeout=timedelta(hours=1)),
    ):
        group(timedelta(hours=1))


def fired(*triggers: AskingToClaim) -> list[Any]:
    """What they say, all in one triggerer."""

    async def first(trigger: AskingToClaim) -> Any:
        return (await anext(trigger.run())).payload

    async def all_of_them() -> list[Any]:
        return list(await asyncio.wait_for(asyncio.gather(*map(first, triggers)), 30))

    return asyncio.run(all_of_them())


def quick(order: TaskDeferred, **changes: Any) -> AskingToClaim:
    return AskingToClaim(**{**order.trigger.serialize()[1], "every": 0.05, **changes})


def test_the_trigger_calls_once_a_record_came_and_all_that_wait_share_what_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [world.away(f"r{number}") for number in range(1, 9)]
    listings, put = [], world.stream.list_shards

    def listed() -> Any:
        listings.append(time.monotonic())
        if len(listings) == 3:
            world.stream.put("a")
        return put()

    monkeypatch.setattr(world.stream, "list_shards", listed)
    found = fired(*[quick(order) for order in orders])
    assert [event["outcome"] for event in found] == ["reached"] * len(orders)
    assert "records that are not read" in found[0]["told"]["why"]
    assert len(listings) < 2 * len(orders)  # alone, each of them would have made three


def test_the_trigger_ends_at_the_deadline_and_does_not_look_before_it_is_to_begin(world: World) -> None:
    order = world.away("r1")
    reads = len(world.stream.reads)
    began = time.monotonic()
    (late,) = fired(quick(order, begin=time.time() + 0.5, deadline=time.time() + 0.6))
    assert late["outcome"] == "timeout"
    assert time.monotonic() - began >= 0.5
    assert len(world.stream.reads) - reads <= 2 * 4  # two shards, a few looks in the last tenth of a second
    (never,) = fired(quick(order, begin=time.time() + 60, deadline=time.time() + 0.1))
    assert never["outcome"] == "timeout"


def test_the_trigger_waits_on_while_the_stream_refuses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    order = world.away("r1")
    asked = []
    listed = world.stream.list_shards

    def refused() -> Any:
        asked.append(1)
        if len(asked) < 3:
            raise SourceError("refused")
        world.stream.put("a")
        return listed()

    monkeypatch.setattr(world.stream, "list_shards", refused)
    assert fired(quick(order))[0]["outcome"] == "reached"
