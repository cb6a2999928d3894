# SPDX-License-Identifier: Apache-2.0
"""What a person does in Airflow's pages, over its REST API; standard library only. Made for an instance on loopback."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

T = TypeVar("T")

FINISHED = frozenset({"success", "failed"})


class ApiError(RuntimeError):
    """The API refused a call; `status` is its HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class AirflowClient:
    """The REST API of an Airflow.

    :param address: as `http://127.0.0.1:8080`.
    :param login: name and password; default: none, in an Airflow where everybody is an admin.
    """

    def __init__(self, address: str, login: tuple[str, str] | None = None) -> None:
        self.address = address
        self.login = login
        # A proxy of the environment must not be asked for loopback.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""

    # ------------------------------------------------------------------ calls

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call of `/api/v2`; the answer as JSON.

        :raises ApiError: for an answer that is an error.
        """
        return self._ask(method, f"/api/v2/{path}", body, query)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of any path, as a plugin serves it.

        :raises ApiError: for an answer that is an error.
        """
        return self._ask("GET", path, None, query)

    def _ask(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> Any:
        url = f"{self.address}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        for fresh in (False, True):
            try:
                return self._send(method, url, body, self._authorization(fresh))
            except urllib.error.HTTPError as error:
                if error.code != 401 or fresh:
                    raise ApiError(error.code, error.read().decode(errors="replace")[:2000]) from None
        raise AssertionError

    def _authorization(self, fresh: bool) -> str:
        if fresh or not self._token:
            self._token = self._new_token()
        return f"Bearer {self._token}"

    def _new_token(self) -> str:
        url = f"{self.address}/auth/token"
        if self.login is None:
            return str(self._send("GET", url, None, "")["access_token"])
        name, password = self.login
        return str(self._send("POST", url, {"username": name, "password": password}, "")["access_token"])

    def _send(self, method: str, url: str, body: Any, authorization: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if authorization:
            headers["Authorization"] = authorization
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        with self._opener.open(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def healthy(self) -> bool:
        """Whether the APIs answer and the scheduler has shown life."""
        try:
            # The tasks' own API is built at its first call, which takes seconds: not the first task shall wait for it.
            self._send("GET", f"{self.address}/execution/health", None, "")
            health = self.call("GET", "monitor/health")
        except (OSError, ApiError):
            return False
        return all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor"))

    # ------------------------------------------------------------------ DAGs and runs

    def wait_for_dag(self, dag_id: str, timeout: float = 90) -> None:
        """Waits until the DAG was parsed, and unpauses it.

        :raises TimeoutError: with the import errors, if there are any.
        """

        def unpaused() -> bool:
            with contextlib.suppress(ApiError):
                self.call("PATCH", f"dags/{quote(dag_id)}", {"is_paused": False})
                self.call("GET", f"dags/{quote(dag_id)}/details")  # its row comes a little before its tasks
                return True
            return False

        wait_until(unpaused, timeout, lambda: f"DAG {dag_id} did not appear; import errors: {self.import_errors()}")

    def import_errors(self) -> dict[str, str]:
        """The traceback of every DAG file that cannot be imported, by its name."""
        errors: list[dict[str, str]] = self.call("GET", "importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def trigger(self, dag_id: str, run_id: str | None = None, **fields: Any) -> str:
        """Starts a run as a manual trigger does; `fields` are the API's (`conf`, `logical_date`, …). The run's id."""
        body = {"logical_date": None, **fields} | ({"dag_run_id": run_id} if run_id else {})
        return str(self.call("POST", f"dags/{quote(dag_id)}/dagRuns", body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """The run as the API shows it."""
        found: dict[str, Any] = self.call("GET", self._run(dag_id, run_id))
        return found

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The DAG's runs, the oldest first."""
        path = f"dags/{quote(dag_id)}/dagRuns"
        found: list[dict[str, Any]] = self.call("GET", path, order_by="run_after", limit=100)["dag_runs"]
        return found

    def wait_for_run(self, dag_id: str, run_id: str, timeout: float = 180) -> str:
        """Waits until the run is finished; its state."""

        def finished() -> str | None:
            state = str(self.run(dag_id, run_id)["state"])
            return state if state in FINISHED else None

        return wait_until(
            finished, timeout, lambda: f"run {run_id} of {dag_id} is not finished: {self.task_states(dag_id, run_id)}"
        )

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Marks a run `success` or `failed`; running tasks are ended."""
        self.call("PATCH", self._run(dag_id, run_id), {"state": state})

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Deletes a run."""
        self.call("DELETE", self._run(dag_id, run_id))

    def clear(self, dag_id: str, run_id: str, task_ids: Sequence[Any] | None = None, **fields: Any) -> None:
        """Clears tasks of a run (default: all), whatever their state; `fields` are the API's, as `include_upstream`."""
        body = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, **fields}
        if task_ids is not None:
            body["task_ids"] = list(task_ids)
        self.call("POST", f"dags/{quote(dag_id)}/clearTaskInstances", body)

    # ------------------------------------------------------------------ task instances

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """All task instances of a run as the API shows them."""
        path = f"{self._run(dag_id, run_id)}/taskInstances"
        found: list[dict[str, Any]] = self.call("GET", path, limit=1000)["task_instances"]
        return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State by task id; a mapped instance as `task_id[map_index]`."""
        return {_name(task): task["state"] for task in self.tasks(dag_id, run_id)}

    def wait_for_task(
        self, dag_id: str, run_id: str, name: str, states: Sequence[str], timeout: float = 120
    ) -> dict[str, Any]:
        """Waits until a task instance (named as in :meth:`task_states`) is in one of the states; the instance."""

        def found() -> dict[str, Any] | None:
            for task in self.tasks(dag_id, run_id):
                if _name(task) == name and task["state"] in states:
                    return task
            return None

        return wait_until(found, timeout, lambda: f"{name} is not {states}: {self.task_states(dag_id, run_id)}")

    def mark_task(self, dag_id: str, run_id: str, task_id: str, state: str, map_index: int | None = None) -> None:
        """Marks a task `success`, `failed` or `skipped`."""
        index = "" if map_index is None else f"/{map_index}"
        self.call("PATCH", f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}{index}", {"new_state": state})

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Any:
        """An XCom's value, or `None` if there is none."""
        path = f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key, safe='')}"
        try:
            return self.call("GET", path, map_index=map_index, deserialize="true")["value"]
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1, map_index: int = -1) -> str:
        """The log of one try as text, a line an event with its fields."""
        path = f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{attempt}"
        answer = self.call("GET", path, map_index=map_index, full_content="true")["content"]
        return "\n".join(line if isinstance(line, str) else _log_line(line) for line in answer)

    def question(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """What a task asks a person: its `subject`, `body` and `options`."""
        found: dict[str, Any] = self.call(
            "GET", f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}/-1/hitlDetails"
        )
        return found

    def answer(self, dag_id: str, run_id: str, task_id: str, *options: str) -> None:
        """Answers what a task asks a person."""
        body = {"chosen_options": list(options), "params_input": {}}
        self.call("PATCH", f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}/-1/hitlDetails", body)

    def _run(self, dag_id: str, run_id: str) -> str:
        return f"dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _name(task: Mapping[str, Any]) -> str:
    return task["task_id"] if task["map_index"] < 0 else f"{task['task_id']}[{task['map_index']}]"


def _log_line(line: Mapping[str, Any]) -> str:
    shown = [str(line.get("level", "")), str(line.get("event", ""))]
    shown += [f"{key}={value}" for key, value in line.items() if key not in ("level", "event", "timestamp")]
    return " ".join(shown)


def wait_until(look: Callable[[], T | None], timeout: float, explain: Callable[[], str]) -> T:
    """Looks until there is something true to see; less often as time goes by, since each look costs the server.

    :raises TimeoutError: after `timeout` seconds, with the explanation.
    """
    began = time.monotonic()
    deadline = began + timeout
    while True:
        if seen := look():
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(explain())
        time.sleep(min(0.2 + (time.monotonic() - began) / 20, 0.75))
