# SPDX-License-Identifier: Apache-2.0
"""Sensors of shards: what the first look settles stays, wherever they wait, until the task is cleared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization

from shardbatch import KinesisStream, LineageCompleteSensor, ShardClosedSensor, SQLLeases
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
from shardbatch.core.rows import SHARD_LEASE, Key, Namespace
from shardbatch.errors import ConfigurationError, StoreError
from shardbatch.hooks.leases import leases_from
from shardbatch.stores.sql import SQLStore
from shardbatch.triggers import Asking
from tests.support.lines.files import LineFiles
from tests.support.lines.stream import LinesStream
from tests.unit.sensors.test_waiting import Kept, context, outcome

NAMESPACE = Namespace("etl", "orders")
LONG_AGO = "2026-01-01T00:00:00+00:00"
A, B, C, D = (f"shelf-{number}" for number in range(4))


class Scene:
    """A stream of lines with two shards, and the leases of the application that reads it."""

    def __init__(self, folder: Path, store: SQLStore) -> None:
        self.files, self.store = LineFiles(folder, "orders"), store
        self.files.create(shards=2)
        self.named: dict[str, Any] = {
            "task_id": "wait", "app_name": "etl", "leases": SQLLeases("leases_db"),
            "stream": LinesStream("orders", str(folder)), "deferrable": True,
        }  # fmt: skip
        begun = Application(NAMESPACE, f"lines:orders@{self.files.identity()}", TRIM_HORIZON, 1)
        assert store.create(begun)
        self.enrol(A, B)

    def enrol(self, *names: str, parents: tuple[str, ...] = ()) -> None:
        for name in names:
            assert self.store.create(Lease(NAMESPACE, "", name, None, 1, TRIM_HORIZON, parent_shard_ids=parents))

    def complete(self, name: str) -> None:
        row = self.store.get(Key(SHARD_LEASE, NAMESPACE, ("", name)))
        assert isinstance(row, Lease)
        done = replace(row, lease_count=row.lease_count + 1, completed=True, checkpoint=SHARD_END)
        assert self.store.replace(row, done)

    def closed(self, **given: Any) -> ShardClosedSensor:
        return ShardClosedSensor(**{**self.named, **given})

    def lineage(self, **given: Any) -> LineageCompleteSensor:
        return LineageCompleteSensor(**{**self.named, **given})


@pytest.fixture
def scene(tmp_path: Path, connection: Callable[..., None]) -> Iterator[Scene]:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    with closing(SQLStore(f"sqlite:///{tmp_path}/leases.db")) as store:
        store.prepare()
        yield Scene(tmp_path / "streams", store)


def literals(made: Any, given: Any) -> dict[str, Any]:
    with pytest.raises(TaskDeferred) as caught:
        made.execute(given)
    found: dict[str, Any] = caught.value.trigger.serialize()[1]
    assert json.loads(json.dumps(found)) == found
    return found


def test_the_set_of_an_instant_stands_among_the_literals_of_the_trigger(scene: Scene) -> None:
    kept = Kept()
    asked = literals(scene.closed(open_at=LONG_AGO), context(kept=kept))
    assert asked["question"]["shard_ids"] == [A, B]
    assert (asked["question"]["fixed"], asked["question"]["open_at_ms"]) == (True, None)
    scene.files.reshard(A, B, children=1)
    found = outcome(Asking(**{**asked, "every": 0.01}))
    assert found == {"outcome": "reached", "told": {"shards": [A, B], "state": "closed"}}
    assert scene.closed(open_at=LONG_AGO).execute(context(kept=kept))["shards"] == [A, B], "a retry asks the same"
    cleared = literals(scene.closed(open_at=LONG_AGO), context(cleared=1, kept=kept))
    assert cleared["question"]["shard_ids"] == [C], "a clearing begins anew"


def test_the_set_stands_between_pokes_too(scene: Scene) -> None:
    kept = Kept()
    made = scene.closed(open_at=LONG_AGO, mode="reschedule", deferrable=None)
    assert not made.poke(context(kept=kept))
    scene.files.reshard(A, B, children=1)
    again = scene.closed(open_at=LONG_AGO, mode="reschedule", deferrable=None)
    done = again.poke(context(kept=kept))
    assert (done.is_done, done.xcom_value["shards"]) == (True, [A, B])  # type: ignore[union-attr]


def test_a_trigger_that_settles_the_set_hands_it_back_as_literals(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was away when the worker looked; another triggerer must not settle it once more."""
    kept, real = Kept(), SQLStore.prepare
    monkeypatch.setattr(SQLStore, "prepare", lambda self: (_ for _ in ()).throw(StoreError("It is away.")))
    asked = literals(scene.closed(open_at=LONG_AGO, timeout=600), context(kept=kept))
    assert asked["question"]["shard_ids"] == []
    monkeypatch.setattr(SQLStore, "prepare", real)
    event = outcome(Asking(**{**asked, "every": 0.01}))
    assert (event["outcome"], event["question"]["shard_ids"]) == ("settled", [A, B])
    scene.files.reshard(A, B, children=1)
    with pytest.raises(TaskDeferred) as caught:
        scene.closed(open_at=LONG_AGO, timeout=600).come_back(context(kept=kept), event)
    again = caught.value.trigger.serialize()[1]
    assert (again["question"], again["deadline"]) == (event["question"], asked["deadline"])
    assert outcome(Asking(**{**again, "every": 0.01}))["outcome"] == "reached"


def test_a_wait_for_completion_needs_the_rows_only(scene: Scene) -> None:
    made = scene.closed(shard_ids=[A], state="completed", stream="orders")
    asked = literals(made, context())
    assert asked["source"] is None
    scene.complete(A)
    assert outcome(Asking(**{**asked, "every": 0.01}))["told"] == {"shards": [A], "state": "completed"}


def test_a_reshard_is_waited_for_by_rows_and_listings(scene: Scene) -> None:
    asked = literals(scene.lineage(parents=[A]), context())
    scene.files.reshard(A, children=2)
    scene.complete(A)
    assert f"{C}, {D} have no row yet" in outcome(Asking(**{**asked, "deadline": 0.0}))["why"]
    scene.enrol(C, D, parents=(A,))
    found = outcome(Asking(**{**asked, "every": 0.01}))
    assert found == {"outcome": "reached", "told": {"parents": [A], "children": [C, D]}}


@pytest.mark.parametrize("mode", [{"deferrable": True}, {"mode": "poke", "deferrable": None}])
def test_a_shard_that_nobody_knows_fails_at_the_first_look(scene: Scene, mode: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException, match="shelf-77: not known by the application or by the stream"):
        scene.closed(shard_ids=[A, "shelf-77"], **mode).execute(context())
    with pytest.raises(AirflowFailException, match="shelf-77: neither the application nor the stream has it"):
        scene.lineage(parents=["shelf-77"], **mode).execute(context())


@pytest.mark.parametrize("given", ["", " , ", "[]", [""], [A, " "]])
def test_an_empty_set_is_refused(scene: Scene, given: Any) -> None:
    with pytest.raises(AirflowFailException, match="names no shard"):
        scene.closed(shard_ids=given).execute(context())
    with pytest.raises(AirflowFailException, match="names no shard"):
        scene.lineage(parents=given).execute(context())


@pytest.mark.parametrize("given", [f"{A}, {B}", f"['{A}', '{B}']", [A, B, A], (B, A)])
def test_ids_come_in_a_list_or_as_its_text(scene: Scene, given: Any) -> None:
    assert set(scene.closed(shard_ids=given).question(context()).shard_ids) == {A, B}


@dataclass(frozen=True)
class Unwritable(LinesStream):
    """A stream with a field that is no literal."""

    more: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda scene: scene.closed(), "neither or both"),
        (lambda scene: scene.closed(shard_ids=[A], open_at=LONG_AGO), "neither or both"),
        (lambda scene: scene.closed(shard_ids=[]), "names no shard"),
        (lambda scene: scene.closed(shard_ids=[A], state="open"), "state='open' is not known"),
        (lambda scene: scene.closed(shard_ids=[A], stream="orders"), "is a name only"),
        (lambda scene: scene.closed(open_at=LONG_AGO, state="completed", stream="orders"), "is a name only"),
        (lambda scene: scene.lineage(parents=[]), "names no shard"),
        (lambda scene: scene.lineage(parents=[A], stream="orders"), "is a name only"),
        (lambda scene: scene.lineage(parents=[A], stream=Unwritable("orders", "/x")), "cannot be written as literals"),
    ],
)
def test_mistakes_show_when_the_dag_is_parsed(scene: Scene, made: Callable[[Scene], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made(scene)


def test_a_stream_that_no_trigger_can_make_is_looked_at_from_a_worker(scene: Scene) -> None:
    stream = Unwritable("orders", str(scene.files.folder.parent))
    made = scene.closed(shard_ids=[A], stream=stream, mode="poke", deferrable=None)
    scene.files.reshard(A, children=1)
    assert made.poke(context())


def test_a_trigger_that_cannot_import_the_streams_class_says_so(scene: Scene) -> None:
    asked = literals(scene.closed(shard_ids=[A]), context())
    found = outcome(Asking(**{**asked, "source": {"class": "nowhere.at_all:Stream"}}))
    assert (found["outcome"], "cannot import the stream's class" in found["why"]) == ("failed", True)


def test_they_stand_the_same_in_each_version_of_a_dag(scene: Scene) -> None:
    def text() -> str:
        with DAG("d", schedule=None) as dag:
            rest: dict[str, Any] = {"app_name": "etl", "leases": SQLLeases("leases_db"), "stream": KinesisStream("o")}
            ShardClosedSensor(task_id="a", shard_ids=[A], **rest)
            ShardClosedSensor.partial(task_id="b", **rest).expand(shard_ids=[[A], [B]])
            LineageCompleteSensor(task_id="c", parents="{{ params.parents }}", **rest)
        made = DagSerialization.to_dict(dag)
        assert set(DagSerialization.from_dict(made).task_dict) == {"a", "b", "c"}
        return json.dumps(made, sort_keys=True)

    assert text() == text()


def test_a_trigger_of_the_version_before_goes_on(scene: Scene) -> None:
    asked = literals(scene.closed(shard_ids=[A], state="completed", stream="orders"), context())
    asked.pop("source")
    assert Asking(**asked).source is None
    assert leases_from(asked["leases"]) == SQLLeases("leases_db")
