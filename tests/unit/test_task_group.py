# SPDX-License-Identifier: Apache-2.0
"""What StreamBatch makes of a DAG file, and what it refuses while the file is parsed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import UUID

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.sdk import DAG, TaskGroup, TriggerRule, setup, task, task_group, teardown
from airflow.serialization.serialized_objects import DagSerialization

from shardbatch import ClaimOperator, KinesisStream, Policies, SQLLeases, Staging, StreamBatch, batch_params
from shardbatch.errors import ConfigurationError


def group(group_id: str = "orders", **changes: Any) -> StreamBatch:
    arguments: dict[str, Any] = {
        "app_name": "etl",
        "stream": KinesisStream("orders"),
        "leases": SQLLeases("leases"),
        "staging": Staging("/staging"),
    }
    return StreamBatch(group_id, **{**arguments, **changes})


@contextmanager
def dag(**arguments: Any) -> Iterator[DAG]:
    with DAG("d", schedule=None, **arguments) as made:
        yield made


def downstream(made: DAG, task_id: str) -> set[str]:
    return set(made.get_task(task_id).downstream_task_ids)


def round_trip(made: DAG) -> Any:
    made.validate()
    return DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(made))))


def test_work_stands_between_freeze_and_commit() -> None:
    with dag() as made:
        with group() as batch:
            first, second = EmptyOperator(task_id="first"), EmptyOperator(task_id="second")
            first >> second
            EmptyOperator(task_id="alone")
        after = EmptyOperator(task_id="after")
        batch >> after
    assert downstream(made, "orders.claim") == {"orders.read", "orders.freeze"}
    assert downstream(made, "orders.read") == {"orders.freeze"}
    assert downstream(made, "orders.freeze") == {"orders.first", "orders.alone"}
    # One failed task anywhere holds the checkpoint, so commit follows every task and not only the last ones.
    assert made.get_task("orders.commit").upstream_task_ids == {"orders.first", "orders.second", "orders.alone"}
    assert downstream(made, "orders.commit") == {"orders.report", "after"}
    assert made.get_task("orders.commit").work == ["orders.alone", "orders.first", "orders.second"]


def test_the_scheduler_sees_setup_and_trigger_rules() -> None:
    with dag() as made, group() as batch:
        task(lambda uri: None, task_id="work")(batch.manifest_uri)
    stored = round_trip(made)
    rules = {task_id.partition(".")[2]: stored.get_task(task_id).trigger_rule for task_id in stored.task_ids}
    assert rules["read"] == "all_success"
    assert rules["freeze"] == "none_failed"
    assert rules["commit"] == "none_failed"
    assert rules["report"] == "all_success"
    assert stored.get_task("orders.freeze").is_setup
    # A run that a person marks as failed would go on for one, and end as a success.
    assert [task.task_id for task in stored.tasks if task.is_teardown] == []


def test_what_fails_a_run_after_its_commit_stands_beside_the_group() -> None:
    with dag(default_args={"trigger_rule": "all_done"}) as made:
        with TaskGroup("outer") as outer, group(default_args={"pool": "small"}) as batch:
            EmptyOperator(task_id="work", trigger_rule="all_success")
        batch >> EmptyOperator(task_id="after")
        outer >> EmptyOperator(task_id="at_last")
    report = round_trip(made).get_task("outer.orders.report")
    assert (report.upstream_task_ids, report.downstream_task_ids) == ({"outer.orders.commit"}, set())
    assert (report.trigger_rule, report.pool, report.retries) == ("all_success", "small", 3)
    for name in ("after", "at_last"):
        assert made.get_task(name).upstream_task_ids == {"outer.orders.commit"}


def test_an_empty_block_lands_only() -> None:
    with dag() as made:
        with group(policies=Policies(sink="own")) as batch:
            pass
        task(lambda outcome: None, task_id="after")(batch.committed)
    stored = round_trip(made)  # which refuses another trigger rule directly after a setup task
    assert downstream(made, "orders.freeze") == {"orders.commit"}
    assert downstream(made, "orders.commit") == {"orders.report", "after"}
    assert stored.get_task("orders.commit").trigger_rule == "all_success"
    assert (made.get_task("orders.commit").work, made.get_task("orders.freeze").skips) == ([], [])


def test_parsing_twice_gives_the_same_dag() -> None:
    def parsed() -> dict[str, Any]:
        with dag(params=batch_params("orders")) as made, group(policies=Policies(sink="own")):
            EmptyOperator(task_id="work")
            task(lambda item: None, task_id="each").expand(item=[1, 2])
        return DagSerialization.to_dict(made)["dag"]["tasks"]

    assert json.dumps(parsed(), sort_keys=True) == json.dumps(parsed(), sort_keys=True)


def test_setup_teardown_branches_mapped_and_nested_work() -> None:
    with dag() as made:
        with group() as batch:

            @setup
            def cluster() -> None: ...

            @teardown
            def drop_cluster() -> None: ...

            @task.branch
            def choose() -> str:
                return "orders.left"

            @task(trigger_rule="none_failed_min_one_success")
            def join() -> None: ...

            @task
            def each(item: int) -> None: ...

            with TaskGroup("inner"):
                EmptyOperator(task_id="deep")
            up, down = cluster(), drop_cluster()
            left, right, joined, chosen = (
                EmptyOperator(task_id="left"),
                EmptyOperator(task_id="right"),
                join(),
                choose(),
            )
            up >> chosen >> [left, right] >> joined >> down
            up >> down
            each.expand(item=[1, 2])
        batch >> EmptyOperator(task_id="after")
    round_trip(made)
    assert downstream(made, "orders.freeze") == {"orders.cluster", "orders.each", "orders.inner.deep"}
    work = {"choose", "left", "right", "join", "each", "inner.deep"}
    assert made.get_task("orders.commit").upstream_task_ids == {f"orders.{name}" for name in work}
    assert made.get_task("after").upstream_task_ids == {"orders.commit"}


def test_an_arrow_from_an_outer_group_starts_at_commit() -> None:
    with dag() as made:
        with TaskGroup("outer") as outer, group() as batch:
            EmptyOperator(task_id="work")
        outer >> EmptyOperator(task_id="after")
    assert batch.spec.group_id == "outer.orders"
    assert made.get_task("after").upstream_task_ids == {"outer.orders.commit"}


def test_our_tasks_are_retried_unless_somebody_said_otherwise() -> None:
    with dag() as made, group(task_args={"read": {"retries": 7, "pool": "kinesis"}}):
        EmptyOperator(task_id="work")
    assert [made.get_task(f"orders.{name}").retries for name in ("claim", "read", "freeze", "commit", "work")] == [
        *(3, 7, 3, 3),
        0,
    ]
    assert made.get_task("orders.read").pool == "kinesis"
    with dag() as made, group(task_args={"report": {"retries": 1, "pool": "small"}}):
        EmptyOperator(task_id="work")
    assert (made.get_task("orders.report").retries, made.get_task("orders.report").pool) == (1, "small")
    with dag(default_args={"retries": 1, "trigger_rule": "all_done"}) as made, group():
        EmptyOperator(task_id="work", trigger_rule="all_success")
    assert made.get_task("orders.claim").retries == 1
    assert made.get_task("orders.commit").trigger_rule == TriggerRule.NONE_FAILED
    assert made.get_task("orders.read").trigger_rule == TriggerRule.ALL_SUCCESS


def test_nothing_to_do_skips_everything_and_an_empty_batch_only_the_work() -> None:
    with dag() as made, group():
        EmptyOperator(task_id="first") >> EmptyOperator(task_id="last", trigger_rule="all_done")
    names = ["commit", "first", "freeze", "last", "read", "report"]
    assert made.get_task("orders.claim").skips == [f"orders.{name}" for name in names]
    assert made.get_task("orders.freeze").skips == ["orders.first", "orders.last"]


def test_an_empty_batch_starts_no_cluster_either() -> None:
    with dag() as made, group():
        up = EmptyOperator(task_id="up").as_setup()
        down = EmptyOperator(task_id="down").as_teardown(setups=up)
        up >> EmptyOperator(task_id="work") >> down
    assert made.get_task("orders.freeze").skips == ["orders.down", "orders.up", "orders.work"]


def test_a_task_that_is_fed_from_outside_waits_for_freeze_all_the_same() -> None:
    with dag() as made:
        table = task(lambda: "t", task_id="table")()
        with group():
            task(lambda name: None, task_id="load")(table)
    assert made.get_task("orders.load").upstream_task_ids == {"table", "orders.freeze"}


def test_commit_knows_which_tasks_are_given_the_batch_and_which_airflow_never_runs() -> None:
    with dag() as made, group() as batch:
        load = task(lambda uri: None, task_id="load")(batch.manifest_uri)
        shell = BashOperator(task_id="shell", bash_command="true", env=batch.environment)
        each = BashOperator.partial(task_id="each", bash_command="true").expand(env=[{}, {}])
        [load, shell, each] >> EmptyOperator(task_id="join") >> task(lambda: None, task_id="tell")()
        BashOperator.partial(task_id="named", env=batch.environment).expand(bash_command=["true"])
        BashOperator.partial(task_id="words").expand(bash_command=[" ".join(batch.args)])
    commit = made.get_task("orders.commit")
    assert commit.given == ["orders.load", "orders.named", "orders.shell", "orders.words"]
    assert commit.idle == ["orders.join"]
    rest = ["orders.each", "orders.join", "orders.tell"]
    assert commit.work == sorted([*commit.given, *rest])


def test_a_setup_or_teardown_that_is_given_the_batch_is_refused() -> None:
    def build() -> None:
        with group() as batch:
            made = task(lambda uri: None, task_id="prepare")(batch.manifest_uri)
            made.operator.as_setup() >> EmptyOperator(task_id="work")

    assert "'orders.prepare' is a setup or teardown" in refused(build)


@pytest.mark.parametrize("of_task", [None, False, True])
@pytest.mark.parametrize("of_dag", [False, True])
def test_what_is_handed_over_is_texts_also_where_native_objects_are_rendered(
    of_dag: bool, of_task: bool | None
) -> None:
    with dag(render_template_as_native_obj=of_dag) as made, group() as batch:
        fields = {"env": batch.environment, "bash_command": "true", "append_env": True}
        task = BashOperator(task_id="work", render_template_as_native_obj=of_task, **fields)
        words = BashOperator(task_id="words", bash_command=batch.args, render_template_as_native_obj=of_task)
    pulled = {"manifest_uri": 'file:///o\'neil/"{é}"/m.json', "attempt": 1, "manifest_digest": "1e5"}
    ti = SimpleNamespace(
        id=UUID(int=7), task_id="12345", map_index=-1, xcom_pull=lambda task_ids, key: pulled[key], task=task
    )
    expected = {
        "manifest": pulled["manifest_uri"],
        "attempt": "1",
        "digest": "1e5",
        "work": "12345",
        "token": str(UUID(int=7)),
    }
    context = {"ti": ti, "task": task}
    rendered = task.render_template(task.env, context, task.get_template_env(made))
    assert rendered == {f"SHARDBATCH_{name.upper()}": value for name, value in expected.items()}
    rendered = words.render_template(batch.args, context, words.get_template_env(made))
    assert rendered == [f"--shardbatch-{name}={value}" for name, value in expected.items()]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("label", ["2026", "1e5", "shardId-000000000001", "2 shards", "it's", "{'a': 1}", "None"])
def test_the_label_of_a_read_is_a_text(native: bool, label: str) -> None:
    with dag(render_template_as_native_obj=native) as made, group():
        EmptyOperator(task_id="work")
    task = made.get_task("orders.read").unmap({"entry": {"group": "g", "label": label}})
    # As Airflow's task runner does it, before and after the work.
    assert made.get_template_env().from_string(task.map_index_template).render({"task": task}) == label


def test_a_branch_on_the_number_of_records_is_not_given_the_batch() -> None:
    with dag() as made, group() as batch:
        pick = task.branch(lambda count: "orders.load", task_id="pick")(batch.record_count)
        pick >> [task(lambda uri: None, task_id="load")(batch.manifest_uri), EmptyOperator(task_id="other")]
    commit = made.get_task("orders.commit")
    assert (commit.given, commit.idle) == (["orders.load"], ["orders.other"])


def test_a_mapped_task_is_given_the_batch_by_what_it_is_expanded_over() -> None:
    with dag() as made, group() as batch:
        BashOperator.partial(task_id="each", bash_command="true").expand(env=[batch.environment, {}])
    assert made.get_task("orders.commit").given == ["orders.each"]


def test_a_pod_is_given_the_batch_by_its_environment() -> None:
    class Variable:
        """As Kubernetes' client describes one; KubernetesPodOperator makes these of its env_vars."""

        openapi_types: ClassVar = {"name": "str", "value": "str", "value_from": "V1EnvVarSource"}

        def __init__(self, name: str, value: str) -> None:
            self.name, self.value, self.value_from = name, value, None

    with dag() as made, group() as batch:
        pod = BashOperator(task_id="pod", bash_command="true")
        pod.env = [Variable(*pair) for pair in batch.environment.items()]  # type: ignore[assignment]
        other = BashOperator(task_id="other", bash_command="true")
        other.env = [Variable("A", "b")]  # type: ignore[assignment]
    assert made.get_task("orders.commit").given == ["orders.pod"]


def test_arguments_are_templates_that_the_task_which_uses_them_renders() -> None:
    with dag() as made, group() as batch:
        words, variables = batch.args, batch.environment
        BashOperator(task_id="work", bash_command="true", env=variables)
    assert [word.partition("=")[0] for word in words] == [
        f"--shardbatch-{name}" for name in ("manifest", "attempt", "digest", "work", "token")
    ]
    work = made.get_task("orders.work")
    assert work.env == variables
    pulled = {"manifest_uri": "file:///m.json", "attempt": 3, "manifest_digest": "sha256:00"}

    def seen(map_index: int) -> dict[str, str]:
        ti = SimpleNamespace(
            id="try-1", task_id="orders.work", map_index=map_index, xcom_pull=lambda task_ids, key: pulled[key]
        )
        found: dict[str, str] = work.render_template(variables, {"ti": ti}, work.get_template_env())
        return found

    assert seen(-1) == {
        "SHARDBATCH_MANIFEST": "file:///m.json",
        "SHARDBATCH_ATTEMPT": "3",
        "SHARDBATCH_DIGEST": "sha256:00",
        "SHARDBATCH_WORK": "orders.work",
        "SHARDBATCH_TOKEN": "try-1",
    }
    assert seen(2)["SHARDBATCH_WORK"] == "orders.work[2]"


# ---------------------------------------------------------------------- refused at parse time


def refused(build: Callable[[], object], **arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as caught, dag(**arguments):
        build()
    text = str(caught.value)
    assert "DAG 'd'" in text
    assert "orders" in text
    return text


def block(**changes: Any) -> None:
    with group(**changes):
        EmptyOperator(task_id="work")


def test_an_application_name_with_a_slash() -> None:
    assert "'a/b'" in refused(lambda: block(app_name="a/b"))
    assert "app_name" in refused(lambda: block(app_name=""))


def test_a_single_operator_names_its_dag_and_task() -> None:
    def alone() -> None:
        ClaimOperator(
            task_id="claim_orders",
            app_name="a/b",
            stream=KinesisStream("s"),
            leases=SQLLeases("l"),
            staging=Staging("/"),
        )

    assert "task 'claim_orders': app_name 'a/b'" in refused(alone)


def test_no_lease_store_or_staging_folder() -> None:
    assert "[shardbatch] leases" in refused(lambda: block(leases=None))
    assert "[shardbatch] staging" in refused(lambda: block(staging=None))


def test_deployment_wide_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://shared")
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STAGING", "s3://lake/staging?aws_conn_id=lake")
    with dag(), group(leases=None, staging=None) as batch:
        EmptyOperator(task_id="work")
    assert batch.leases == SQLLeases("shared")
    assert batch.staging == Staging("s3://lake/staging", "lake")


@pytest.mark.parametrize("name", ["claim", "read", "freeze", "commit", "report"])
def test_a_reserved_task_name_inside(name: str) -> None:
    def build() -> None:
        with group():
            EmptyOperator(task_id=name)

    assert f"'orders.{name}'" in refused(build)


def test_a_group_in_a_mapped_task_group() -> None:
    def build() -> None:
        @task_group
        def each(item: int) -> None:
            block()

        each.expand(item=[1, 2])

    assert "Loop in Python" in refused(build)


@pytest.mark.parametrize("rule", [rule for rule in TriggerRule if rule is not TriggerRule.ALL_SUCCESS])
def test_work_directly_after_freeze_with_another_trigger_rule(rule: TriggerRule) -> None:
    def build() -> None:
        with group():
            EmptyOperator(task_id="eager", trigger_rule=rule)

    assert "'orders.eager'" in refused(build)


def test_using_an_output_makes_a_task_stand_directly_after_freeze() -> None:
    def build() -> None:
        with group() as batch:

            @task(trigger_rule="none_failed")
            def joined(uri: str) -> None: ...

            EmptyOperator(task_id="first") >> joined(batch.manifest_uri)

    assert "'orders.joined'" in refused(build)


def test_an_empty_block_that_could_never_commit() -> None:
    def build() -> None:
        with group():
            pass

    text = refused(build)
    assert "no work" in text
    assert 'policies=Policies(sink="own")' in text


def test_a_setup_without_work() -> None:
    def build() -> None:
        with group(policies=Policies(sink="own")):

            @setup
            def cluster() -> None: ...

            cluster()

    assert "'orders.cluster'" in refused(build)


def test_waiting_for_the_past() -> None:
    assert "depends_on_past" in refused(block, default_args={"depends_on_past": True})


def test_a_short_circuit_that_would_skip_commit() -> None:
    def circuit(**arguments: Any) -> Callable[[], None]:
        def make() -> None:
            with group() as batch:
                ShortCircuitOperator(
                    task_id="enough", python_callable=bool, op_args=[batch.record_count], **arguments
                ) >> EmptyOperator(task_id="work")

        return make

    assert "'orders.enough'" in refused(circuit())
    with dag():
        circuit(ignore_downstream_trigger_rules=False)()


def test_a_task_that_ends_in_the_triggerer_and_is_given_the_batch() -> None:
    def waits(**fields: Any) -> Callable[[], None]:
        def build() -> None:
            with group() as batch:
                loaded = task(lambda uri: None, task_id="load")(batch.manifest_uri)
                loaded >> DateTimeSensorAsync(task_id="wait", **fields)

        return build

    moment = "{{ ti.xcom_pull(task_ids='orders.freeze', key='manifest_uri') }}"
    text = refused(waits(target_time=moment, end_from_trigger=True))
    assert "'orders.wait'" in text
    assert "end_from_trigger=False" in text
    with dag():  # neither one that comes back to a worker nor one that knows nothing of the batch
        waits(target_time=moment)()
    with dag():
        waits(target_time="2026-01-01T00:00:00Z", end_from_trigger=True)()


def test_a_task_that_starts_another_run_and_does_not_end_behind_it() -> None:
    def triggers(**fields: Any) -> Callable[[], None]:
        def build() -> None:
            with group() as batch:
                TriggerDagRunOperator(task_id="other", trigger_dag_id="e", conf={"uri": batch.manifest_uri}, **fields)

        return build

    assert "'orders.other'" in refused(triggers())
    assert "deferrable=True" in refused(triggers(wait_for_completion=True))
    with dag():
        triggers(wait_for_completion=True, deferrable=True)()


def test_a_mapped_task_that_ends_in_the_triggerer() -> None:
    def build() -> None:
        with group() as batch:
            moments = [batch.args[0], "b"]
            DateTimeSensorAsync.partial(task_id="each", end_from_trigger=True).expand(target_time=moments)

    assert "'orders.each'" in refused(build)


@pytest.mark.parametrize("in_group", [False, True])
def test_a_task_named_like_an_instance_of_a_mapped_one(in_group: bool) -> None:
    def build(name: str) -> Callable[[], None]:
        def made() -> None:
            with group():
                if in_group:

                    @task_group
                    def part(item: int) -> None:
                        EmptyOperator(task_id="a")
                        EmptyOperator(task_id=name)

                    part.expand(item=[1, 2])
                else:
                    task(lambda item: None, task_id="a").expand(item=[1, 2])
                    EmptyOperator(task_id=name)

        return made

    text = refused(build("a_1"))
    assert "a'" in text
    assert "a_1'" in text
    for name in ("a_", "a_b", "b_1"):
        with dag():
            build(name)()


def test_unknown_or_fixed_task_arguments() -> None:
    assert "'reed'" in refused(lambda: block(task_args={"reed": {}}))
    assert "trigger_rule" in refused(lambda: block(task_args={"read": {"trigger_rule": "all_done"}}))
    assert "outlets" in refused(lambda: block(task_args={"commit": {"outlets": []}}))
    assert "app_name" in refused(lambda: block(task_args={"claim": {"app_name": "other"}}))


def test_an_error_inside_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), dag(), group():
        1 / 0  # noqa: B018


def test_a_loop_gives_each_stream_its_group() -> None:
    with dag() as made:
        for name in ("a", "b"):
            with group(f"batch_{name}", stream=KinesisStream(name)):
                EmptyOperator(task_id="work")
    round_trip(made)
    assert {"batch_a.commit", "batch_b.commit"} <= set(made.task_ids)
    assert made.get_task("batch_a.commit").outlets[0].name == "etl/a"
