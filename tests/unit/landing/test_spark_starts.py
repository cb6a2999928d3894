# SPDX-License-Identifier: Apache-2.0
"""What a start of an application leaves behind, with local files in Spark's place (its own are in tests/system)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch.errors import ManifestChanged, NothingFinished, OutputTaken
from shardbatch.landing.area import StagingArea
from shardbatch.spark import batch as spark_batch
from shardbatch.spark import open_batch
from tests.support.batches import NAMESPACE, Frozen, freeze
from tests.support.starts import LocalFiles


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(spark_batch, "files_of", lambda _: LocalFiles())
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: default))


@pytest.fixture
def frozen(tmp_path: Path) -> Frozen:
    (tmp_path / "staging").mkdir()
    return freeze(StagingArea(str(tmp_path / "staging")), {"shard-0": 3})


def finished(frozen: Frozen) -> list[str]:
    return [start.start_id for start in frozen.area.finished_starts(NAMESPACE, frozen.manifest.batch_id)]


def write(folder: str) -> None:
    Path(folder).mkdir(parents=True)
    (Path(folder) / "part-0.json").write_text(json.dumps({"n": 1}))


def test_a_block_that_ends_well_is_a_finished_start(spark: Any, frozen: Frozen, tmp_path: Path) -> None:
    with open_batch(spark, frozen.uri, 1, digest=frozen.digest) as batch:
        start_id = batch.start_id
        write(batch.output(str(tmp_path / "out")))
        assert finished(frozen) == []
    assert finished(frozen) == [start_id]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_block_that_fails_is_none(spark: Any, frozen: Frozen, tmp_path: Path, error: type[BaseException]) -> None:
    def work() -> None:
        with open_batch(spark, frozen.uri, 1) as batch:
            write(batch.output(str(tmp_path / "out")))
            raise error

    with pytest.raises(error):
        work()
    assert finished(frozen) == []


def test_an_output_that_was_asked_for_and_not_written_is_no_success(spark: Any, frozen: Frozen, tmp_path: Path) -> None:
    def work() -> None:
        with open_batch(spark, frozen.uri, 1) as batch:
            write(batch.output(str(tmp_path / "one")))
            batch.output(str(tmp_path / "other"))

    with pytest.raises(NothingFinished):
        work()
    assert finished(frozen) == []


def test_a_manifest_that_is_not_the_one_that_was_frozen_is_refused(spark: Any, frozen: Frozen) -> None:
    changed = frozen.manifest.dumps().replace(b"shard-0", b"shard-1")
    frozen.area.write_manifest(NAMESPACE, frozen.manifest.batch_id, changed)
    with pytest.raises(ManifestChanged):
        open_batch(spark, frozen.uri, 1, digest=frozen.digest)


def test_a_block_is_known_to_have_begun_before_anything_is_written(spark: Any, frozen: Frozen) -> None:
    namespace, batch_id = NAMESPACE, frozen.manifest.batch_id
    with open_batch(spark, frozen.uri, 1, work="load[3]", token="t") as batch:
        (begun,), done = frozen.area.starts_of(namespace, batch_id, "load[3]", 1)
        assert (begun.start_id, begun.token, done) == (batch.start_id, "t", {})
    with open_batch(spark, frozen.uri, 1, work="load[3]", token="t"):
        pass
    known, done = frozen.area.starts_of(namespace, batch_id, "load[3]", 1)
    assert len({start.incarnation for start in known}) == 1  # one process
    assert set(done) == {start.start_id for start in known}


def test_a_root_of_another_application_is_refused_before_anything_is_written(
    spark: Any, frozen: Frozen, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    frozen.area.outputs.look(str(out), [], "etl-v2/orders", shared=False)
    with pytest.raises(OutputTaken, match="etl-v2/orders"), open_batch(spark, frozen.uri, 1) as batch:
        batch.output(str(out))
    assert finished(frozen) == []
