# SPDX-License-Identifier: Apache-2.0
"""A Spark Connect server on loopback, made of the pyspark wheel: for the demo, the tests and the benchmarks.

``with start(folder) as server:`` runs one for the length of the block; ``server.port`` is where it listens.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from scripts.environment import QUICK_JAVA, process_environment, python_path
from scripts.sessions import Keeper

LOOPBACK = "127.0.0.1"
#: Of a server for small jobs on two cores.
SMALL = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.driver.memory": "1g",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.log.level": "WARN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
START_TIMEOUT_S = 180.0
#: Seconds that a server is given to end after it was asked to.
GRACE_S = 10.0


class ConnectServerError(RuntimeError):
    """A Spark Connect server ended, or did not answer in time; the end of its log is in the message."""


@dataclass
class ConnectServer:
    """A running server. Jobs reach it at ``sc://127.0.0.1:PORT``."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    keeper: Keeper
    _family: list[psutil.Process] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address for ``SPARK_REMOTE``."""
        return f"sc://{LOOPBACK}:{self.port}"

    def connection(self) -> dict[str, Any]:
        """An Airflow connection to it."""
        return {"conn_type": "spark_connect", "host": LOOPBACK, "port": self.port}

    def connection_text(self) -> str:
        """The same as JSON, for a variable ``AIRFLOW_CONN_…``."""
        return json.dumps(self.connection())

    def stop(self) -> None:
        """End it with the Python workers that it started. Again is nothing."""
        if self.process.poll() is None:
            self._family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.terminate()
            try:
                self.process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for child in self._family:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(self._family, timeout=GRACE_S)
        self.keeper.close()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        self.stop()


def command(port: int, folder: Path, conf: Mapping[str, str] | None = None) -> list[str]:
    """What starts a server.

    :param port: where it listens.
    :param folder: where it keeps its warehouse.
    :param conf: further configuration of Spark, over :data:`SMALL`.
    """
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **SMALL,
        **(conf or {}),
    }
    words = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--name", "shardbatch"]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    return [*words, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a server, whose Python workers import from this checkout."""
    return {**process_environment(), "PYTHONPATH": python_path(), **(env or {})}


def answers(port: int, timeout: float = 2.0) -> bool:
    """Whether a server answers there."""
    import grpc

    options = [("grpc.enable_http_proxy", 0)]  # no proxy is asked for loopback
    with grpc.insecure_channel(f"{LOOPBACK}:{port}", options=options) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout)
        except grpc.FutureTimeoutError:
            return False
    return True


@contextlib.contextmanager
def start(
    folder: Path,
    *,
    port: int | None = None,
    conf: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = START_TIMEOUT_S,
) -> Iterator[ConnectServer]:
    """Run a server for the length of the block; all its processes are gone afterwards, also if the caller is killed.

    :param folder: an existing folder for its log and its warehouse.
    :param port: where it listens, default: a free port.
    :param conf: further configuration of Spark.
    :param env: further variables.
    :param timeout: seconds until it must answer.
    :raises ConnectServerError: if it ends before it answers, or does not answer in time.
    """
    server = launch(folder, port=port, conf=conf, env=env)
    try:
        await_answer(server, timeout)
        yield server
    finally:
        server.stop()


def launch(
    folder: Path,
    *,
    port: int | None = None,
    conf: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> ConnectServer:
    """Start a server and do not wait for it. The caller stops it; if the caller is killed, it ends too."""
    port = free_port() if port is None else port
    log = folder / "spark-connect.log"
    keeper = Keeper()
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(port, folder, conf),
            env=environment(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the caller only, which then stops it; and for the keeper
        )
    keeper.keep(process.pid)
    return ConnectServer(port, process, log, keeper)


def await_answer(server: ConnectServer, timeout: float = START_TIMEOUT_S) -> None:
    """Wait until a server answers.

    :raises ConnectServerError: if it ends before, or does not in time.
    """
    deadline = time.monotonic() + timeout
    while not answers(server.port):
        code = server.process.poll()
        if code is not None or time.monotonic() > deadline:
            what = f"did not answer within {timeout:g} s" if code is None else f"ended with exit code {code}"
            raise ConnectServerError(f"The Spark Connect server {what}:\n{_tail(server.log)}")


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as drawn:
        drawn.bind((LOOPBACK, 0))
        return int(drawn.getsockname()[1])


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-3000:]
