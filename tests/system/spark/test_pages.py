# SPDX-License-Identifier: Apache-2.0
"""The jobs and readers that the pages show, run as they stand on a real batch; only their roots are folders here."""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from shardbatch.errors import NothingFinished
from shardbatch.spark import open_batch, read_changes, read_committed
from shardbatch.spark.schema import RECORD_SCHEMA
from tests.support.batches import Frozen, freeze
from tests.support.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from shardbatch.landing.area import StagingArea

pytestmark = [pytest.mark.slow, pytest.mark.spark]


class Page:
    """Runs blocks of a page with names that they take as known."""

    def __init__(self, name: str, root: str, **known: Any) -> None:
        self._blocks = blocks(DOCS / name, "python")
        self._root = root
        self.known: dict[str, Any] = {"open_batch": open_batch, "read_committed": read_committed, **known}

    def run(self, word: str) -> None:
        """The block that has this word, statement by statement: what is not committed yet cannot be read."""
        (block,) = [block for block in self._blocks if word in block.text]
        text = block.text.replace("s3a://lake/orders", self._root).replace("s3://lake/orders", self._root)
        for statement in ast.parse(text, block.name).body:
            with suppress(NothingFinished):
                exec(compile(ast.Module([statement], []), block.name, "exec"), self.known)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Tells the applications to come their batch, as a task does; then ends and commits it."""

    class Told:
        def begin(self, frozen: Frozen, *arguments: str) -> None:
            frozen.open_attempt(1)
            words = [f"--shardbatch-manifest={frozen.uri}", "--shardbatch-attempt=1", "--shardbatch-work=load"]
            monkeypatch.setattr(sys, "argv", ["job.py", *words, *arguments])

        def end(self, frozen: Frozen) -> None:
            frozen.end(1)
            frozen.commit(1)

    return Told()


def test_the_jobs_and_readers_of_the_pages_run(
    spark: SparkSession, area: StagingArea, tmp_path: Path, told: Any
) -> None:
    first, second = freeze(area, {"s-0": 20}, batch_id="b-1"), freeze(area, {"s-0": 5}, batch_id="b-2")
    out = str(tmp_path / "orders")

    guarantees = Page("guarantees.md", out, spark=spark)
    for frozen in (first, second):
        told.begin(frozen)
        guarantees.run("from shardbatch.spark import open_batch, read_committed")
        told.end(frozen)
    assert guarantees.known["orders"].count() == 20  # the second one was read before its commit

    kept: dict[str, Any] = {}
    readers = Page(
        "readers.md",
        out,
        spark=spark,
        out=out,
        read_changes=read_changes,
        load_token=lambda: None,
        replace=lambda batches, frame: kept.update(batches=batches, rows=frame.count()),
        save_token=lambda token: kept.update(token=token),
    )
    readers.run("read_committed(spark, out, since=")
    readers.known["out"] = out
    readers.run("load_token()")
    assert (sorted(kept["batches"]), kept["rows"], type(kept["token"])) == (["b-1", "b-2"], 25, str)
    readers.run("read_committed_files(")
    assert {file.batch_id for file in readers.known["files"]} == {"b-1", "b-2"}


def test_the_job_of_the_launchers_and_the_ordered_one_run(
    spark: SparkSession, area: StagingArea, tmp_path: Path, told: Any
) -> None:
    frozen, out = freeze(area, {"s-0": 20}, batch_id="b-1"), str(tmp_path / "launched")
    told.begin(frozen, out)
    Page("launchers.md", out).run("SparkSession.builder.getOrCreate()")
    told.end(frozen)
    assert read_committed(spark, out).dtypes == [("json", "string"), ("arrival_time", "timestamp")]

    frozen, out = freeze(area, {"s-0": 20}, batch_id="b-2"), str(tmp_path / "ordered")
    told.begin(frozen)
    known = {"apply_changes": lambda tables: tables, "schema": RECORD_SCHEMA, "out": out}
    Page("reading.md", out, spark=spark, **known).run("batch.ordered()")
    told.end(frozen)
    assert read_committed(spark, out).count() == 20
