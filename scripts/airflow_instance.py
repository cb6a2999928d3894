# SPDX-License-Identifier: Apache-2.0
"""Starts a real Airflow of its own on loopback, for the demo and the tests; standard library only.

Scheduler with LocalExecutor, API server, DAG processor and, if asked for, the triggerer. `airflow standalone` is not
used: it leaves processes behind when it is ended by SIGTERM, and its log servers listen on every address.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.airflow_client import AirflowClient, wait_until
from scripts.sessions import Keeper, end_sessions

#: Seconds that a component has for ending by itself.
GRACE = 15.0

# Every component reads these local settings when it starts; tasks, being forks, do not.
PRELOAD = """
import importlib
import sys

__all__ = []
if "scheduler" in sys.argv:
    for module in {modules!r}:
        importlib.import_module(module)
"""


class AirflowInstance:
    """One Airflow in a folder of its own.

    :param home: its folder; made if missing. Logs of the components stand in `home/components`.
    :param dags: the folder of DAG files.
    :param database: SQLAlchemy URL of the metadata database; default: SQLite in `home`.
    :param env: further variables for all components (connections, configuration); they win over the ones made here.
    :param base: variables to start from; default: those of this process.
    :param port: of the API server on 127.0.0.1; default: a free one.
    :param parallelism: tasks that run at once.
    :param triggerer: whether the triggerer runs too (for deferrable operators).
    :param preload: modules that the scheduler loads. Its tasks are forks of it, so none of them loads these again.
    """

    def __init__(
        self,
        home: str | os.PathLike[str],
        dags: str | os.PathLike[str],
        *,
        database: str | None = None,
        env: Mapping[str, str] | None = None,
        base: Mapping[str, str] | None = None,
        port: int | None = None,
        parallelism: int = 4,
        triggerer: bool = False,
        preload: Sequence[str] = (),
    ) -> None:
        self.home = Path(home).resolve()
        self.dags = Path(dags).resolve()
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.database = database or f"sqlite:///{self.home / 'airflow.db'}"
        self.client = AirflowClient(self.address)
        self.preload = tuple(preload)
        self.parts = ["api-server", "scheduler", "dag-processor"] + (["triggerer"] if triggerer else [])
        self.environment = self._environment(os.environ if base is None else base, parallelism) | dict(env or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._keeper: Keeper | None = None

    def _environment(self, base: Mapping[str, str], parallelism: int) -> dict[str, str]:
        # Another Airflow's settings in the caller's environment must not reach this one.
        env = {name: value for name, value in base.items() if not name.startswith("AIRFLOW_")}
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
        env["AIRFLOW_HOME"] = str(self.home)
        for name, value in self._settings(parallelism).items():
            env[f"AIRFLOW__{name}"] = str(value)
        for name in ("NO_PROXY", "no_proxy"):
            env[name] = ",".join(filter(None, [env.get(name), "127.0.0.1", "localhost"]))
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # every task starts a Python that imports Airflow anew
        if sys.platform == "darwin":
            env["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"] = "YES"
        return env

    def _settings(self, parallelism: int) -> dict[str, Any]:
        return {
            "CORE__DAGS_FOLDER": self.dags,
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": parallelism,
            "CORE__MAX_ACTIVE_TASKS_PER_DAG": parallelism,
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
            "CORE__FERNET_KEY": "",
            "DATABASE__SQL_ALCHEMY_CONN": self.database,
            "DATABASE__CHECK_MIGRATIONS": False,  # `start` has just made them, and each component would look again
            "API__HOST": "127.0.0.1",
            "API__PORT": self.port,
            "API__WORKERS": 1,
            "API__BASE_URL": self.address,
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.25,
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
            "DAG_PROCESSOR__REFRESH_INTERVAL": 3,
            "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": 1,
            # Of files that stay as they are; one that changes is parsed at once. A parse takes a second of a core.
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 300,
            "DAG_PROCESSOR__PARSING_PROCESSES": 1,
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": 120,
            "WORKERS__EXECUTION_API_TIMEOUT": 60,  # the default of 5 is too short for a busy machine
            "LOGGING__COLORED_CONSOLE_LOG": False,
            "OPENLINEAGE__DISABLED": True,
            "USAGE_DATA_COLLECTION__ENABLED": False,
        }

    # ------------------------------------------------------------------ start and stop

    def start(self, timeout: float = 180) -> AirflowInstance:
        """Makes the metadata database and starts the components; returns when all of them are healthy.

        :raises RuntimeError: with the end of its log, if a component ends.
        :raises TimeoutError: if they are not healthy in time.
        """
        (self.home / "components").mkdir(parents=True, exist_ok=True)
        self.dags.mkdir(parents=True, exist_ok=True)
        if self.preload:
            (self.home / "config").mkdir(exist_ok=True)
            (self.home / "config" / "airflow_local_settings.py").write_text(
                PRELOAD.format(modules=self.preload), encoding="utf-8"
            )
        self.airflow("db", "migrate")
        atexit.register(self.stop)
        self._keeper = Keeper()
        try:
            for part in self.parts:
                self._start_part(part)
            wait_until(self._looks_healthy, timeout, lambda: f"Airflow is not healthy; see {self.home / 'components'}")
        except BaseException:
            self.stop()
            raise
        return self

    def airflow(self, *arguments: str) -> str:
        """Runs an `airflow` command of this instance; what it printed.

        :raises RuntimeError: with what it printed, if it fails.
        """
        command = [sys.executable, "-m", "airflow", *arguments]
        done = subprocess.run(command, env=self.environment, cwd=self.home, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"airflow {' '.join(arguments)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def restart(self, part: str) -> None:
        """Kills a part with all its descendants, as the loss of its machine would, and starts it anew."""
        process = self._processes[part]
        end_sessions([process.pid], grace=0.0)
        process.wait()
        self._start_part(part)

    def _start_part(self, part: str) -> None:
        command = [sys.executable, "-m", "airflow", part]
        if part in ("scheduler", "triggerer"):
            command.append("--skip-serve-logs")  # they would listen on every address
        log = (self.home / "components" / f"{part}.log").open("ab")
        # A session of its own, so that all its descendants can be found at the end, in whatever process group they are.
        process = subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        self._processes[part] = process
        if self._keeper is not None:
            self._keeper.keep(process.pid)

    def _looks_healthy(self) -> bool:
        for part, process in self._processes.items():
            if process.poll() is not None:
                tail = (self.home / "components" / f"{part}.log").read_text("utf-8", "replace")[-3000:]
                raise RuntimeError(f"airflow {part} ended with code {process.returncode}:\n{tail}")
        return self.client.healthy()

    def stop(self) -> None:
        """Ends all that was started. May be called twice."""
        processes, self._processes = self._processes, {}
        server = processes.pop("api-server", None)
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        deadline = time.monotonic() + GRACE
        for process in processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        end_sessions([process.pid for process in processes.values()])
        for process in processes.values():
            process.wait()
        if server is not None:
            # It is there until the tasks have told it of their ends. It keeps nothing, and a Python of its size takes
            # seconds of a core to end by itself.
            end_sessions([server.pid], grace=0.0)
            server.wait()
        if self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            keeper.close()
        atexit.unregister(self.stop)

    def __enter__(self) -> AirflowInstance:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()


def free_port() -> int:
    """A loopback port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Starts an Airflow and leaves it up until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, type=Path, help="its folder (AIRFLOW_HOME)")
    parser.add_argument("--dags", required=True, type=Path, help="the folder of DAG files")
    parser.add_argument("--port", type=int, help="of the API server; default: a free one")
    parser.add_argument("--triggerer", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with AirflowInstance(given.home, given.dags, port=given.port, triggerer=given.triggerer) as instance:
        print(f"Airflow answers at {instance.address} (no login); Ctrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
