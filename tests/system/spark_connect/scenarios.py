# SPDX-License-Identifier: Apache-2.0
"""Runs SparkConnectBatchOperator with a real Spark Connect server, one process for all, and writes down what happened.

``python -m tests.system.spark_connect.scenarios FOLDER [NAME…]`` in an environment made by the test leaves
FOLDER/found.json.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import psutil
import pyarrow.parquet as pq
from airflow.sdk import DAG, task

from scripts import spark_connect
from scripts.environment import process_environment
from shardbatch.core import batch as batches
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.spark_connect import SparkConnectBatchOperator
from shardbatch.run import beat
from shardbatch.submit import connect, processes
from tests.support.pages import DOCS, blocks, parsed
from tests.support.waiting import wait_until
from tests.system.spark_operator.scenarios import OUTPUTS, Scene, attempted, run_dag

FOLDER = Path(sys.argv[1])
JOB, TRY = Path(__file__).with_name("job.py"), "tests.system.spark_connect.one_try"
#: Seconds for a query of a new session, on a shared machine; an endless one of another session holds both cores.
FREE_S = 60.0
#: Seconds of processor time of the server that only the endless query uses.
QUERY_S = 2.0
server: spark_connect.ConnectServer


class OverConnect(Scene):
    """The scene of the other operator, with this one."""

    def given(self, what: str) -> dict[str, Any]:
        """What the operator is given that can be written down."""
        bound = {name: getattr(self.frozen, name) for name in OUTPUTS} if self.frozen else {}
        return {
            "application": str(JOB),
            "application_args": [str(self.out), what],
            "conf": {"spark.sql.shuffle.partitions": 3},
            "app_name": self.name,
            "group_id": "orders",
            **bound,
        }

    def connected(self, what: str, **more: Any) -> SparkConnectBatchOperator:
        """The operator, for the frozen batch or the one that ``more`` names."""
        given: dict[str, Any] = {
            "task_id": "transform",
            "heartbeat": timedelta(seconds=1),
            "stream": KinesisStream("orders", aws_conn_id=None),
            "leases": SQLLeases("leases_db"),
            "staging": Staging(str(self.staging)),
            **self.given(what),
            **more,
        }
        return SparkConnectBatchOperator(**given)

    @property
    def waits(self) -> Path:
        """What the script leaves before its endless query."""
        return self.out.with_name("waits")

    def session(self) -> connect.Session | None:
        return connect.parse(self.row().spark_application[1] or "")

    def when_querying(self, act: Callable[[psutil.Process], None]) -> threading.Thread:
        """Do something with the script's process once its endless query holds the server."""

        def watch() -> None:
            try:
                act(self.querying())
            except Exception:  # noqa: BLE001 - it is told, and ends all
                traceback.print_exc()
                os._exit(1)  # the operator would wait for ever

        thread = threading.Thread(target=watch)
        thread.start()
        return thread

    def querying(self) -> psutil.Process:
        script = wait_until(lambda: next(iter(self.scripts()), None), 120, "the script to run")
        wait_until(self.waits.exists, 120, "it to begin its query")
        before = used()
        wait_until(lambda: used() > before + QUERY_S, 120, "the query to hold the server")
        return cast("psutil.Process", script)

    def scripts(self) -> list[psutil.Process]:
        """The processes of this host that work on the batch over Connect."""
        found = []
        for process in psutil.process_iter():
            if processes._of_script(process, self.row().batch_id) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found


def used() -> float:
    """Seconds of processor time that the server has used."""
    return float(sum(psutil.Process(server.process.pid).cpu_times()[:2]))


def client(words: str, session: connect.Session) -> subprocess.Popen[str]:
    """A client of another worker: nothing in its environment leads from the batch to it."""
    remote = connect.remote(connect.Server(session.host, session.port), session)
    code = f"from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n{words}"
    env = {**process_environment(), "SPARK_REMOTE": remote}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free() -> bool:
    """Whether the server has its cores for a query of a new session."""
    asked = client("print('counted', spark.range(0, 100, 1, 2).count())", connect.draw(here()))
    try:
        return "counted 100" in asked.communicate(timeout=FREE_S)[0]
    except subprocess.TimeoutExpired:
        asked.kill()
        return False


def here() -> connect.Server:
    return connect.Server(spark_connect.LOOPBACK, server.port)


def in_a_dag_run() -> dict[str, Any]:
    """The operator after a real task, its batch from XComs. An older attempt's script lives on at another worker: it
    writes only once its session is ended."""
    scene = OverConnect("in_a_dag_run")
    older: list[subprocess.Popen[str]] = []
    late = scene.out / "late"

    with DAG("in_a_dag_run", schedule=None) as dag:

        @task(multiple_outputs=True)
        def prepare(run_id: Any = None) -> dict[str, Any]:
            frozen = scene.freeze(run_id)
            session = connect.draw(here())
            words = "print('open', spark.version, flush=True)\ninput()\n"
            older.append(client(f"{words}spark.range(3).write.parquet({str(late)!r})", session))
            assert cast("Any", older[0].stdout).readline
            wait_until(lambda: "open" in cast("Any", older[0].stdout).readline(), 120, "the older script to connect")
            beat(scene.consumer, scene.owner, cast("str", frozen.batch_id), 1, session.reference)
            frozen = scene.freeze(run_id)
            return {name: getattr(frozen, name) for name in OUTPUTS}

        outputs = prepare()
        operator = scene.connected("copy", **{name: outputs[name] for name in OUTPUTS})
        assert "prepare" in operator.upstream_task_ids
    run = run_dag(dag)
    refused = older[0].communicate("go on\n", timeout=120)[0]
    records = sum(pq.read_table(file).num_rows for file in scene.out.glob("batch_id=*/start=*/*.parquet"))
    return scene.found(
        state=str(run.state), records=records, refused=refused[-2000:], code=older[0].returncode, late=late.exists()
    )


def late_client() -> dict[str, Any]:
    """A script whose task died before it connected comes after its session was ended."""
    scene = OverConnect("late_client")
    scene.freeze()
    session = connect.draw(here())
    ending = scene.connected("copy", conn_id="spark_connect_default").end_recorded(session.reference, "b1")
    late = scene.out / "late"
    refused = client(f"spark.range(3).write.parquet({str(late)!r})", session).communicate(timeout=120)[0]
    return scene.found(over=ending.over, said=ending.said, refused=refused[-2000:], late=late.exists())


def example_of_the_page() -> dict[str, Any]:
    """The DAG and the job of docs/launchers.md, where only paths are others."""
    scene = OverConnect("orders-connect")
    scene.freeze()
    page = blocks(DOCS / "launchers.md", "python")
    (job,) = [one for one in page if "sys.argv[-1]" in one.text]
    (example,) = [one for one in page if '"orders_connect",' in one.text]
    script = scene.out.with_name("orders.py")
    script.write_text(job.text, "utf-8")
    os.environ["AIRFLOW__SHARDBATCH__LEASES"] = "sql://leases_db"
    os.environ["AIRFLOW__SHARDBATCH__STAGING"] = str(scene.staging)
    text = example.text.replace("/jobs/orders.py", str(script)).replace("/data/orders", str(scene.out))
    (dag,) = parsed(example, text)
    operator = dag.get_task("batch.write").prepare_for_execution()
    operator.spec = replace(operator.spec, group_id=scene.owner.group_id)  # that of the scene
    for name in OUTPUTS:
        setattr(operator, name, getattr(scene.frozen, name))
    operator.execute(scene.context())
    (start,) = scene.out.glob("batch_id=*/start=*")
    return scene.found(rows=pq.read_table(start).num_rows)


def committed_already() -> dict[str, Any]:
    scene = OverConnect("committed_already")
    scene.freeze()
    scene.change(lambda batch: batches.decide(batch, (), 1, 1))
    return scene.found(error=attempted(cast("Any", scene.connected("fail")), scene.context()))


def of_another_owner() -> dict[str, Any]:
    scene = OverConnect("of_another_owner")
    scene.freeze()
    scene.change(lambda batch: batches.adopt(batch, "another/owner"))
    return scene.found(error=attempted(cast("Any", scene.connected("fail")), scene.context()))


def job_fails() -> dict[str, Any]:
    scene = OverConnect("job_fails")
    scene.freeze()
    return scene.found(error=attempted(cast("Any", scene.connected("fail")), scene.context()))


def job_wants_a_context() -> dict[str, Any]:
    scene = OverConnect("job_wants_a_context")
    scene.freeze()
    return scene.found(error=attempted(cast("Any", scene.connected("context")), scene.context()))


def conf_is_refused() -> dict[str, Any]:
    scene = OverConnect("conf_is_refused")
    scene.freeze()
    operator = scene.connected("copy", conf={"spark.driver.memory": "8g"})
    return scene.found(error=attempted(cast("Any", operator), scene.context()))


def lost_while_it_runs() -> dict[str, Any]:
    scene = OverConnect("lost_while_it_runs")
    scene.freeze()
    thread = scene.when_querying(lambda _: scene.change(lambda batch: batches.adopt(batch, "another/owner")))
    error = attempted(cast("Any", scene.connected("wait")), scene.context())
    thread.join()
    return scene.found(error=error, left=len(scene.scripts()), free=free())


def killed() -> dict[str, Any]:
    """As a worker does it: SIGTERM to the task, whose handler calls on_kill."""
    scene = OverConnect("killed")
    scene.freeze()
    operator = scene.connected("wait")
    before = signal.signal(signal.SIGTERM, lambda number, frame: operator.on_kill())
    thread = scene.when_querying(lambda _: os.kill(os.getpid(), signal.SIGTERM))
    error = attempted(cast("Any", operator), scene.context())
    thread.join()
    signal.signal(signal.SIGTERM, before)
    return scene.found(error=error, left=len(scene.scripts()), free=free())


def script_killed() -> dict[str, Any]:
    """The query of a script that is gone goes on until its session is ended."""
    scene = OverConnect("script_killed")
    scene.freeze()
    thread = scene.when_querying(lambda script: script.kill())
    error = attempted(cast("Any", scene.connected("wait")), scene.context())
    thread.join()
    return scene.found(error=error, left=len(scene.scripts()), free=free())


def task_lost_and_retried() -> dict[str, Any]:
    """A worker is lost with its task; its script and the query go on. The retry of the attempt ends both."""
    scene = OverConnect("task_lost_and_retried")
    scene.freeze()
    first = one_try(scene, "wait")
    scene.querying()
    noted = scene.session()
    first.kill()
    first.wait()
    lives = len(scene.scripts())
    error = attempted(cast("Any", scene.connected("copy")), scene.context())
    return scene.found(error=error, lives=lives, left=len(scene.scripts()), same=scene.session() == noted)


def two_tries_at_once() -> dict[str, Any]:
    """A try that Airflow takes for dead works on beside the retry, which ends it; only the retry's start counts."""
    scene = OverConnect("two_tries_at_once")
    scene.freeze()
    first = one_try(scene, "wait")
    scene.querying()
    error = attempted(cast("Any", scene.connected("copy")), scene.context())
    said = first.communicate(timeout=120)[0]
    return scene.found(error=error, first=said[-1500:], code=first.returncode)


def one_try(scene: OverConnect, what: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", TRY, str(scene.staging), json.dumps(scene.given(what))]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def server_lost() -> dict[str, Any]:
    """The server ends while a script works, and is started anew."""
    global server
    scene = OverConnect("server_lost")
    scene.freeze()

    def lose(script: psutil.Process) -> None:
        global server
        server.kill()
        server = spark_connect.launch(FOLDER, port=server.port)
        spark_connect.await_answer(server)

    thread = scene.when_querying(lose)
    error = attempted(cast("Any", scene.connected("wait")), scene.context())
    thread.join()
    retried = attempted(cast("Any", scene.connected("copy")), scene.context())
    return scene.found(error=error, retried=retried)


SCENARIOS = (
    in_a_dag_run,
    late_client,
    example_of_the_page,
    committed_already,
    of_another_owner,
    job_fails,
    job_wants_a_context,
    conf_is_refused,
    lost_while_it_runs,
    killed,
    script_killed,
    task_lost_and_retried,
    two_tries_at_once,
    server_lost,
)


def main() -> None:
    global server
    from airflow.utils.db import initdb

    server = spark_connect.launch(FOLDER)
    try:
        os.environ["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"] = server.connection_text()
        initdb()
        spark_connect.await_answer(server)
        found = {}
        for scenario in [one for one in SCENARIOS if one.__name__ in sys.argv[2:] or not sys.argv[2:]]:
            began = time.monotonic()
            print(f"=== {scenario.__name__}", flush=True)
            found[scenario.__name__] = scenario()
            print(f"{time.monotonic() - began:.1f} s", flush=True)
            (FOLDER / "found.json").write_text(json.dumps(found, indent=2))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
