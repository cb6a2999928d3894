# SPDX-License-Identifier: Apache-2.0
"""A stream whose class and source are defined outside of shardbatch, as an author of another service has them."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task

from shardbatch import DynamoDBStream, KinesisStream, Policies, SQLLeases, Staging, StreamBatch
from shardbatch.core.position import LATEST
from shardbatch.hooks.streams import Stream
from tests.support.lines.files import LineFiles
from tests.support.lines.stream import LinesStream
from tests.support.rig import Rig


@pytest.fixture
def files(tmp_path: Path) -> LineFiles:
    made = LineFiles(tmp_path / "streams", "orders")
    made.create(2)
    return made


def rig_of(folder: Path, files: LineFiles) -> Rig:
    """Runs of an application on the stream, as an author's class opens it."""
    stream: Any = SimpleNamespace(name=files.name, now_ms=1)
    rig = Rig(folder / "staging", stream)
    rig.options["source"] = LinesStream(files.name, str(files.folder.parent)).open("etl")
    return rig


def data_of(rig: Rig, files: LineFiles) -> list[str]:
    texts = {str(line.number): line.text for shelf in files.shards() for line in files.lines(shelf.name) or ()}
    return [texts[number] for number in rig.committed()]


@pytest.mark.parametrize("kind", [DynamoDBStream, KinesisStream, LinesStream])
def test_a_class_of_streams_has_what_is_asked_of_it(kind: type[Any]) -> None:
    asked = [name for name in vars(Stream) if not name.startswith("_")]
    assert asked
    for name in asked:
        assert hasattr(kind, name)
        if inspect.isfunction(wanted := getattr(Stream, name)):
            ours, its = inspect.signature(wanted), inspect.signature(getattr(kind, name))
            assert its.parameters.keys() == ours.parameters.keys()


def test_runs_of_it_read_to_the_tip_through_reshards_and_commit_each_record_once(
    tmp_path: Path, files: LineFiles
) -> None:
    rig = rig_of(tmp_path, files)
    first, second = (shelf.name for shelf in files.shards())
    files.put(first, "a", "b")
    files.put(second, "c")
    rig.run("r1")
    assert sorted(data_of(rig, files)) == ["a", "b", "c"]
    assert rig.run("idle").batch_id is None
    files.put(first, "d")
    (child,) = files.reshard(first, second, children=1)
    files.put(child, "e")
    rig.run("r2")
    assert data_of(rig, files)[3:] == ["d", "e"]
    assert {row.shard_id: row.completed for row in rig.consumer().leases()} == {first: True, second: True, child: False}


def test_latest_begins_at_the_tip_of_each_shard(tmp_path: Path, files: LineFiles) -> None:
    rig = rig_of(tmp_path, files)
    first, second = (shelf.name for shelf in files.shards())
    files.put(first, "old")
    rig.run("r1", start=LATEST)
    files.put(first, "new")
    files.put(second, "new too")
    rig.run("r2", start=LATEST)
    assert sorted(data_of(rig, files)) == ["new", "new too"]


def test_a_batch_of_it_stands_in_a_dag_and_its_templates_are_rendered() -> None:
    with DAG("d", schedule=None) as dag:
        batch = StreamBatch(
            "batch",
            app_name="a",
            stream=LinesStream("{{ dag.dag_id }}-orders", "/streams"),
            leases=SQLLeases("leases"),
            staging=Staging("/staging"),
            policies=Policies(sink="own"),
        )
        with batch:
            task(lambda: None, task_id="work")()
    claim = dag.get_task("batch.claim")
    claim.render_template_fields({"dag": dag, "ti": None})  # type: ignore[typeddict-item]
    assert claim.stream == LinesStream("d-orders", "/streams")  # type: ignore[attr-defined]
