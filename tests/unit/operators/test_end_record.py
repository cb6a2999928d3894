# SPDX-License-Identifier: Apache-2.0
"""The end record that a task of the block leaves as its last act."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped
from airflow.serialization.serialized_objects import DagSerialization

from shardbatch import KinesisStream, SQLLeases, Staging, StreamBatch, record_end
from shardbatch.core.rows import Namespace
from shardbatch.core.start import Begun, Start
from shardbatch.errors import StagingError, StartUnfinished
from shardbatch.landing import layout
from shardbatch.operators.end_record import Bound, work_of, works_of
from tests.support.statsd import StatsD
from tests.support.waiting import wait_until

GIVEN: dict[str, Any] = {"app_name": "etl", "stream": KinesisStream("orders"), "leases": SQLLeases("leases")}


@dataclass
class Block:
    """A group's staging folder, what freeze told last, and the hooks of its tasks called as Airflow calls them."""

    staging: Path
    told: dict[str, Any] = field(default_factory=lambda: {"batch_id": "b1", "attempt": 1})

    def group(self, **changes: Any) -> StreamBatch:
        return StreamBatch("orders", **{**GIVEN, "staging": Staging(str(self.staging)), **changes})

    def context(self, one: Any, token: str = "id-1", try_number: int = 1, map_index: int = -1) -> Any:
        pulled = SimpleNamespace(
            id=token,
            task=one,
            task_id=one.task_id,
            map_index=map_index,
            try_number=try_number,
            xcom_pull=lambda task_ids, key: self.told[key] if task_ids == "orders.freeze" else None,
        )
        return {"ti": pulled}

    def start(
        self,
        work: str,
        start_id: str,
        *,
        token: str = "",
        attempt: int = 1,
        done: bool = True,
        outputs: tuple[str, ...] = (),
    ) -> None:
        """What an application leaves."""
        begun = Begun(start_id, attempt, work, token, "0001")
        self._leave(work, layout.BEGUN, begun)
        if done:
            self._leave(work, layout.DONE, Start(start_id, attempt, work, outputs))

    def _leave(self, work: str, kind: str, mark: Begun | Start) -> None:
        folder = self.works / layout.work_folder(work) / kind / layout.start_name(mark.attempt, mark.start_id)
        folder.mkdir(parents=True)
        (folder / "mark.json").write_text(json.dumps(mark.to_json()), "utf-8")

    @property
    def works(self) -> Path:
        return self.staging / layout.works_folder(Namespace("etl", "orders"), "b1")

    def records(self) -> dict[str, list[str]]:
        """The starts of each end record, by its file."""
        found = sorted(self.works.glob("*/ended/*.json"))
        return {
            f"{path.parent.parent.name}/{path.stem}": [
                start["start_id"] for start in json.loads(path.read_text())["starts"]
            ]
            for path in found
        }


@pytest.fixture
def block(tmp_path: Path) -> Block:
    (tmp_path / "staging").mkdir()
    return Block(tmp_path / "staging")


def run(one: Any, context: Any, result: Any = None) -> None:
    one._pre_execute_hook(context)
    end(one, context, result)


def end(one: Any, context: Any, result: Any = None) -> None:
    found = one._post_execute_hook(context, result)
    if isinstance(found, Iterator):
        list(found)


def test_each_task_leaves_it_behind_the_authors_own_hooks(block: Block) -> None:
    seen: list[Any] = []

    def afterwards(context: Any, result: Any) -> Iterator[str]:
        seen.append(result)
        yield "of the author"

    hooks: dict[str, Any] = {
        "pre_execute": lambda context: seen.append("before"),
        "post_execute": lambda context, result: seen.append(result),
    }
    with DAG("d", schedule=None) as made, block.group() as batch:
        task(lambda uri: None, task_id="work", **hooks)(batch.manifest_uri)
        task(lambda uri, item: None, task_id="each", **hooks).partial(uri=batch.manifest_uri).expand(item=[1, 2])
        task(lambda uri: None, task_id="yields", post_execute=afterwards)(batch.manifest_uri)
    work, each = made.get_task("orders.work"), made.get_task("orders.each").unmap({"op_kwargs": {"item": 1}})
    block.start("orders.work", "s1", token="id-1")
    block.start("orders.each[1]", "s2", token="id-2")
    run(work, block.context(work), "first")
    run(each, block.context(each, "id-2", try_number=2, map_index=1), "second")
    yields = made.get_task("orders.yields")
    yields._pre_execute_hook(block.context(yields, "id-3"))
    assert list(yields._post_execute_hook(block.context(yields, "id-3"), "third")) == ["of the author"]
    assert seen == ["before", "first", "before", "second", "third"]
    assert block.records() == {
        "orders.each~5b1~5d/1-2-id-2": ["s2"],
        "orders.work/1-1-id-1": ["s1"],
        "orders.yields/1-1-id-3": [],
    }


def one_task(block: Block) -> Any:
    with DAG("d", schedule=None) as made, block.group() as batch:
        task(lambda uri: None, task_id="work")(batch.manifest_uri)
    return made.get_task("orders.work")


def test_it_tells_of_the_attempt_in_which_the_try_began(block: Block) -> None:
    work = one_task(block)
    context = block.context(work)
    work._pre_execute_hook(context)
    block.start("orders.work", "s1", token="id-1")
    block.told["attempt"] = 2  # the task was cleared, and this one lives on
    end(work, context)
    assert block.records() == {"orders.work/1-1-id-1": ["s1"]}


def test_only_the_starts_of_this_try_stand_in_it(block: Block) -> None:
    work = one_task(block)
    block.start("orders.work", "s1", token="id-1")
    block.start("orders.work", "s2", token="id-2")
    block.start("orders.work", "s3", token="id-3")  # a later try has begun while this one lives on
    run(work, block.context(work, "id-2", try_number=2))
    assert block.records() == {"orders.work/1-2-id-2": ["s2"]}


def test_an_empty_batch_has_none(block: Block) -> None:
    work = one_task(block)
    block.told = {"batch_id": None, "attempt": None}
    run(work, block.context(work))
    assert not block.works.exists()


def test_a_task_whose_record_cannot_be_written_fails_and_may_be_retried(block: Block) -> None:
    work = one_task(block)
    block.start("orders.work", "s1", token="id-1")
    (block.works / "orders.work" / "ended").write_text("in the way", "utf-8")
    with pytest.raises(StagingError):
        run(work, block.context(work))
    (block.works / "orders.work" / "ended").unlink()
    run(work, block.context(work, "id-1"))
    assert block.records() == {"orders.work/1-1-id-1": ["s1"]}


def test_a_task_whose_application_left_a_block_half_done_fails_and_may_be_retried(block: Block) -> None:
    work = one_task(block)
    block.start("orders.work", "s1", token="id-1", done=False)
    with pytest.raises(StartUnfinished):
        run(work, block.context(work))
    assert block.records() == {}


class Memory(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


def test_a_try_that_was_deferred_stays_with_its_attempt_though_freeze_opened_another(block: Block) -> None:
    memory = Memory()
    work = one_task(block)
    work._pre_execute_hook({**block.context(work), "task_state_store": memory})
    block.start("orders.work", "s1", token="id-1")
    block.told["attempt"] = 2  # another task of the block was cleared meanwhile, and freeze with it
    resumed = one_task(block)  # in another process
    run(resumed, {**block.context(resumed), "task_state_store": memory})
    assert block.records() == {"orders.work/1-1-id-1": ["s1"]}
    run(resumed, {**block.context(resumed, "id-2"), "task_state_store": memory})  # another try asks anew
    assert block.records()["orders.work/2-1-id-2"] == []


def test_of_several_tasks_that_are_given_the_batch_each_must_say_for_which_it_works(block: Block) -> None:
    with DAG("d", schedule=None) as made, block.group() as batch:
        for name in ("one", "two"):
            task(lambda uri: None, task_id=name)(batch.manifest_uri)
    one = made.get_task("orders.one")
    block.start("", "s1")
    with pytest.raises(AirflowFailException, match=r"did not say for which task.*work='orders.one'"):
        run(one, block.context(one))
    assert block.records() == {}
    work = one_task(block)  # it stands alone in its block, so they are its own
    run(work, block.context(work))
    assert block.records() == {"orders.work/1-1-id-1": ["s1"]}


@pytest.mark.parametrize("kind", ["branch", "short_circuit"])
def test_a_task_that_skips_others_leaves_it_although_it_ends_by_an_exception(
    block: Block, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", True)  # as Airflow's own task runner may call it
    with DAG("d", schedule=None) as made, block.group() as batch:
        if kind == "branch":
            choose = task.branch(lambda count: "orders.left", task_id="choose")(batch.record_count)
        else:
            decide = task.short_circuit(lambda count: False, ignore_downstream_trigger_rules=False, task_id="choose")
            choose = decide(batch.record_count)
        choose >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]
    one = made.get_task("orders.choose")
    assert DagSerialization.to_dict(made)
    one.op_args, one.op_kwargs = [2], {}
    context = block.context(one)
    context["ti"].xcom_push = lambda key, value: None
    context |= {"task": one, "dag_run": SimpleNamespace(run_id="r")}
    one._pre_execute_hook(context)
    with pytest.raises(DownstreamTasksSkipped):
        one.execute(context=context)
    assert block.records() == {"orders.choose/1-1-id-1": []}


class Knowing(EmptyOperator):
    """An operator that knows its batch itself."""

    inherits_from_empty_operator = False
    found: Bound | None = None

    def bound(self) -> Bound | None:
        return self.found


def test_an_operator_may_say_itself_what_it_has_worked_for(block: Block) -> None:
    knowing = Knowing(task_id="work")
    staging = Staging(str(block.staging))
    record_end(knowing, freeze_task="", **GIVEN, staging=staging)
    run(knowing, block.context(knowing))
    knowing.found = Bound("b1", 2, "told", did_nothing=True)
    run(knowing, block.context(knowing))
    assert block.records() == {}  # it has no batch, then nothing to do
    block.start("work", "s1", token="told", attempt=2)
    knowing.found = Bound("b1", 2, "told")
    run(knowing, block.context(knowing, "id-7", try_number=4))
    assert block.records() == {"work/2-4-id-7": ["s1"]}


def test_its_last_line_names_records_starts_and_the_folders_that_they_wrote(
    block: Block, caplog: pytest.LogCaptureFixture
) -> None:
    knowing = Knowing(task_id="work")
    record_end(knowing, freeze_task="", **GIVEN, staging=Staging(str(block.staging)))
    for attempt, records in ((1, None), (2, 1200)):
        knowing.found = Bound("b1", attempt, f"told{attempt}", records=records)
        if attempt == 2:
            block.start("work", "s1", token="told2", attempt=2, outputs=("s3://lake/out/", "/x/late"))
            block.start("work", "s2", token="told2", attempt=2)
        with caplog.at_level("INFO", logger="shardbatch"):
            run(knowing, block.context(knowing, f"id-{attempt}"))
    assert caplog.messages == [
        "Attempt 1 of batch b1: this task ended well; it entered no block of open_batch.",
        "Attempt 2 of batch b1, 1,200 records: this task ended well; start s1 wrote "
        "s3://lake/out/batch_id=b1/start=s1, /x/late/batch_id=b1/start=s1; "
        "start s2 wrote nothing below an output root.",
    ]


def test_a_task_that_airflow_never_runs_has_no_hook(block: Block) -> None:
    with DAG("d", schedule=None) as made, block.group():
        task(lambda: None, task_id="work")() >> EmptyOperator(task_id="join")
    assert made.get_task("orders.join")._post_execute_hook is None


def test_task_instances_are_named_as_applications_are_told() -> None:
    answer = {"g.work": "success", "g.each_0": "success", "g.each_10": "failed", "g.each_x": None, "other_1": "success"}
    assert works_of(answer, {"g.work", "g.each"}) == {
        "g.work": ("g.work", "success"),
        "g.each[0]": ("g.each", "success"),
        "g.each[10]": ("g.each", "failed"),
    }
    assert (work_of("g.each", 10), work_of("g.work", -1), work_of("g.work", None)) == ("g.each[10]", "g.work", "g.work")


def test_a_task_that_ends_well_says_how_long_it_took_since_its_start(block: Block, statsd: StatsD) -> None:
    one = one_task(block)
    context = block.context(one)
    context["ti"].start_date = datetime.now(UTC) - timedelta(seconds=30)
    context["dag_run"] = SimpleNamespace(run_type="manual", conf={}, run_id="r", dag_id="d")
    run(one, context)
    wait_until(lambda: bool(statsd.sent()), 10, "the time to arrive")
    [sent] = statsd.sent()
    assert (sent.name, sent.tags["step"], sent.tags["app"]) == ("shardbatch.step.duration", "work", "etl")
    assert 30_000 <= sent.value < 60_000
