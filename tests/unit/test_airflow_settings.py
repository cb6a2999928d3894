# SPDX-License-Identifier: Apache-2.0
"""docs/airflow-settings.md against Airflow: every argument of a task is decided, and our tasks do what the table says.

An argument that a later Airflow adds fails the first test until it has a row there and a value here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, BaseOperator, TaskGroup, TriggerRule
from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy

from shardbatch import ClaimOperator, KinesisStream, ReadOperator, SQLLeases, Staging, StreamBatch
from shardbatch.errors import ConfigurationError
from shardbatch.operators.read import LABEL
from shardbatch.task_group import FIXED, OURS

PAGE = Path(__file__).parents[2] / "docs" / "airflow-settings.md"
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| (heeded|ours|refused) \|", re.MULTILINE)
DECIDED = {
    name: decision for names, decision in ROW.findall(PAGE.read_text("utf-8")) for name in re.findall(r"\w+", names)
}


def call(*_: Any) -> None:
    """A hook or a callback."""


#: A value of each argument that is not Airflow's default.
SAID: dict[str, Any] = {
    "allow_nested_operators": False,
    "depends_on_past": True,
    "do_xcom_push": False,
    "doc": "d",
    "doc_json": "{}",
    "doc_md": "d",
    "doc_rst": "d",
    "doc_yaml": "d: d",
    "email": "a@b",
    "email_on_failure": False,
    "email_on_retry": False,
    "end_date": datetime(2030, 1, 1, tzinfo=UTC),
    "execution_timeout": timedelta(minutes=30),
    "executor": "LocalExecutor",
    "executor_config": {"a": 1},
    "ignore_first_depends_on_past": True,
    "inlets": [Asset("in")],
    "logger_name": "other",
    "map_index_template": "{{ other }}",
    "max_active_tis_per_dag": 1,
    "max_active_tis_per_dagrun": 1,
    "max_retry_delay": timedelta(minutes=1),
    "multiple_outputs": True,
    "on_execute_callback": [call],
    "on_failure_callback": [call],
    "on_retry_callback": [call],
    "on_skipped_callback": [call],
    "on_success_callback": [call],
    "outlets": [Asset("out")],
    "owner": "data",
    "params": {"p": 1},
    "pool": "small",
    "pool_slots": 2,
    "post_execute": call,
    "pre_execute": call,
    "priority_weight": 7,
    "queue": "q",
    "render_template_as_native_obj": True,
    "resources": {"cpus": 1},
    "retries": 0,
    "retry_delay": timedelta(seconds=7),
    "retry_exponential_backoff": 3.0,
    "retry_policy": ExceptionRetryPolicy(rules=[]),
    "run_as_user": "u",
    "sla": timedelta(hours=1),
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "task_display_name": "t",
    "trigger_rule": "all_done",
    "wait_for_downstream": True,
    "wait_for_past_depends_before_skipping": True,
    "weight_rule": "absolute",
}
#: What `default_args` cannot carry, since every task has its own.
OWN = {"task_id", "task_group", "dag", "default_args"}
#: Where a task keeps an argument under another name.
KEPT = {"logger_name": "_logger_name", "pre_execute": "_pre_execute_hook", "post_execute": "_post_execute_hook"}
#: How an argument is seen of which Airflow makes something else.
SEEN: dict[str, Callable[[Any], bool]] = {
    "params": lambda found: bool(found["p"] == 1),
    "resources": lambda found: bool(found.cpus.qty == 1),
    "retry_policy": lambda found: isinstance(found, ExceptionRetryPolicy),
    "sla": lambda found: found is None,
}


def made(place: str, default_args: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Our tasks, as they run, by name, with default_args of the DAG, of a group around it, or of the group itself."""

    def of(name: str) -> dict[str, Any]:
        return {"default_args": default_args} if name == place else {}

    with DAG("d", schedule=None, **of("dag")) as dag, TaskGroup("outer", **of("outer")):
        fixed = {"stream": KinesisStream("orders"), "leases": SQLLeases("leases"), "staging": Staging("/staging")}
        with StreamBatch("orders", app_name="etl", **fixed, **of("batch"), **more):
            EmptyOperator(task_id="work", trigger_rule="all_success", depends_on_past=False, wait_for_downstream=False)
    tasks = {name: dag.get_task(f"outer.orders.{name}") for name in OURS}
    return {**tasks, "read": tasks["read"].unmap({"entry": {"group": "g", "label": "l"}})}


def test_every_argument_of_a_task_is_decided() -> None:
    signature = inspect.signature(BaseOperator.__init__).parameters
    known = {name for name, found in signature.items() if found.kind is not found.VAR_KEYWORD} - {"self"}
    assert known == DECIDED.keys()
    assert known == SAID.keys() | OWN
    assert {name for name, decision in DECIDED.items() if decision == "ours"} - FIXED == {
        "render_template_as_native_obj"
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, decision in DECIDED.items() if decision == "heeded"])
def test_what_is_heeded_reaches_our_tasks(name: str) -> None:
    for place in ("dag", "batch"):
        for task_id, task in made(place, {name: SAID[name]}).items():
            found = getattr(task, KEPT.get(name, name), None)
            seen = SEEN[name](found) if name in SEEN else found == SAID[name]
            assert seen, (place, task_id, found)


@pytest.mark.parametrize("place", ["dag", "outer", "batch"])
def test_what_is_ours_stays_ours(place: str) -> None:
    ours = {name: SAID[name] for name, decision in DECIDED.items() if decision == "ours" and name in SAID}
    tasks = made(place, ours)
    assert {name: (task.do_xcom_push, task.multiple_outputs) for name, task in tasks.items()} == dict.fromkeys(
        OURS, (True, False)
    )
    assert {name: [asset.name for asset in task.outlets] for name, task in tasks.items()} == {
        **{each: [] for each in OURS},
        "commit": ["etl/orders"],
    }
    assert [tasks[name].trigger_rule for name in OURS] == [
        *(TriggerRule.ALL_SUCCESS, TriggerRule.ALL_SUCCESS, TriggerRule.NONE_FAILED),
        *(TriggerRule.NONE_FAILED, TriggerRule.ALL_SUCCESS),
    ]
    assert {name: task.map_index_template for name, task in tasks.items()} == {
        **dict.fromkeys(OURS),
        "read": LABEL,
    }


@pytest.mark.parametrize("name", [name for name, decision in DECIDED.items() if decision == "refused"])
def test_what_is_refused_names_the_group_and_the_way_out(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"DAG 'd', StreamBatch 'outer.orders'.* has {name}.*{name}': False"):
        made("dag", {name: True})
    with DAG("d", schedule=None, default_args={name: True}):
        pass
    assert made("batch", {name: False})


def test_a_dag_that_fails_fast_is_refused_with_the_name_of_the_group() -> None:
    fixed = {"stream": KinesisStream("orders"), "leases": SQLLeases("leases"), "staging": Staging("/staging")}
    with (
        pytest.raises(ConfigurationError, match=r"DAG 'd', StreamBatch 'orders'.*fail_fast"),
        DAG("d", schedule=None, fail_fast=True),
    ):
        StreamBatch("orders", app_name="etl", **fixed)


def test_delays_are_one_thing() -> None:
    def delays(**said: Any) -> set[tuple[Any, ...]]:
        return {
            (task.retries, task.retry_delay, task.retry_exponential_backoff, task.max_retry_delay)
            for task in made("dag", said).values()
        }

    ours = (timedelta(seconds=10), 2, timedelta(minutes=5))
    assert delays() == {(3, *ours)}
    assert delays(retries=1) == {(1, *ours)}
    # Ten minutes are said, and not five at most.
    assert delays(retry_delay=timedelta(minutes=10)) == {(3, timedelta(minutes=10), 0, None)}
    read = made("dag", {}, task_args={"read": {"retry_delay": timedelta(minutes=10)}})["read"]
    assert (read.retries, read.retry_exponential_backoff, read.max_retry_delay) == (3, 0, None)


def test_steps_that_are_wired_by_hand_push_their_outputs_too() -> None:
    fixed = {"stream": KinesisStream("orders"), "leases": SQLLeases("leases"), "staging": Staging("/staging")}
    with DAG("d", schedule=None, default_args={"do_xcom_push": False, "multiple_outputs": True}):
        claim = ClaimOperator(task_id="claim", app_name="etl", **fixed)
        read = ReadOperator.partial(task_id="read", app_name="etl", **fixed).expand(entry=claim.output)
    for task in (claim, read.unmap({"entry": {"group": "g", "label": "l"}})):
        assert (task.do_xcom_push, task.multiple_outputs) == (True, False)
