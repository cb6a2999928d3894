# SPDX-License-Identifier: Apache-2.0
"""The DAGs of docs/launchers.md with the operators of their providers: what arrives at the service that runs the job.

For EMR and Glue it is an emulator, otherwise a stub server. A process without Spark is the job: ``open_batch`` finds
its batch in what arrived. Then the task ends, and commit goes by its end record.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import TaskDeferred

from scripts.environment import python_path
from shardbatch.core.handover import of_arguments, of_environment
from tests.support.aws import AwsServer
from tests.support.kubernetes import Cluster, kubernetes_cluster
from tests.support.launched import Scene
from tests.support.pages import DOCS, blocks, parsed
from tests.support.stub_api import Request, StubApi, stub_api

WORK = "batch.write"
SUBMIT = "spark-submit --master 'local[4]' /jobs/orders.py"
Staged = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staged:
    """The run of a page's DAG; ``changes`` are made to its text."""
    (tmp_path / "staging").mkdir()
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STAGING", str(tmp_path / "staging"))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases")
    monkeypatch.setenv("PYTHONPATH", python_path())

    def stage(dag_id: str, changes: dict[str, str] | None = None, **words: str) -> Scene:
        (block,) = [one for one in blocks(DOCS / "launchers.md", "python") if f'"{dag_id}",' in one.text]
        text = block.text
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        (dag,) = parsed(block, text)
        return Scene(dag, tmp_path, words)

    return stage


def after(words: list[str], program: str) -> list[str]:
    """The arguments of a program in a command line."""
    return words[words.index(program) + 1 :]


# ---------------------------------------------------------------------- EMR


@pytest.fixture
def steps(ministack: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of EMR: its id, and the arguments of its steps so far."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", ministack.connection())
    client = ministack.client("emr")
    instances = {"InstanceCount": 1, "MasterInstanceType": "m5.xlarge", "KeepJobFlowAliveWhenNoSteps": True}
    made = {"Name": "orders", "ReleaseLabel": "emr-7.0.0", "LogUri": "s3://lake/logs/"}
    cluster = client.run_job_flow(**made, Instances=instances)["JobFlowId"]

    def list_steps() -> list[list[str]]:
        return [step["Config"]["Args"] for step in client.list_steps(ClusterId=cluster)["Steps"]]

    list_steps.cluster = cluster  # type: ignore[attr-defined]
    yield list_steps
    client.terminate_job_flows(JobFlowIds=[cluster])


def test_a_step_of_emr_is_told_its_batch_and_each_try_adds_one(scene: Staged, steps: Any) -> None:
    run = scene("orders_emr", emr_cluster=steps.cluster)
    first = run.begin(WORK)
    first.execute()
    (args,) = steps()
    argv = after(args, "s3://lake/jobs/orders.py")
    assert (of_arguments(argv), argv[-1]) == (run.told(first), "s3://lake/orders")
    run.play(argv)  # and the worker is lost before the task has ended

    second = run.begin(WORK)
    second.execute()
    _, args = steps()
    argv = after(args, "s3://lake/jobs/orders.py")
    assert of_arguments(argv) == run.told(second) != run.told(first)
    run.play(argv)
    second.end()
    assert run.commit(WORK).newly
    assert run.seen() == run.sent  # once, though two steps wrote all of it


# ---------------------------------------------------------------------- EMR Serverless


def test_a_job_of_emr_serverless_is_told_its_batch(scene: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Request) -> tuple[int, Any] | None:
        if asked.method == "POST" and asked.path == "/applications/app1/jobruns":
            return 200, {"applicationId": "app1", "jobRunId": "run1", "arn": "arn:aws:emr-serverless:eu-west-1:1:/run1"}
        if asked.path == "/applications/app1":
            return 200, {"application": {"applicationId": "app1", "state": "STARTED"}}
        if asked.path == "/applications/app1/jobruns/run1":
            driver = api.sent("POST", "/jobruns")[0]["jobDriver"]
            return 200, {"jobRun": {"jobRunId": "run1", "state": "SUCCESS", "stateDetails": "", "jobDriver": driver}}
        return None

    with stub_api(answer) as api:
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", AwsServer("stub", api.url).connection())
        run = scene("orders_emr_serverless", emr_application="app1", emr_role="arn:aws:iam::123456789012:role/emr")
        one = run.begin(WORK)
        one.execute()
        (body,) = api.sent("POST", "/jobruns")
    submit = body["jobDriver"]["sparkSubmit"]
    assert of_arguments(submit["entryPointArguments"]) == run.told(one)
    run.play(submit["entryPointArguments"])
    one.end()
    run.commit(WORK)
    assert run.seen() == run.sent


# ---------------------------------------------------------------------- Glue


@pytest.fixture
def job_runs(ministack: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[list[str]]]]:
    """The job of Glue: the command lines of its runs so far, as Glue gives them to a script."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", ministack.connection())
    client = ministack.client("glue")
    command = {"Name": "glueetl", "ScriptLocation": "s3://lake/jobs/orders.py"}
    client.create_job(Name="orders", Role="arn:aws:iam::123456789012:role/glue", Command=command)

    def list_runs() -> list[list[str]]:
        found = sorted(client.get_job_runs(JobName="orders")["JobRuns"], key=lambda each: tries[each["Id"]])
        return [[word for pair in each["Arguments"].items() for word in pair] for each in found]

    tries: Any = Numbers()
    yield list_runs
    client.delete_job(JobName="orders")


class Numbers(dict[str, int]):
    """Numbers of names in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def test_a_run_of_glue_is_told_its_batch_and_a_retry_goes_on_with_it_but_a_new_attempt_does_not(
    scene: Staged, job_runs: Callable[[], list[list[str]]]
) -> None:
    run = scene("orders_glue")
    first = run.begin(WORK)
    first.execute()
    (argv,) = job_runs()
    assert of_arguments(argv) == run.told(first)
    assert argv[argv.index("--out") + 1] == "s3://lake/orders"
    run.play(argv)  # and the worker is lost before the task has ended

    second = run.begin(WORK)
    second.execute()
    assert len(job_runs()) == 1  # Glue says that the run which Airflow remembers has succeeded
    second.end()
    assert run.commit(WORK).newly
    assert run.seen() == run.sent

    run.clear()
    third = run.begin(WORK)
    third.execute()
    _, argv = job_runs()
    assert of_arguments(argv) == run.told(third)
    run.play(argv)
    third.end()
    assert run.commit(WORK).replayed
    assert run.seen() == run.sent
    assert run.rig.decisions()[str(run.frozen.batch_id)].decided == 2


# ---------------------------------------------------------------------- Databricks


#: A poll that does not wait half a minute.
POLLED = {"existing_cluster_id=": "polling_period_seconds=0, existing_cluster_id="}


class Databricks:
    """What a workspace says of runs: each is running at the first three looks, and then a success."""

    def __init__(self) -> None:
        self.looks: list[int] = []

    def answer(self, asked: Request) -> tuple[int, Any] | None:
        if asked.path.endswith("/jobs/runs/submit"):
            self.looks.append(0)
            return 200, {"run_id": len(self.looks)}
        if asked.path.endswith("/jobs/runs/get"):
            number = int((asked.query or asked.body)["run_id"])  # the client of the triggerer sends a body
            self.looks[number - 1] += 1
            state = {"life_cycle_state": "RUNNING", "result_state": "", "state_message": ""}
            if self.looks[number - 1] > 3:
                state |= {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}
            return 200, {
                "run_id": number,
                "run_page_url": f"http://127.0.0.1/run/{number}",
                "job_id": 7,
                "state": state,
            }
        return None


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApi]:
    with stub_api(Databricks().answer) as api:
        connection = {"conn_type": "databricks", "host": "127.0.0.1", "port": api.port, "schema": "http"}
        monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps({**connection, "password": "not-a-secret"}))
        yield api


def test_a_run_of_databricks_is_told_its_batch_and_a_new_attempt_is_a_new_run(
    scene: Staged, workspace: StubApi
) -> None:
    run = scene("orders_databricks", POLLED, databricks_cluster="0101-orders")
    for attempt in (1, 2):
        one = run.begin(WORK)
        one.execute()
        bodies = workspace.sent("POST", "/jobs/runs/submit")
        assert len(bodies) == attempt
        job = bodies[-1]["spark_python_task"]
        assert of_arguments(job["parameters"]) == run.told(one)
        assert (bodies[-1]["existing_cluster_id"], job["parameters"][-1]) == ("0101-orders", "s3://lake/orders")
        run.play(job["parameters"])
        run.begin(WORK).execute()  # a retry goes on with that run
        assert len(workspace.sent("POST", "/jobs/runs/submit")) == attempt
        one.end()
        run.commit(WORK)
        assert run.seen() == run.sent
        run.clear()


def test_a_run_that_is_waited_for_in_the_triggerer_leaves_its_record_when_it_is_back(
    scene: Staged, workspace: StubApi
) -> None:
    deferrable = {'task_id="write",': 'task_id="write", deferrable=True,', **POLLED}
    run = scene("orders_databricks", deferrable, databricks_cluster="0101-orders")
    one = run.begin(WORK)
    with pytest.raises(TaskDeferred) as caught:
        one.execute()
    (body,) = workspace.sent("POST", "/jobs/runs/submit")
    assert of_arguments(body["spark_python_task"]["parameters"]) == run.told(one)
    run.play(body["spark_python_task"]["parameters"])

    async def wait() -> Any:
        return await anext(caught.value.trigger.run())

    event = asyncio.run(wait())
    back = run.resume(one)
    back.task._pre_execute_hook(back.context)
    getattr(back.task, caught.value.method_name)(back.context, event=event.payload)
    back.end()
    run.commit(WORK)
    assert run.seen() == run.sent


# ---------------------------------------------------------------------- Kubernetes


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with kubernetes_cluster() as made:
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", made.connection())
        yield made


BY_ENVIRONMENT = {'arguments=[*batch.args, "s3://lake/orders"]': "env_vars=batch.environment"}


@pytest.mark.parametrize("changes", [{}, BY_ENVIRONMENT], ids=["arguments", "environment"])
def test_a_pod_is_told_its_batch(scene: Staged, cluster: Cluster, changes: dict[str, str]) -> None:
    run = scene("orders_kubernetes", changes)
    one = run.begin(WORK)
    one.execute()
    (pod,) = cluster.api.sent("POST", "/pods")
    (container,) = pod["spec"]["containers"]
    environ = {each["name"]: each.get("value", "") for each in container.get("env", [])}
    told = of_environment(environ) if changes else of_arguments(container["args"])
    assert told == run.told(one)
    run.play(container.get("args") or (), environ)
    one.end()
    run.commit(WORK)
    assert run.seen() == run.sent


def begin_pod(task: Any, context: Any) -> None:
    task.get_or_create_pod(task.build_pod_request_obj(context), context)


def begin_application(task: Any, context: Any) -> None:
    task.name = task.create_job_name()
    task._setup_spark_configuration(context)


@pytest.mark.parametrize(
    ("dag_id", "begin", "made"),
    [("orders_kubernetes", begin_pod, "/pods"), ("orders_spark_kubernetes", begin_application, "/sparkapplications")],
)
def test_a_pod_of_an_older_attempt_is_left_for_one_of_the_new_attempt(
    scene: Staged, cluster: Cluster, dag_id: str, begin: Callable[[Any, Any], None], made: str
) -> None:
    run = scene(dag_id)
    cluster.phase = "Running"
    lost = run.begin(WORK)  # of this try the worker is lost: its pod goes on
    lost.task._pre_execute_hook(lost.context)
    begin(lost.task, lost.context)
    cluster.phase = "Succeeded"
    run.clear()
    one = run.begin(WORK)
    one.execute()
    _, body = cluster.api.sent("POST", made)
    spec = body["spec"]
    assert of_arguments(spec["arguments"] if "arguments" in spec else spec["containers"][0]["args"]) == run.told(one)


def test_a_spark_application_is_told_its_batch(scene: Staged, cluster: Cluster) -> None:
    run = scene("orders_spark_kubernetes")
    for attempt in (1, 2):
        one = run.begin(WORK)
        one.execute()
        made = cluster.api.sent("POST", "/sparkapplications")
        assert len(made) == attempt
        resource = made[-1]
        assert (resource["kind"], resource["apiVersion"]) == ("SparkApplication", "sparkoperator.k8s.io/v1beta2")
        spec = resource["spec"]
        assert (of_arguments(spec["arguments"]), spec["arguments"][-1]) == (run.told(one), "s3a://lake/orders")
        run.play(spec["arguments"])
        one.end()
        run.commit(WORK)
        assert run.seen() == run.sent
        run.clear()


# ---------------------------------------------------------------------- a worker of Airflow


def test_a_command_is_told_its_batch_by_its_environment(scene: Staged, tmp_path: Path) -> None:
    run = scene("orders_bash", {f"{SUBMIT} /data/orders": f"{sys.executable} -m tests.support.starts {tmp_path}/out"})
    one = run.begin(WORK)
    assert of_environment(one.task.env) == run.told(one)
    one.execute()
    one.end()
    run.commit(WORK)
    assert run.seen() == run.sent


def test_a_python_task_without_spark_writes_the_records_of_its_batch(scene: Staged, tmp_path: Path) -> None:
    run = scene("orders_python", {"/data/orders": str(tmp_path)})
    one = run.begin(WORK)
    one.execute()
    one.end()
    (file,) = tmp_path.glob("*.parquet")
    assert file.stem == run.frozen.batch_id
    assert sorted(data.decode() for data in pq.read_table(file)["data"].to_pylist()) == run.sent


# ---------------------------------------------------------------------- several tasks


def test_parallel_tasks_and_instances_of_a_mapped_one_in_a_group_are_works_of_their_own(
    scene: Staged, tmp_path: Path
) -> None:
    run = scene("orders_parts", {SUBMIT: f"{sys.executable} -m tests.support.starts", " /data/": f" {tmp_path}/"})
    group = run.dag.get_task("batch.marts.mart")
    commands = group.expand_input.value["bash_command"]
    tries = [run.begin(WORK), *(run.begin(group.task_id, at, bash_command=one) for at, one in enumerate(commands))]
    for one in tries:
        one.execute()
        one.end()
    works = [one.work for one in tries]
    assert works == [WORK, "batch.marts.mart[0]", "batch.marts.mart[1]"]
    assert run.dag.get_task("batch.freeze").skips == ["batch.marts.mart", WORK]  # where the batch is empty
    run.commit(*works)
    assert [run.seen(str(tmp_path / name)) for name in ("orders", "daily", "weekly")] == [run.sent] * 3


def test_every_example_of_the_page_is_executed() -> None:
    here = Path(__file__)
    others = ("system/spark/test_pyspark_task.py", "system/spark_connect/scenarios.py")
    tests = "".join(path.read_text("utf-8") for path in (here, *(here.parents[1] / name for name in others)))
    dags = re.findall(r'^with DAG\(\n    "(\w+)"', (DOCS / "launchers.md").read_text("utf-8"), re.MULTILINE)
    assert len(dags) == 11
    assert [dag_id for dag_id in dags if dag_id not in tests] == []
