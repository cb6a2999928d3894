# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster of one worker on loopback, made of the pyspark wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scripts.environment import QUICK_JAVA, process_environment, python_path, spark_home
from tests.support.ports import LOOPBACK, free_ports
from tests.support.waiting import wait_until

#: spark-submit refuses a Python file in standalone cluster mode. Spark's own class for Python drivers, given as the
#: main class of the jar that it stands in, runs one there: its arguments begin with the file and a list of more files.
PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
#: Of an application of one small driver and one core.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
    "spark.sql.shuffle.partitions": "1",
}
OVER = frozenset({"FINISHED", "KILLED", "FAILED", "ERROR"})


@dataclass(frozen=True)
class SparkCluster:
    """A master and its worker; drivers and executors run as children of the worker."""

    master: str
    rest: str
    pages: str
    worker: psutil.Process
    folder: Path

    def connection(self, deploy_mode: str) -> dict[str, Any]:
        """An Airflow connection to it."""
        rest_port = self.rest.rpartition(":")[2]
        return {
            "conn_type": "spark",
            "host": self.master,
            "extra": {"deploy-mode": deploy_mode, "rest-port": rest_port},
        }

    def drivers(self) -> dict[str, str]:
        """All drivers that were ever submitted, with their states."""
        found = _asked(f"{self.pages}/json/")
        return {driver["id"]: driver["state"] for driver in found["activedrivers"] + found["completeddrivers"]}

    def state(self, driver: str) -> str:
        """The state of a driver, as the submission server tells it."""
        return _asked(f"{self.rest}/v1/submissions/status/{driver}").get("driverState", "")

    def wait_for(self, driver: str, states: frozenset[str] = OVER, timeout: float = 90) -> str:
        """Waits until a driver is in one of the states; the state."""
        return wait_until(
            lambda: state if (state := self.state(driver)) in states else "", timeout, f"{driver} to be {set(states)}"
        )

    def applications(self) -> list[str]:
        """The names of all applications, the finished ones too."""
        found = _asked(f"{self.pages}/json/")
        return [application["name"] for application in found["activeapps"] + found["completedapps"]]

    def kill(self, driver: str) -> None:
        """Ends a driver, as ``spark-submit --kill`` does."""
        _asked(f"{self.rest}/v1/submissions/kill/{driver}", "POST")

    def log(self, driver: str) -> str:
        """What a driver printed."""
        parts = [self.folder / "work" / driver / name for name in ("stdout", "stderr")]
        return "\n".join(part.read_text("utf-8", "replace") for part in parts if part.exists())


def python_application(job: Path, *arguments: str) -> dict[str, Any]:
    """What an operator is given to run a Python file in standalone cluster mode."""
    (jar,) = (spark_home() / "jars").glob("spark-core_*.jar")
    return {"java_class": PYTHON_RUNNER, "application": str(jar), "application_args": [str(job), "", *arguments]}


@contextmanager
def spark_cluster(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[SparkCluster]:
    """Starts one; all its processes are gone afterwards.

    :param env: further variables of the worker, which its drivers and executors inherit.
    """
    port, rest, pages, worker_port, worker_pages = free_ports(5)
    master_url = f"spark://{LOOPBACK}:{port}"
    shared = {**process_environment(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOG_DIR": str(folder)}
    rest_server = f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={rest}"
    where = ["--host", LOOPBACK]
    started: list[subprocess.Popen[bytes]] = []
    try:
        words = ["org.apache.spark.deploy.master.Master", *where, "--port", str(port), "--webui-port", str(pages)]
        started.append(_start("master", words, {**shared, "SPARK_MASTER_OPTS": f"{QUICK_JAVA} {rest_server}"}, folder))
        wait_until(lambda: _answers(f"http://{LOOPBACK}:{pages}/json/", started[0]), 60, "the master to answer")
        words = ["org.apache.spark.deploy.worker.Worker", *where, "--port", str(worker_port)]
        words += ["--webui-port", str(worker_pages), "--cores", "8", "--memory", "6g"]
        words += ["--work-dir", str(folder / "work"), master_url]
        environment = {**shared, "PYTHONPATH": python_path(), **(env or {})}
        started.append(_start("worker", words, environment, folder))
        cluster = SparkCluster(
            master=master_url,
            rest=f"http://{LOOPBACK}:{rest}",
            pages=f"http://{LOOPBACK}:{pages}",
            worker=psutil.Process(started[1].pid),
            folder=folder,
        )
        wait_until(lambda: _asked(f"{cluster.pages}/json/")["aliveworkers"] == 1, 60, "the worker to register")
        yield cluster
    finally:
        for process in reversed(started):
            _end(process)


def _start(name: str, words: list[str], env: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("spark-class")
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([program, *words], env=dict(env), cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def _end(process: subprocess.Popen[bytes]) -> None:
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for child in below:  # drivers, executors, and the Python that they started
        if child.is_running():
            child.kill()
    psutil.wait_procs(below, timeout=10)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the master has ended; see its log"
    try:
        return bool(_asked(url))
    except OSError:
        return False


def _asked(url: str, method: str = "GET") -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy is asked for loopback
    with opener.open(urllib.request.Request(url, method=method), timeout=20) as answer:
        return json.loads(answer.read())
