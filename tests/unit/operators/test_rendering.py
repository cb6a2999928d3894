# SPDX-License-Identifier: Apache-2.0
"""What a template brings in is data: text that looks like a template, from whoever triggers a run, stays text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

import shardbatch
from shardbatch import KinesisStream, ParkBatchOperator, ReplayBatchOperator, ResetOperator, SQLLeases, Staging
from shardbatch.control.verbs import VERBS, names
from shardbatch.core.owner import Owner
from shardbatch.hooks.names import namespace_of
from shardbatch.operators import replay
from shardbatch.operators.actions import ActionOperator
from shardbatch.operators.claim import ClaimOperator
from shardbatch.operators.commit import CommitOperator
from shardbatch.operators.end_record import record_end
from shardbatch.operators.freeze import FreezeOperator
from shardbatch.operators.read import ReadOperator
from shardbatch.tasks import actions, end_record
from shardbatch.tasks.application import ApplicationSpec
from shardbatch.tasks.end_record import Left

EVIL = "{{ 7*7 }}"
ASKED: dict[str, Any] = {
    "app_name": "{{ dag_run.conf['app'] }}",
    "stream": KinesisStream("{{ dag_run.conf['stream'] }}", region_name="{{ dag_run.conf['app'] }}"),
    "leases": SQLLeases("{{ dag_run.conf['app'] }}"),
}
STAGED: dict[str, Any] = {
    **ASKED,
    "staging": Staging("/staging/{{ dag_run.conf['app'] }}", "{{ dag_run.conf['app'] }}"),
}
STEPS: list[Callable[[], Any]] = [
    lambda: ClaimOperator(task_id="t", **STAGED),
    lambda: ReadOperator(task_id="t", entry={"group": "{{ dag_run.conf['app'] }}", "label": "a"}, **STAGED),
    lambda: FreezeOperator(task_id="t", handed="{{ dag_run.conf['app'] }}", **STAGED),
    lambda: CommitOperator(task_id="t", freeze_task="freeze", work=[], **STAGED),
]


def context_of(task: Any, **conf: Any) -> dict[str, Any]:
    given = {"app": EVIL, "stream": "orders", "batch": EVIL, **conf}
    ti = SimpleNamespace(task_id="t", dag_id="d", run_id="r", map_index=-1, try_number=1, id="1", task=task)
    ti.xcom_pull = lambda task_ids, key: {"batch_id": "b", "attempt": 1}.get(key)
    run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf=given, start_date=None)
    return {"dag_run": run, "ti": ti, "params": {}, "task": task}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ApplicationSpec]:
    """The applications that steps open."""
    found: list[ApplicationSpec] = []

    def open_it(spec: ApplicationSpec, *_: Any) -> Any:
        found.append(spec)
        return nullcontext(SimpleNamespace(owner=Owner("airflow", "d", "r", "g")))

    monkeypatch.setattr(ApplicationSpec, "open", open_it)
    return found


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("make", STEPS)
def test_what_a_run_brings_in_is_not_rendered_by_a_step(
    opened: list[ApplicationSpec], make: Callable[[], Any], native: bool
) -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        task = make()
    context = context_of(task)
    task.render_template_fields(context, task.dag.get_template_env())
    with task.open(context):
        pass
    (application,) = opened
    assert application.app_name == EVIL
    assert application.stream == KinesisStream("orders", region_name=EVIL)
    assert application.leases == SQLLeases(EVIL)
    assert application.staging == Staging(f"/staging/{EVIL}", EVIL)
    assert EVIL in (getattr(task, "handed", EVIL), getattr(task, "entry", {}).get("group"))


def test_what_a_run_brings_in_is_not_rendered_by_a_mapped_step(opened: list[ApplicationSpec]) -> None:
    with DAG("d", schedule=None):
        mapped = ReadOperator.partial(task_id="t", **STAGED).expand(entry=[{"group": "g", "label": "a"}])
    context = context_of(mapped)
    context["dag"], context["ti"].map_index = mapped.dag, 0
    context["ti"]._upstream_map_indexes = {}
    mapped.render_template_fields(context, mapped.dag.get_template_env())
    task = context["task"]
    with task.open(context):
        pass
    assert (opened[0].app_name, opened[0].leases, task.entry["group"]) == (EVIL, SQLLeases(EVIL), "g")


def test_what_a_run_brings_in_is_not_rendered_by_an_end_record(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[ApplicationSpec] = []
    monkeypatch.setattr(end_record, "leave_end_record", lambda spec, **ended: found.append(spec) or Left("", ()))
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        task = PythonOperator(task_id="t", python_callable=print)
    record_end(task, freeze_task="freeze", **STAGED)
    context = context_of(task, app="2026_11")
    task._pre_execute_hook(context)
    task._post_execute_hook(context, None)
    assert [(one.app_name, one.staging.uri) for one in found] == [("2026_11", "/staging/2026_11")]
    context = context_of(task)
    task._post_execute_hook(context, None)
    assert (found[1].app_name, found[1].staging.uri) == (EVIL, f"/staging/{EVIL}")


def chosen_by(task: ActionOperator) -> dict[str, Any]:
    """What an operator of a verb was given, before anything is read out of it."""
    return {argument.name: getattr(task, argument.parameter) for argument in VERBS[task.verb].arguments}


@pytest.mark.parametrize("native", [False, True])
def test_what_a_run_brings_in_is_not_rendered_by_a_verb(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    found: dict[str, Any] = {}

    def perform(self: Any, verb: str, context: Any, say: Any, **chosen: Any) -> dict[str, Any]:
        found.update(chosen, app_name=self.app_name, stream=self.stream, leases=self.leases, staging=self.staging)
        return {"left": {}}

    monkeypatch.setattr(actions.Actions, "perform", perform)
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        task = ParkBatchOperator(
            task_id="t", batch_id="{{ dag_run.conf['batch'] }}", reason="{{ dag_run.conf['app'] }}", **STAGED
        )
    context: Any = context_of(task)
    task.render_template_fields(context, task.dag.get_template_env())
    task.execute(context)
    assert (found["app_name"], found["given"].batch_id, found["reason"]) == (EVIL, EVIL, EVIL)
    assert found["stream"] == KinesisStream("orders", region_name=EVIL)
    assert (found["leases"], found["staging"].aws_conn_id) == (SQLLeases(EVIL), EVIL)


def test_what_a_run_brings_in_is_not_rendered_by_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(replay, "order_replay", lambda *args, **more: found.extend(args) or (None, ""))
    with DAG("d", schedule=None):
        task = ReplayBatchOperator(task_id="t", batch_id="{{ dag_run.conf['batch'] }}", reason="r", **ASKED)
    context: Any = context_of(task)
    task.render_template_fields(context, task.dag.get_template_env())
    task._order(context, preview=False)
    assert found == [SQLLeases(EVIL), EVIL, "orders", EVIL]


@pytest.mark.parametrize("given", ["2026", 2026, "2026_11", "1e5", "True", True, "[1, 2]", "'a'"])
def test_a_name_stays_a_text_where_a_dag_renders_native_objects(opened: list[ApplicationSpec], given: Any) -> None:
    text = str(given)
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        task = ClaimOperator(task_id="t", **STAGED)
        reset = ResetOperator(task_id="u", to="{{ dag_run.conf['app'] }}", reason="r", shards=["a"], **ASKED)
    context = context_of(task, app=given, stream=2026)
    for one in (task, reset):
        one.render_template_fields(context, task.dag.get_template_env())
    with task.open(context):
        pass
    assert (opened[0].app_name, opened[0].stream.stream_name, opened[0].leases) == (text, "2026", SQLLeases(text))
    assert chosen_by(reset)["to"] == text


@pytest.mark.parametrize("wrong", ["", " a", "a/b", "{{ a }}/b", "..", ".", "a\x00b", "a\nb", "n" * 129, 2026, None])
def test_a_name_that_cannot_stand_in_a_row_is_refused_where_it_enters(wrong: Any) -> None:
    with pytest.raises(shardbatch.errors.ConfigurationError, match="app_name"):
        namespace_of(wrong, "orders")
    if "{{" not in str(wrong):
        with pytest.raises(shardbatch.errors.ConfigurationError, match="app_name"):
            ClaimOperator(task_id="t", **{**STAGED, "app_name": wrong})
    fixed = {"stream": KinesisStream("orders"), "leases": SQLLeases("db"), "staging": Staging("/staging")}
    task = ClaimOperator(task_id="t", app_name=ASKED["app_name"], **fixed)
    context = context_of(task, app=wrong)
    task.render_template_fields(context)
    if isinstance(wrong, str):
        with pytest.raises(AirflowFailException, match="app_name"), task.open(context):
            pass


def test_a_stream_that_rendering_left_unusable_fails_the_task_for_good() -> None:
    task = ClaimOperator(task_id="t", **STAGED)
    for stream in ("a/b", "{{ a }}:b"):
        with pytest.raises(AirflowFailException, match="neither the name nor the ARN"):
            task.render_template(task.stream, context_of(task, stream=stream))


@pytest.mark.parametrize("text", ["a, b", "['a', 'b']", '["a", "b"]', "('a', 'b')"])
def test_shards_may_be_a_list_or_a_text_of_one(text: str) -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        task = ResetOperator(task_id="t", to="TRIM_HORIZON", reason="r", shards="{{ dag_run.conf['shards'] }}", **ASKED)
    task.render_template_fields(context_of(task, shards=text), task.dag.get_template_env())
    assert names(chosen_by(task)["shards"]) == ["a", "b"]


def test_what_another_task_handed_to_a_mapped_step_is_not_rendered() -> None:
    task = ClaimOperator(task_id="t", **STAGED)
    for handed in (EVIL, KinesisStream(EVIL)):
        assert task.render_template(handed, context_of(task), None, {id(handed)}) is handed
        assert task.render_template(handed, context_of(task), None, set()) is not handed
