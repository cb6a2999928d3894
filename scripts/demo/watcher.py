# SPDX-License-Identifier: Apache-2.0
"""What happens in Airflow and in the lease store, told as it happens."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.airflow_client import FINISHED, AirflowClient, ApiError
from scripts.demo.console import Console
from shardbatch.control.status import ShardStatus, batches, shards
from shardbatch.core.batch import BatchState
from shardbatch.core.rows import TABLES, Namespace
from shardbatch.run.batch_status import BatchStatus
from shardbatch.run.consumer import Rows
from shardbatch.stores.sql import SQLStore

DAG_ID = "flights_connect"
NAMESPACE = Namespace("flights-over-connect", "flights")
STEPS = ("claim", "read", "freeze", "by_day", "commit")

_FIELDS = re.compile(r" (?:try_number|dag_id|run_id|ti_id|map_index|task_id|logger|filename|lineno)=\S+")


@dataclass
class Progress:
    """How far the application is: batches frozen and committed, records committed, shards completed."""

    frozen: int = 0
    committed: int = 0
    records: int = 0
    completed: int = 0


class Watcher:
    """Looks at the runs and the rows, and says what is new; a call of :meth:`look` is one look.

    :param say: takes a line for every event.
    """

    def __init__(self, client: AirflowClient, leases: Path, console: Console, quiet: threading.Event) -> None:
        self.progress = Progress()
        self.failed_runs: list[str] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, list[dict[str, Any]]] = {}
        self.last_event = console.elapsed
        self._client = client
        self._leases = leases
        self._console = console
        self._quiet = quiet
        self._store: SQLStore | None = None
        self._seen: dict[tuple[str, str, int], tuple[str | None, int]] = {}
        self._batches: dict[str, str] = {}
        self._completed: set[str] = set()

    # ------------------------------------------------------------------ the rows

    def batches(self) -> tuple[BatchStatus, ...]:
        """All batches, the oldest first."""
        store = self._open()
        return () if store is None else tuple(reversed(batches(store, NAMESPACE, limit=1000)))

    def shards(self) -> tuple[ShardStatus, ...]:
        """All shards that have a lease."""
        store = self._open()
        return () if store is None else shards(store, NAMESPACE)

    def _open(self) -> SQLStore | None:
        # The file, its tables and the application are made by the first claim; until then there is nothing to see.
        if self._store is None and self._leases.exists():
            from sqlalchemy import inspect

            store = SQLStore(f"sqlite:///{self._leases}", create=False)
            made = len(inspect(store.engine).get_table_names()) == len(TABLES)
            if not made or Rows(namespace=NAMESPACE, store=store).application() is None:
                store.close()
                return None
            self._store = store
        return self._store

    def close(self) -> None:
        """Close the lease store."""
        if self._store is not None:
            self._store.close()

    # ------------------------------------------------------------------ one look

    def look(self) -> Progress:
        """Say what is new since the last look; how far the application is."""
        for run in self._client.runs(DAG_ID):
            known = self.runs.get(run["dag_run_id"])
            self.runs[run["dag_run_id"]] = run
            if known is None:
                self._event(f"{self.name(run['dag_run_id'])} begins ({run['run_type']})")
            if known is None or known["state"] not in FINISHED:
                self._look_at_tasks(run)
        self._look_at_rows()
        return self.progress

    def name(self, run_id: str) -> str:
        """A run by its number, in the order in which they were seen."""
        return f"run {list(self.runs).index(run_id) + 1}"

    def _look_at_tasks(self, run: dict[str, Any]) -> None:
        run_id = run["dag_run_id"]
        self.tasks[run_id] = self._client.tasks(DAG_ID, run_id)
        for task in self.tasks[run_id]:
            place = (run_id, task["task_id"], task["map_index"])
            state = (task["state"], task["try_number"])
            if self._seen.get(place) != state:
                self._seen[place] = state
                self._tell_task(run_id, task)
        if run["state"] in FINISHED:
            self._event(f"{self.name(run_id)} is over: {run['state']}")
            if run["state"] == "failed":
                self.failed_runs.append(run_id)

    def _tell_task(self, run_id: str, task: dict[str, Any]) -> None:
        name = task["task_id"].rpartition(".")[2] + (f" {task['map_index']}" if task["map_index"] >= 0 else "")
        where = f"{self.name(run_id)} {name}"
        if task["state"] == "success" and task["duration"] is not None:
            self._event(f"{where}: {task['duration']:.1f} s")
        elif task["state"] in ("failed", "up_for_retry"):
            self._event(f"{where}: {task['state']}\n{self._log_tail(run_id, task)}")
        elif task["state"] == "skipped" and name == "read":
            self._event(f"{where}: nothing to read")

    def _log_tail(self, run_id: str, task: dict[str, Any]) -> str:
        try:
            text = self._client.log(DAG_ID, run_id, task["task_id"], task["try_number"], task["map_index"])
        except (ApiError, OSError) as error:
            return f"(its log cannot be read: {error})"
        lines = [_FIELDS.sub("", line).rstrip() for line in text.splitlines()]
        told = [line for line in lines if line.startswith(("error", "critical", "warning"))] or lines
        return "\n".join(f"    | {line[:1000]}" for line in told[-15:])

    def _look_at_rows(self) -> None:
        for batch in self.batches():
            self.progress.frozen += batch.batch_id not in self._batches
            if self._batches.get(batch.batch_id) != batch.state:
                self._batches[batch.batch_id] = batch.state
                self._tell_batch(batch)
        for shard in self.shards():
            if shard.state == "completed" and shard.shard_id not in self._completed:
                self._completed.add(shard.shard_id)
                self._event(f"{shard.shard_id} is read to its end and committed")
        self.progress.completed = len(self._completed)

    def _tell_batch(self, batch: BatchStatus) -> None:
        if batch.state == BatchState.COMMITTED.value:
            self.progress.committed += 1
            self.progress.records += batch.records
            self._event(f"batch {batch.batch_id} is committed: {self.progress.records:,} records in all")
        else:
            self._event(
                f"batch {batch.batch_id} is {batch.state}: {batch.records:,} records, {batch.bytes / 1e6:.1f} MB"
            )

    def _event(self, text: str) -> None:
        self.last_event = self._console.elapsed
        if not self._quiet.is_set():
            self._console.say(text)
