# SPDX-License-Identifier: Apache-2.0
"""A verb refuses the same by the command line and by its operator, and does the same."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import (
    AcceptGapOperator,
    AdoptRootOperator,
    CleanStagingOperator,
    DropBatchOperator,
    ForgetRootOperator,
    ImportPositionsOperator,
    KinesisStream,
    ParkBatchOperator,
    ReleaseOperator,
    RemoveApplicationOperator,
    ReplayBatchOperator,
    ResetOperator,
    SetAsideBatchOperator,
    SQLLeases,
    Staging,
    SumMarkersOperator,
    UnparkBatchOperator,
)
from shardbatch.control.verbs import VERBS
from shardbatch.core.batch import BatchState
from shardbatch.core.rows import TABLES
from shardbatch.errors import OwnerUnknown
from shardbatch.stores.sql import SQLStore
from tests.support.actions import run
from tests.support.metadata import Metadata
from tests.unit.cli.caller import call
from tests.unit.cli.rows import NAMESPACE, OTHER, OWNER, filled, frozen_batch

#: The run of the owner of the batch ``b2`` and of the lease of ``s-held``.
DAG, RUN, TASK = "orders", "scheduled__2026-11-28T00:00:00+00:00", "orders.work"
WHERE = ("--app-name", "orders-etl", "--stream-name", "orders", "--output", "json")
#: Row by row, the result and why, and what follows; or an error.
Told = dict[str, tuple[str, str, str]] | str


class Airflow:
    """What Airflow knows of the owner's run, asked by a task and by the command line."""

    def __init__(self, metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state: str | None = None
        self._metadata = metadata
        monkeypatch.setattr(settings, "Session", metadata.session)
        monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(self._run_state))
        states = staticmethod(lambda dag_id, run_ids, task_ids=None: {run_ids[0]: {TASK: self.state}})
        monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)

    def knows(self, state: str) -> None:
        """The owner's run has this state."""
        self.state = state
        self._metadata.create().run(DAG, RUN, state)
        self._metadata.task(DAG, RUN, TASK, state)

    def knows_no_such_run(self) -> None:
        """The owner's run was deleted."""
        self.state = "gone"
        self._metadata.create()

    def _run_state(self, dag_id: str, run_id: str) -> str:
        if self.state is None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 502}))
        if self.state == "gone":
            detail = {"status_code": 404, "detail": {"detail": {"reason": "not_found"}}}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))
        return self.state


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """It gives no answer until a test says what it knows."""
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    return Airflow(Metadata(tmp_path), monkeypatch)


class Ways:
    """Both ways in, each over rows of its own that begin alike."""

    def __init__(self, folder: Path, rows: Path, connection: Callable[..., None]) -> None:
        self._stores = {}
        for way in ("command", "task"):
            path = folder / f"{way}.db"
            shutil.copy(rows, path)
            connection(f"leases_{way}", conn_type="sqlite", host=str(path))
            self._stores[way] = SQLStore(f"sqlite:///{path}")

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def rows(self, way: str) -> list[Any]:
        """The rows as they stand, without clocks and notes."""
        unlike = {
            "note",
            "last_action",
            "updated_at_ms",
            "committed_at_ms",
            "created_at_ms",
            "lease_count",
            "row_count",
        }
        found = (row.columns() for table in TABLES for row in self._stores[way].list(table, NAMESPACE))
        return [{name: value for name, value in columns.items() if name not in unlike} for columns in found]

    def command(self, name: str, words: tuple[str, ...], *, preview: bool) -> Told:
        act = () if preview else ("--yes", "--reason", "ticket 7")
        answer = call(name, *WHERE, "--leases", "sql://leases_command", *words, *act)
        if not answer.out:
            assert answer.code == 1
            return answer.err.strip()
        found = json.loads(answer.out)
        assert answer.code == (3 if any(row["result"] == "left" for row in found) else 0)
        return {row["name"]: (row["result"], row["why"], row["effect"]) for row in found}

    def task(self, operator: Any, given: dict[str, Any], *, preview: bool) -> Told:
        task = operator(
            task_id="verb",
            app_name="orders-etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("leases_task"),
            reason="ticket 7",
            preview=preview,
            **given,
        )
        pushed: dict[str, Any] = {}
        try:
            answer = run(task, pushed)
        except OwnerUnknown:  # a retry may help
            answer = pushed["return_value"]
            assert answer["unknown"]
        except AirflowFailException as error:
            if "return_value" not in pushed:
                return f"{type(error).__name__}: {error}"
            answer = pushed["return_value"]
            assert answer["left"]
            assert not answer["unknown"]
        return {row["name"]: (row["result"], row["why"], row["effect"]) for row in answer["rows"]}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the command line's tests, in a file."""
    path = tmp_path_factory.mktemp("rows") / "leases.db"
    store = SQLStore(f"sqlite:///{path}")
    store.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert store.create(row)
    store.close()
    return path


@pytest.fixture
def ways(tmp_path: Path, begun: Path, connection: Callable[..., None]) -> Iterator[Ways]:
    found = Ways(tmp_path, begun, connection)
    yield found
    found.close()


#: A verb, its operator, and what is chosen: words of the command line, and arguments of the operator.
ASKING: dict[str, tuple[Any, tuple[str, ...], dict[str, Any], str]] = {
    "set-aside": (SetAsideBatchOperator, ("--batch", "b2"), {"batch_id": "b2"}, "b2"),
    "drop": (DropBatchOperator, ("--batch", "b2"), {"batch_id": "b2"}, "b2"),
    "reset": (
        ResetOperator,
        ("--shard", "s-held", "--to", "TRIM_HORIZON"),
        {"shards": ["s-held"], "to": "TRIM_HORIZON"},
        "s-held",
    ),
}
#: What Airflow knows of the owner's run, and which of the verbs then leave what it has.
STATES = {
    "running": {"set-aside", "drop", "reset"},
    "success": set(),
    "gone": {"reset"},
    "unknown": {"set-aside", "drop", "reset"},
}


def test_every_verb_that_asks_is_tried() -> None:
    assert set(ASKING) == {verb.name for verb in VERBS.values() if verb.asks}


@pytest.mark.parametrize("force", [False, True], ids=["asking", "forced"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", ASKING)
def test_an_owner_is_asked_for_alike(airflow: Airflow, ways: Ways, name: str, state: str, force: bool) -> None:
    if state == "gone":
        airflow.knows_no_such_run()
    elif state != "unknown":
        airflow.knows(state)
    operator, words, given, row = ASKING[name]
    left = name in STATES[state] and not force
    words, given = (*words, *(("--force",) if force else ())), {**given, **({"force": True} if force else {})}
    before = ways.rows("command")
    for preview in (True, False):
        told = ways.command(name, words, preview=preview)
        task = ways.task(operator, given, preview=preview)
        assert not isinstance(told, str)
        assert not isinstance(task, str)
        result, why, effect = told[row]
        if state == "unknown" and not force:  # each way in has its own words for what did not answer
            assert why.startswith(f"OwnerUnknown: The leases and batches of {OWNER} were not changed.")
            assert {name: item[0] for name, item in task.items()} == {name: item[0] for name, item in told.items()}
            assert task[row][1].startswith(f"OwnerUnknown: The leases and batches of {OWNER} were not changed.")
        else:
            assert task == told
        assert (result == "left") == left
        assert ("--force (force=True of the operator)" in why) == left
        assert ("BY FORCE" in effect) == (force and state != "success")
        assert ways.rows("task") == ways.rows("command")
        assert (ways.rows("command") == before) == (left or preview)


def test_force_stands_in_the_notes(airflow: Airflow, ways: Ways) -> None:
    airflow.knows("running")
    ways.command("drop", ("--batch", "b2", "--force"), preview=False)
    answer = json.loads(call("status", *WHERE, "--leases", "sql://leases_command").out)
    assert "dropped batch b2 by force: ticket 7" in answer["last_action"]


def test_an_unknown_deployment_leaves_what_has_an_owner(
    airflow: Airflow, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow.knows("success")
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "")
    monkeypatch.setattr(SQLLeases, "shared", lambda self: True)
    told = ways.command("drop", ("--batch", "b2"), preview=True)
    assert not isinstance(told, str)
    result, why, _ = told["b2"]
    assert (result, why.startswith("OwnerUnknown: ")) == ("left", True)
    assert "deployment_id is not set" in why
    assert "give --force" in why
    assert "b2" in ways.command("drop", ("--batch", "b2", "--force"), preview=True)


#: Refusals that ask for no owner, with a piece of their text.
REFUSED: list[tuple[str, Any, tuple[str, ...], dict[str, Any], str]] = [
    ("park", ParkBatchOperator, ("--batch", "b1"), {"batch_id": "b1"}, "it is committed"),
    ("park", ParkBatchOperator, ("--batch", "b7"), {"batch_id": "b7"}, "no batch 'b7'"),
    ("unpark", UnparkBatchOperator, ("--batch", "b1"), {"batch_id": "b1"}, "it is committed"),
    ("set-aside", SetAsideBatchOperator, ("--batch", "b1"), {"batch_id": "b1"}, "it is committed"),
    ("drop", DropBatchOperator, ("--batch", "b1"), {"batch_id": "b1"}, "it is committed"),
    ("release", ReleaseOperator, (), {}, "Nothing was chosen"),
    ("release", ReleaseOperator, ("--shard", "s-frozen"), {"shards": "s-frozen"}, "it is frozen in batch b2"),
    ("accept-gap", AcceptGapOperator, (), {}, "No gaps were chosen"),
    ("accept-gap", AcceptGapOperator, ("--shard", "s-free"), {"shards": ["s-free"]}, "no gap waits on it"),
    ("reset", ResetOperator, ("--all",), {"every": True}, "No position"),
    ("reset", ResetOperator, ("--all", "--to", ""), {"every": True, "to": "{{ '' }}"}, "an empty text"),
    (
        "reset",
        ResetOperator,
        ("--all", "--to", "", "--stream-id", "orders@2"),
        {"every": True, "to": "{{ '' }}", "stream_id": "orders@2"},
        "an empty text",
    ),
    (
        "reset",
        ResetOperator,
        ("--all", "--to", "TRIM_HORIZON", "--stream-id", ""),
        {"every": True, "to": "TRIM_HORIZON", "stream_id": "{{ '' }}"},
        "cannot begin anew on ''",
    ),
    (
        "forget-root",
        ForgetRootOperator,
        ("--root", "/x", "--batch", ""),
        {"root": "/x", "batch_id": "{{ '' }}"},
        "no batch ''",
    ),
    ("reset", ResetOperator, ("--all", "--to", "LATEST"), {"every": True, "to": "LATEST"}, "not a fixed place"),
    ("reset", ResetOperator, ("--shard", "x", "--to", "TRIM_HORIZON"), {"shards": "x", "to": "TRIM_HORIZON"}, "'x'"),
    ("forget-root", ForgetRootOperator, ("--root", "/x", "--batch", "b7"), {"root": "/x", "batch_id": "b7"}, "'b7'"),
    ("adopt-root", AdoptRootOperator, ("--root", "/lake"), {"root": "/lake"}, "Give --staging (staging= of the"),
    ("sum-markers", SumMarkersOperator, ("--root", "/lake"), {"root": "/lake"}, "Give --staging (staging= of the"),
    ("gc", CleanStagingOperator, (), {}, "Give --staging (staging= of the"),
    ("remove", RemoveApplicationOperator, (), {}, "Give --staging (staging= of the"),
    (
        "remove",
        RemoveApplicationOperator,
        ("--staging", "/none/at/all"),
        {"staging": Staging("/none/at/all"), "discard": "{{ false }}"},
        "StagingMissing",
    ),
    ("gc", CleanStagingOperator, ("--archive-for", "-1"), {"archive_for": "{{ -1 }}"}, "'-1' is not a number of days"),
    (
        "positions import",
        ImportPositionsOperator,
        (os.devnull, "--format", "bloop"),
        {"positions": "", "format": "bloop"},
        "InvalidToken: The positions are not JSON",
    ),
    (
        "positions import",
        ImportPositionsOperator,
        (os.devnull, "--format", "xml"),
        {"positions": "", "format": "{{ 'xml' }}"},
        "Choose 'bloop'",
    ),
    (
        "positions import",
        ImportPositionsOperator,
        (os.devnull, "--format", "bloop", "--start", "5"),
        {"positions": "", "format": "bloop", "start": "5"},
        "may be a date",
    ),
]


@pytest.mark.parametrize(("name", "operator", "words", "given", "text"), REFUSED)
def test_what_makes_no_sense_is_refused_alike(
    airflow: Airflow, ways: Ways, name: str, operator: Any, words: tuple[str, ...], given: dict[str, Any], text: str
) -> None:
    told = ways.command(name, words, preview=False)
    assert ways.task(operator, given, preview=False) == told
    assert text in str(told)


#: What is done without a question, whatever the owner does.
DONE: list[tuple[str, Any, tuple[str, ...], dict[str, Any], set[str]]] = [
    ("park", ParkBatchOperator, ("--batch", "b2"), {"batch_id": "b2"}, {"parked"}),
    ("unpark", UnparkBatchOperator, ("--batch", "b2"), {"batch_id": "b2"}, {"already"}),
    ("release", ReleaseOperator, ("--owner", OTHER), {"lease_owner": OTHER}, {"released"}),
    ("release", ReleaseOperator, ("--batch", "b2"), {"batch_id": "b2"}, {"released"}),
    ("release", ReleaseOperator, ("--shard", "s-held"), {"shards": ["s-held"]}, {"released"}),
    ("forget-root", ForgetRootOperator, ("--root", "/lake"), {"root": "/lake"}, {"already"}),
]


@pytest.mark.parametrize(("name", "operator", "words", "given", "results"), DONE)
def test_verbs_that_ask_for_no_owner_do_what_they_are_told_alike(
    airflow: Airflow, ways: Ways, name: str, operator: Any, words: tuple[str, ...], given: dict[str, Any],
    results: set[str],
) -> None:  # fmt: skip
    told = ways.command(name, words, preview=False)
    assert ways.task(operator, given, preview=False) == told
    assert {result for result, _, _ in told.values()} == results  # type: ignore[union-attr]
    assert ways.rows("task") == ways.rows("command")


#: A replay that is refused, with a piece of what is said.
NO_REPLAY = {
    "b2": "ReplayRefused: Batch b2 is FROZEN",
    "b7": "ConfigurationError: There is no batch 'b7'",
    "foreign": "ConfigurationError: Batch foreign belongs to staging/orders",
    "gone": "SlicesGone: Batch gone cannot be replayed: of its files 1 missing, the first is orders-etl/orders/",
}


def replayed(ways: Ways, batch_id: str, *, preview: bool) -> tuple[Any, Any]:
    """What the command and the operator answer: the run, without its id, or the error."""
    act = () if preview else ("--yes", "--reason", "ticket 7")
    answer = call("replay", *WHERE, "--leases", "sql://leases_command", "--batch", batch_id, *act)
    command: Any = json.loads(answer.out) if answer.out else answer.err.strip()
    given = {"task_id": "verb", "app_name": "orders-etl", "stream": KinesisStream("orders"), "reason": "ticket 7"}
    task = ReplayBatchOperator(**given, batch_id=batch_id, leases=SQLLeases("leases_task"), preview=f"{preview}")
    try:
        operator: Any = run(task)["rows"]
    except AirflowFailException as error:
        operator = f"{type(error).__name__}: {error}"
    for found in (command, operator):
        if isinstance(found, list):
            found[0].pop("run_id")
    return command, operator


def test_a_replay_is_previewed_and_refused_alike(airflow: Airflow, ways: Ways, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    away = staging / "orders-etl" / "orders" / "batches" / "gone" / "manifest.json"
    for store in ways._stores.values():
        store.create(frozen_batch("foreign", OTHER, BatchState.COMMITTED))
        store.create(replace(frozen_batch("gone", state=BatchState.COMMITTED), manifest_uri=str(away)))
    for batch_id, text in NO_REPLAY.items():
        command, operator = replayed(ways, batch_id, preview=False)
        assert operator == command
        assert text in command
    for batch_id, files in (("gone", "1 missing"), ("b1", "not known from here")):
        command, operator = replayed(ways, batch_id, preview=True)
        assert operator == command
        assert command[0]["result"] == "would start"
        assert command[0]["files"].startswith(files)
    assert ways.rows("task") == ways.rows("command")


def test_every_operator_of_rows_is_tried() -> None:
    tried = {name for name, *_ in REFUSED} | {name for name, *_ in DONE} | set(ASKING)
    assert tried == {verb.name for verb in VERBS.values() if verb.operator and verb.use_case is not None}
