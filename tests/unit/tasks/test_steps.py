# SPDX-License-Identifier: Apache-2.0
"""The tasks of a batch one after the other, as a run takes them: what each skips, refuses, tells and tries again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import KinesisStream, Policies, SQLLeases, Staging, StreamBatch, errors
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.core.start import Work
from shardbatch.operators import commit as commits
from shardbatch.operators.commit import CommitOperator
from shardbatch.stores.sql import SQLStore
from shardbatch.tasks import steps as hooked
from tests.support.scripted import ScriptedStream
from tests.support.statsd import StatsD
from tests.support.waiting import wait_until

WORK = "orders.work"


class Kept(dict[str, Any]):
    """The state store of the group's asset."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


@dataclass
class Runs:
    """A DAG with one group, whose tasks are executed here; ``states`` is what Airflow says of a run's tasks.

    Airflow keeps no notes of theirs from try to try, as it keeps none of a task that is cleared; ``events`` are those
    that it made.
    """

    dag: DAG
    stream: ScriptedStream
    folder: Path
    states: dict[str, dict[str, str | None]] = field(default_factory=lambda: defaultdict(dict))
    finished: set[str] = field(default_factory=set)
    pushed: dict[str, dict[tuple[str, str], Any]] = field(default_factory=lambda: defaultdict(dict))
    tries: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    events: list[dict[str, Any]] = field(default_factory=list)
    confs: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    kept: Kept = field(default_factory=Kept)
    types: dict[str, str] = field(default_factory=lambda: defaultdict(lambda: "scheduled"))
    interval: tuple[Any, Any] = (None, None)

    def execute(self, run: str, name: str, clearing: int = 0, dies_at: str = "") -> Any:
        """One try of a task; ``dies_at`` is the output at which its worker dies, ``end`` after its last line."""
        task, pushed = self.dag.get_task(f"orders.{name}"), self.pushed[run]
        task = task if name != "read" else task.unmap({"entry": pushed["orders.claim", "return_value"][0]})

        def push(key: str, value: Any) -> None:
            if key == dies_at:
                raise SystemExit("killed")
            pushed[task.task_id, key] = value

        def pull(task_ids: Any, key: str = "return_value", map_indexes: Any = None) -> Any:
            found = [pushed.get((one, key)) for one in ([task_ids] if isinstance(task_ids, str) else task_ids)]
            return found[0] if isinstance(task_ids, str) and map_indexes is None else found

        outlets: Any = defaultdict(SimpleNamespace)
        self.tries[run, name] += 1
        context: Any = {
            "ti": SimpleNamespace(
                dag_id="d", run_id=run, xcom_push=push, xcom_pull=pull, try_number=self.tries[run, name]
            ),
            "dag_run": SimpleNamespace(
                dag_id="d",
                run_id=run,
                run_type=self.types[run],
                conf=self.confs[run],
                data_interval_start=self.interval[0],
                data_interval_end=self.interval[1],
                clear_number=clearing,
                start_date=None,
            ),
            "params": {},
            "outlet_events": outlets,
            "asset_state_store": defaultdict(lambda: self.kept),
        }
        if name == "freeze":  # templates of the task
            task.handed = pushed.get(("orders.claim", "batch_id"))
            task.claim_id = pushed.get(("orders.claim", "claim_id"))
        before = list(task.outlets) if name == "commit" else []
        try:
            answer = task.execute(context)
            push("end", None)
            pushed[task.task_id, "return_value"] = answer
            if name == "commit" and task.outlets:
                self.events += [event.extra for event in outlets.values()]
        finally:
            if name == "commit":
                task.outlets = before
        return answer

    def leases(self) -> list[Any]:
        """The lease rows of all scopes."""
        store = SQLStore(f"sqlite:///{self.folder / 'leases.db'}", create=False)
        try:
            return list(store.list(SHARD_LEASE, Namespace("etl", "orders"), None))
        finally:
            store.close()

    def upto(self, run: str, last: str, **more: Any) -> Any:
        """The tasks of a run up to one; its answer."""
        names = ("claim", "read", "freeze", "commit")
        for name in names[: names.index(last)]:
            self.execute(run, name)
        return self.execute(run, last, **more)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, connection: Callable[..., None], tmp_path: Path) -> Runs:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    (tmp_path / "staging").mkdir()
    stream = ScriptedStream()
    monkeypatch.setattr(KinesisStream, "open", lambda *_: stream)
    with (
        DAG("d", schedule=None) as dag,
        StreamBatch(
            "orders",
            app_name="etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("leases_db"),
            staging=Staging(str(tmp_path / "staging")),
            policies=Policies(sink="own"),
        ),
    ):
        EmptyOperator(task_id="work") >> EmptyOperator(task_id="notify", trigger_rule="all_done")
    made = Runs(dag, stream, tmp_path)

    def run_state(dag_id: str, run_id: str) -> str:
        return "success" if run_id in made.finished else "running"

    def task_states(dag_id: str, run_ids: list[str], task_ids: list[str] | None = None) -> dict[str, Any]:
        ours = dict.fromkeys(f"orders.{name}" for name in ("claim", "read", "freeze", "commit"))
        known = {**ours, **made.states[run_ids[0]]}
        return {run_ids[0]: {key: state for key, state in known.items() if task_ids is None or key in task_ids}}

    def is_out(asset: Asset, batch_id: str, sent_ms: int) -> bool:
        return any(extra["batch_id"] == batch_id for extra in made.events)

    monkeypatch.setattr(commits, "is_out", is_out)
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(run_state))
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(task_states))
    return made


def skipped(runs: Runs, run: str, name: str) -> list[Any]:
    with pytest.raises(DownstreamTasksSkipped) as caught:
        runs.execute(run, name)
    return list(caught.value.tasks)


def test_a_run_that_can_take_nothing_skips_the_whole_group(runs: Runs) -> None:
    runs.stream.put("a")
    runs.execute("r1", "claim")
    rest = [f"orders.{name}" for name in ("commit", "freeze", "notify", "read", "report", "work")]
    assert skipped(runs, "r2", "claim") == rest
    assert runs.pushed["r2"]["orders.claim", "outcome"] == "held"
    assert runs.pushed["r2"]["orders.claim", "return_value"] == []  # a claim before it was cleared may have left more


def test_a_batch_without_records_skips_the_work_and_is_committed(runs: Runs) -> None:
    (parent,) = runs.stream.list_shards()
    runs.stream.split(parent.shard_id)
    runs.execute("r1", "claim")
    runs.execute("r1", "read")
    assert skipped(runs, "r1", "freeze") == ["orders.notify", WORK]
    frozen = runs.pushed["r1"]
    assert frozen["orders.freeze", "batch_id"] is not None
    assert frozen["orders.freeze", "record_count"] == 0
    runs.states["r1"] = {WORK: "skipped", "orders.notify": "skipped"}
    runs.execute("r1", "commit")
    assert frozen["orders.commit", "committed"]["completed"] == 1
    assert runs.events == []


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({WORK: "failed", "orders.notify": "success"}, "orders.work failed"),
        ({WORK: "upstream_failed", "orders.notify": "success"}, "orders.work failed"),
        ({WORK: "up_for_retry", "orders.notify": "success"}, "orders.work has not ended"),
        ({WORK: None, "orders.notify": "success"}, "orders.work has not ended"),
        ({WORK: "skipped", "orders.notify": "skipped"}, "no work succeeded"),
    ],
)
def test_commit_refuses_while_the_work_is_not_done_and_nothing_moves(
    runs: Runs, states: dict[str, str | None], said: str
) -> None:
    runs.stream.put("a", "b")
    runs.upto("r1", "freeze")
    runs.states["r1"] = states
    with pytest.raises(AirflowFailException, match=said):
        runs.execute("r1", "commit")
    runs.states["r1"] = {WORK: "success", "orders.notify": "success"}
    runs.execute("r1", "commit")
    committed = runs.pushed["r1"]["orders.commit", "committed"]
    # Airflow never runs these two tasks, so nobody marked them.
    assert (committed["records"], committed["note"]) == (2, None)


def test_a_cleared_freeze_whose_batch_went_to_another_run_fails_for_good(runs: Runs) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.finished.add("r1")
    runs.execute("r2", "claim")
    assert runs.pushed["r2"]["orders.claim", "outcome"] == "adopted"
    runs.execute("r2", "freeze")
    runs.states["r2"] = {WORK: "success"}
    runs.execute("r2", "commit")
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"belongs to .*r2"):
            runs.execute("r1", "freeze")  # not an empty batch, after which all would be green


def test_a_freeze_that_died_at_its_end_and_whose_batch_went_to_another_run_fails_for_good(runs: Runs) -> None:
    runs.stream.put("a")
    with pytest.raises(SystemExit):
        runs.upto("r1", "freeze", dies_at="batch_id")
    runs.finished.add("r1")
    runs.states["r2"] = {WORK: "success"}
    for name in ("claim", "freeze", "commit"):
        runs.execute("r2", name)
    with pytest.raises(AirflowFailException, match=r"belongs to .*r2"):
        runs.execute("r1", "freeze")


def test_a_cleared_freeze_does_not_take_a_batch_back_from_the_run_that_replays_it_since(runs: Runs) -> None:
    runs.stream.put("a")
    for run in ("r1", "r2", "r3"):
        runs.states[run] = {WORK: "success"}
    runs.upto("r1", "commit")
    for run in ("r2", "r3"):
        runs.confs[run] = {"orders.replay": runs.pushed["r1"]["orders.freeze", "batch_id"]}
    runs.finished.add("r1")
    for name in ("claim", "freeze"):
        runs.execute("r2", name)
    runs.finished.add("r2")
    for name in ("claim", "freeze", "commit"):
        runs.execute("r3", name)
    runs.finished.add("r3")
    with pytest.raises(AirflowFailException, match=r"belongs to .*r3"):
        runs.execute("r2", "freeze")
    for name in ("claim", "freeze"):  # the whole run was cleared: it is told to replay once more
        runs.execute("r2", name)
    assert runs.pushed["r2"]["orders.freeze", "attempt"] == 4


@pytest.mark.parametrize(
    "error",
    [errors.AttemptAlive, errors.OwnerUnknown, errors.StagingError, errors.StoreError, errors.SourceError],
)
def test_what_a_retry_may_mend_is_left_to_the_retry(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, error: type[errors.ShardbatchError]
) -> None:
    monkeypatch.setattr(hooked.Steps, "claim", raising(error))
    with pytest.raises(error):
        runs.execute("r1", "claim")


@pytest.mark.parametrize(
    "error",
    [errors.LeaseLost, errors.GapFound, errors.StreamRecreated, errors.UnsupportedSchema, errors.BatchParked],
)
def test_what_no_retry_can_mend_ends_the_task_at_once_and_says_what_to_do(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, error: type[errors.ShardbatchError]
) -> None:
    monkeypatch.setattr(hooked.Steps, "claim", raising(error))
    with pytest.raises(AirflowFailException) as caught:
        runs.execute("r1", "claim")
    assert error.remedy in str(caught.value)


def raising(error: type[errors.ShardbatchError]) -> Callable[..., Any]:
    def step(*_: Any) -> Any:
        raise error

    return step


@pytest.mark.parametrize("clearing", [0, 1], ids=["retried", "cleared"])
@pytest.mark.parametrize("dies_at", ["decision", "committed", "end"])
def test_the_event_of_a_commit_that_died_after_its_decision_is_made_by_the_next_try(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, dies_at: str, clearing: int
) -> None:
    runs.stream.put("a", "b")
    runs.upto("r1", "freeze")
    runs.states["r1"] = {WORK: "success"}
    with monkeypatch.context() as patch:
        if dies_at == "decision":
            patch.setattr(import_module("shardbatch.run.commit"), "mark", dying)
        with pytest.raises(SystemExit):
            runs.execute("r1", "commit", dies_at=dies_at)
    assert runs.events == []
    runs.execute("r1", "commit", clearing=clearing)
    assert not runs.pushed["r1"]["orders.commit", "committed"]["newly"]
    for again in (clearing + 1, clearing + 1, clearing + 2):
        runs.execute("r1", "commit", clearing=again)
    (event,) = runs.events
    assert event["records"] == 2


@pytest.mark.parametrize("committed", [False, True], ids=["frozen", "committed"])
def test_a_run_that_a_backfill_processes_again_finishes_or_replays_its_batch_and_reads_no_interval(
    runs: Runs, committed: bool, statsd: StatsD
) -> None:
    runs.stream.put("a", "b")
    runs.states["r1"] = {WORK: "success"}
    runs.upto("r1", "commit" if committed else "freeze")
    batch_id = runs.pushed["r1"]["orders.freeze", "batch_id"]
    runs.types["r1"] = "backfill"  # its id, and all else, stays
    runs.interval = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC))
    assert runs.execute("r1", "claim", clearing=1) == []
    assert runs.pushed["r1"]["orders.claim", "outcome"] == ("replay" if committed else "own_batch")
    runs.execute("r1", "freeze", clearing=1)
    assert runs.pushed["r1"]["orders.freeze", "batch_id"] == batch_id
    runs.execute("r1", "commit", clearing=1)
    done = runs.pushed["r1"]["orders.commit", "committed"]
    assert (done["batch_id"], done["records"], done["newly"]) == (batch_id, 2, not committed)
    last = "shardbatch.step.duration"
    wait_until(lambda: len([sent for sent in statsd.sent(step="commit") if sent.name == last]) > committed, 10, "all")
    assert {sent.tags["mode"] for sent in statsd.sent()} == {"incremental"}


def test_a_run_without_a_batch_reads_its_interval_if_a_backfill_processes_it_again(runs: Runs) -> None:
    runs.execute("r1", "claim")
    runs.execute("r1", "read")
    runs.types["r1"] = "backfill"
    now = datetime.fromtimestamp(runs.stream.now_ms // 1000, UTC)
    runs.interval = (now - timedelta(hours=2), now - timedelta(hours=1))
    assert len(runs.execute("r1", "claim", clearing=1)) == 1
    scopes = {row.scope for row in runs.leases()}
    assert len(scopes) == 2  # side leases stand beside those of the live application


def dying(*_: Any) -> None:
    raise SystemExit("killed")


def test_a_replay_by_another_run_makes_the_event_that_the_commit_of_its_batch_did_not(runs: Runs) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.states["r1"] = runs.states["r2"] = {WORK: "success"}
    with pytest.raises(SystemExit):
        runs.execute("r1", "commit", dies_at="committed")
    runs.finished.add("r1")
    runs.confs["r2"] = {"orders.replay": runs.pushed["r1"]["orders.freeze", "batch_id"]}
    for name in ("claim", "freeze", "commit"):
        runs.execute("r2", name)
    with pytest.raises(AirflowFailException, match="r2"):
        runs.execute("r1", "commit", clearing=1)  # and its own run makes no second one
    assert len(runs.events) == 1


def test_a_batch_makes_one_event_and_its_replay_none(runs: Runs) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.states["r1"] = {WORK: "success"}
    runs.execute("r1", "commit")
    assert len(runs.events) == 1
    runs.execute("r1", "freeze")
    runs.execute("r1", "commit", clearing=1)
    assert runs.pushed["r1"]["orders.commit", "committed"]["replayed"]
    assert len(runs.events) == 1


def test_a_run_that_replays_the_batch_of_another_makes_no_event_although_its_commit_died(runs: Runs) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.states["r1"] = {WORK: "success"}
    runs.execute("r1", "commit")
    runs.finished.add("r1")
    runs.confs["r2"] = {"orders.replay": runs.pushed["r1"]["orders.freeze", "batch_id"]}
    runs.states["r2"] = {WORK: "success"}
    for name in ("claim", "freeze"):
        runs.execute("r2", name)
    with pytest.raises(SystemExit):
        runs.execute("r2", "commit", dies_at="committed")
    runs.execute("r2", "commit")
    assert runs.pushed["r2"]["orders.commit", "committed"]["records"] == 1
    assert len(runs.events) == 1


def test_a_commit_and_an_empty_run_copy_the_watermark_and_only_the_commit_makes_an_event(runs: Runs) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.states["r1"] = {WORK: "success"}
    runs.execute("r1", "commit")
    (event,) = runs.events
    resets, first_ms = runs.kept["committed_up_to"]
    assert resets == 0
    assert event["committed_up_to_ms"] == first_ms
    assert datetime.fromisoformat(event["committed_up_to"]).timestamp() * 1000 == first_ms
    assert runs.kept["watermark"] == event
    runs.finished.add("r1")
    runs.stream.now_ms += 600_000
    with pytest.raises(DownstreamTasksSkipped):
        runs.upto("r2", "freeze")
    runs.execute("r2", "commit")
    assert runs.kept["committed_up_to"] == [0, first_ms + 600_000]
    assert len(runs.events) == 1


@pytest.mark.parametrize(("mode", "kept"), [("incremental", {"watermark": "b1"}), ("interval", {})])
def test_only_a_live_run_moves_the_watermark_that_an_asset_shows(mode: str, kept: dict[str, str]) -> None:
    """An interval's places are of long ago."""
    asset, seen = Asset("flights"), {}
    task = CommitOperator(
        task_id="commit", app_name="etl", stream=KinesisStream("orders"), leases=SQLLeases("leases_db"),
        staging=Staging("/staging"), freeze_task="freeze", outlets=[asset],
    )  # fmt: skip
    store = SimpleNamespace(set=lambda name, extra: seen.update({name: extra["batch_id"]}))
    context: Any = {"outlet_events": defaultdict(SimpleNamespace), "asset_state_store": {asset: store}}
    task._publish(context, {"batch_id": "b1", "records": 1, "mode": mode}, sends=True)
    assert seen == kept
    assert context["outlet_events"][asset].extra["batch_id"] == "b1"


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed"])
def test_a_replay_that_no_commit_would_record_is_refused_before_the_work_starts(runs: Runs, state: str) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.states["r1"] = {WORK: "success"}
    runs.execute("r1", "commit")
    before = runs.pushed["r1"]["orders.freeze", "attempt"]
    runs.states["r1"] = {WORK: None, "orders.commit": state}
    with pytest.raises(
        AirflowFailException, match=rf"orders.commit is {state} and was not cleared.*include_downstream"
    ):
        runs.execute("r1", "freeze")
    assert runs.pushed["r1"]["orders.freeze", "attempt"] == before
    runs.states["r1"] = {WORK: None, "orders.commit": None}  # cleared with downstream
    runs.execute("r1", "freeze")
    assert runs.pushed["r1"]["orders.freeze", "attempt"] == before + 1


def test_an_uncommitted_batch_goes_on_whatever_became_of_commit(runs: Runs) -> None:
    runs.stream.put("a")
    runs.upto("r1", "freeze")
    runs.states["r1"] = {WORK: "failed", "orders.commit": "upstream_failed"}
    runs.execute("r1", "freeze")
    assert runs.pushed["r1"]["orders.freeze", "attempt"] == 2


def test_commit_counts_the_task_instances_that_ended_as_a_success(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def commit(steps: Any, batch_id: str, attempt: int, works: list[Work]) -> Any:
        asked.extend(works)
        raise errors.StagingError("stop here")

    runs.stream.put("a")
    runs.upto("r1", "freeze")
    monkeypatch.setattr(hooked.Steps, "commit", commit)
    task = runs.dag.get_task("orders.commit")
    task.work = [WORK, "orders.notify", "orders.each", "orders.other"]
    task.given, task.idle = [WORK, "orders.each"], ["orders.notify"]
    states = {WORK: "success", "orders.notify": "success", "orders.other": "skipped"}
    instances = {"orders.each_0": "success", "orders.each_1": "removed", "orders.each_2": "skipped"}
    monkeypatch.setattr("shardbatch.operators.commit.task_states", lambda *_: {**states, **instances})
    with pytest.raises(errors.StagingError):
        runs.execute("r1", "commit")
    assert asked == [Work("orders.each[0]"), Work("orders.notify", given=False, runs=False), Work(WORK)]
