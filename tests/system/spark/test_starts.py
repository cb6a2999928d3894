# SPDX-License-Identifier: Apache-2.0
"""Start folders: whatever overlaps, fails or comes late, readers see one whole start of every committed batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardbatch.core.decision import Decision
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, LeaseLost, NothingFinished, OutputTaken, SlicesGone, StagingError
from shardbatch.landing import layout
from shardbatch.spark import open_batch, read_committed
from tests.support.batches import NAMESPACE, Frozen, freeze

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shardbatch.landing.area import StagingArea

pytestmark = [pytest.mark.slow, pytest.mark.spark]


class Boom(Exception):
    pass


def work(spark: SparkSession, frozen: Frozen, attempt: int, out: str, work: str = "load", **options: Any) -> str:
    """A task whose application copies the records in one start."""
    with open_batch(spark, frozen.uri, attempt, work=work, **options) as batch:
        batch.records().select("shard_id", "sequence_number").write.parquet(batch.output(out))
        assert batch.start_id is not None
        started = batch.start_id
    frozen.end(attempt, work, token=options.get("token", ""))
    return started


def numbers(frame: DataFrame) -> list[str]:
    return sorted(row.sequence_number for row in frame.collect())


def expected(count: int) -> list[str]:
    return sorted(str(10**20 + n) for n in range(count))


def test_a_committed_start_is_read_from_the_output_alone(spark: SparkSession, area: StagingArea, out: str) -> None:
    first, second = freeze(area, {"s-0": 20}, batch_id="b-1"), freeze(area, {"s-0": 5}, batch_id="b-2")
    for frozen in (first, second):
        work(spark, frozen, frozen.open_attempt(1), out)
    first.commit(1)

    assert numbers(read_committed(spark, out)) == expected(20)  # b-2 is written and not committed
    second.commit(1)

    rows = read_committed(spark, out)
    assert numbers(rows) == sorted(expected(20) + expected(5))
    assert rows.columns == ["shard_id", "sequence_number"]


def test_a_start_that_fails_leaves_no_marker_and_no_visible_row(
    spark: SparkSession, area: StagingArea, out: str
) -> None:
    frozen = freeze(area, {"s-0": 20})
    failing = open_batch(spark, frozen.uri, 1)

    def write_and_fail() -> None:
        with failing:
            failing.records().write.parquet(failing.output(out))
            raise Boom

    with pytest.raises(Boom):
        write_and_fail()

    assert area.finished_starts(NAMESPACE, "batch-1") == []
    with pytest.raises(NothingFinished):
        read_committed(spark, out)

    started = work(spark, frozen, 1, out)  # the task's own retry: the same attempt, another start
    frozen.commit(1)
    assert [start.start_id for start in area.finished_starts(NAMESPACE, "batch-1")] == [started]
    assert numbers(read_committed(spark, out)) == expected(20)


def test_an_exit_in_the_middle_is_no_success(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"s-0": 2})
    with pytest.raises(SystemExit), open_batch(spark, frozen.uri, 1):
        raise SystemExit(0)

    assert area.finished_starts(NAMESPACE, "batch-1") == []


def test_a_zombie_that_ends_after_the_decision_changes_no_row(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    zombie = open_batch(spark, frozen.uri, 1)
    with zombie:
        folder = zombie.output(out)
        work(spark, frozen, 2, out)
        frozen.commit(2)
        zombie.records().select("shard_id", "sequence_number").write.parquet(folder)
    assert len(area.finished_starts(NAMESPACE, "batch-1")) == 2

    frozen.commit(2)  # a commit that is tried again decides the same

    assert numbers(read_committed(spark, out)) == expected(20)


def test_of_two_tries_of_one_task_the_last_counts(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    assert work(spark, frozen, 1, out, token="1") != work(spark, frozen, 1, out, token="2")
    frozen.commit(1)

    assert numbers(read_committed(spark, out)) == expected(20)
    assert spark.read.parquet(out).count() == 40  # both lie there; that is why readers go by the marker


def test_all_blocks_of_one_application_count(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    for name in ("out1", "out2"):
        with open_batch(spark, frozen.uri, 1, work="load", token="1") as batch:
            batch.records().select("sequence_number").write.parquet(batch.output(f"{out}/{name}"))
    frozen.end(1, token="1")
    frozen.commit(1)

    assert numbers(read_committed(spark, out + "/out1")) == expected(20)
    assert numbers(read_committed(spark, out + "/out2")) == expected(20)


def test_a_root_of_another_application_is_refused_before_anything_is_written(
    spark: SparkSession, area: StagingArea, out: str
) -> None:
    frozen = freeze(area, {"s-0": 2})
    work(spark, frozen, 1, out)
    area.outputs.look(out, [], str(NAMESPACE), shared=False)
    frozen.commit(1)
    other = freeze(area, {"s-0": 2}, batch_id="b-2", namespace=Namespace("etl-v2", "orders"))
    with pytest.raises(OutputTaken, match="etl/orders"), open_batch(spark, other.uri, 1) as batch:
        batch.output(out)
    assert area.finished_starts(other.manifest.namespace, "b-2") == []


def test_a_replay_replaces_the_start_as_a_whole(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    work(spark, frozen, 1, out)
    assert frozen.commit(1) == 1
    with open_batch(spark, frozen.uri, 10, work="load") as batch:  # ten is above two, also as text
        batch.records().limit(3).select("shard_id", "sequence_number").write.parquet(batch.output(out))
    frozen.end(10)
    before = numbers(read_committed(spark, out))

    assert frozen.commit(10) == 10
    work(spark, frozen, 2, out)  # a late one of an older attempt

    assert before == expected(20)
    assert len(numbers(read_committed(spark, out))) == 3
    assert sorted(path.name for path in Path(out, "_shardbatch").iterdir()) == ["batch-1.1.json", "batch-1.10.json"]


def test_two_tasks_of_a_block_have_a_start_each(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    work(spark, frozen, 1, out + "/a", "left")
    work(spark, frozen, 1, out + "/b", "right")
    work(spark, frozen, 2, out + "/b", "right")  # only this one was cleared
    for name in ("one", "two"):
        work(spark, frozen, 2, out + "/shared", name)
    frozen.commit(2, "left", "right", "one", "two")

    assert numbers(read_committed(spark, out + "/a")) == expected(20)
    assert numbers(read_committed(spark, out + "/b")) == expected(20)
    assert numbers(read_committed(spark, out + "/shared")) == sorted(expected(20) * 2)


def test_a_batch_without_a_recorded_start_is_left_out(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    work(spark, frozen, 1, out)
    frozen.commit(1)
    area.outputs.mark(out, Decision("aside", 1))

    assert numbers(read_committed(spark, out)) == expected(20)


def test_before_the_first_commit_a_schema_gives_no_rows(spark: SparkSession, out: str) -> None:
    with pytest.raises(NothingFinished, match="schema="):
        read_committed(spark, out)

    assert read_committed(spark, out, schema="a int").collect() == []


def test_rows_that_the_author_partitioned_keep_their_columns(spark: SparkSession, area: StagingArea, out: str) -> None:
    from pyspark.sql import functions as F

    for batch_id in ("b-1", "b-2"):
        frozen = freeze(area, {"s-0": 20}, batch_id=batch_id)
        with open_batch(spark, frozen.uri, 1, work="load") as batch:
            # A column named as our folders are named stays the author's.
            rows = batch.records().select("sequence_number", F.col("partition_key").alias("k"), F.lit(7).alias("start"))
            rows.write.partitionBy("k").parquet(batch.output(out))
        frozen.end(1)
        frozen.commit(1)

    rows = read_committed(spark, out)

    assert sorted(rows.columns) == ["k", "sequence_number", "start"]
    assert numbers(rows) == sorted(expected(20) * 2)
    assert {(row.k, row.start) for row in rows.collect()} == {(f"key-{n}", 7) for n in range(7)}


def test_other_formats_are_read_as_they_were_written(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 20})
    with open_batch(spark, frozen.uri, 1, work="load") as batch:
        batch.records().select("sequence_number").write.json(batch.output(out))
    frozen.end(1)
    frozen.commit(1)

    assert numbers(read_committed(spark, out, format="json")) == expected(20)


def test_an_output_that_was_asked_for_and_not_written_is_no_success(
    spark: SparkSession, area: StagingArea, out: str
) -> None:
    frozen = freeze(area, {"s-0": 20})
    with pytest.raises(NothingFinished, match="nothing was written"), open_batch(spark, frozen.uri, 1) as batch:
        batch.output(out)

    assert area.finished_starts(NAMESPACE, "batch-1") == []


def test_an_empty_result_is_a_result(spark: SparkSession, area: StagingArea, out: str) -> None:
    frozen = freeze(area, {"s-0": 0})
    work(spark, frozen, 1, out)
    frozen.commit(1)

    assert read_committed(spark, out).collect() == []


def test_an_output_outside_of_the_block_is_refused(spark: SparkSession, area: StagingArea, out: str) -> None:
    batch = open_batch(spark, freeze(area, {"s-0": 1}).uri, 1)

    with pytest.raises(ConfigurationError, match="with open_batch"):
        batch.output(out)


def test_a_relative_output_is_recorded_whole(
    spark: SparkSession, area: StagingArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = freeze(area, {"s-0": 1})
    with open_batch(spark, frozen.uri, 1) as batch:
        recorded = batch._files.qualified("some/out")  # where it lies depends on the JVM's folder; nothing is written

    assert recorded.startswith("file:/")
    assert recorded.endswith("/some/out")


def test_check_refuses_when_a_newer_attempt_was_opened(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"s-0": 1})
    batch = open_batch(spark, frozen.uri, frozen.open_attempt(9))

    batch.check()
    frozen.open_attempt(10)
    with pytest.raises(LeaseLost, match="attempt 10"):
        batch.check()
    with pytest.raises(StagingError, match="Attempt 11"):
        open_batch(spark, frozen.uri, 11).check()


def test_check_refuses_once_clean_up_removes_the_batch(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"s-0": 1})
    batch = open_batch(spark, frozen.uri, frozen.open_attempt(9))
    area._files.write(
        f"{area.root}/{layout.attempts_folder(NAMESPACE, frozen.manifest.batch_id)}/{layout.RETIRED}", b"{}"
    )

    with pytest.raises(SlicesGone, match="never committed again"):
        batch.check()
    area.cleaner.remove_batch(NAMESPACE, frozen.manifest.batch_id)
    with pytest.raises(StagingError, match="Attempt 9"):
        batch.check()
