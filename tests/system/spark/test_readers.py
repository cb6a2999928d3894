# SPDX-License-Identifier: Apache-2.0
"""Readers on Spark: one read for many batches, their columns and types, intervals, times, ids and what is new."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import pytest

from shardbatch.errors import ConfigurationError, NothingFinished, StagingError
from shardbatch.landing import layout
from shardbatch.landing.files import Files
from shardbatch.landing.sums import sum_markers
from shardbatch.spark import open_batch, read_changes, read_committed
from shardbatch.spark.files import FrameFiles, GatewayFiles, files_of
from tests.support.batches import freeze
from tests.support.outputs import commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from shardbatch.landing.area import StagingArea

pytestmark = [pytest.mark.slow, pytest.mark.spark]

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
TEN = NINE + timedelta(hours=1)


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def rows(frame: DataFrame, *names: str) -> list[Any]:
    found = [tuple(row[name] for name in names) for row in frame.collect()]
    return sorted(one[0] if len(names) == 1 else one for one in found)


@contextmanager
def jobs(spark: SparkSession, name: str) -> Iterator[list[int]]:
    """The ids of the jobs that Spark runs meanwhile."""
    found: list[int] = []
    spark.sparkContext.setJobGroup(name, name)
    try:
        yield found
        found.extend(spark.sparkContext.statusTracker().getJobIdsForGroup(name))
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def day(n: int) -> str:
    return f"day=2026-01-{n:02d}"


def test_many_batches_with_partitions_are_one_read_and_partitions_are_pruned(spark: SparkSession, out: str) -> None:
    for n in range(40):
        commit(out, f"b-{n}", {day(1 + n % 3): {"a": [n]}})
    commit(out, "b-0", {day(9): {"a": [100]}}, decided=2)

    with jobs(spark, "plan") as planned:
        frame = read_committed(spark, out)
    assert len(planned) <= 6

    assert frame.dtypes == [("a", "bigint"), ("day", "date")]
    assert rows(frame, "a") == [*range(1, 40), 100]
    plan = frame.where("day = '2026-01-09'")._jdf.queryExecution().executedPlan().toString()
    assert "Union" not in plan
    assert "PartitionFilters: [isnotnull(day" in plan
    assert rows(frame.where("day = '2026-01-09'"), "day", "a") == [(date(2026, 1, 9), 100)]
    assert len(frame.where("day = '2026-01-09'").inputFiles()) == 40  # of the relation; the scan reads one


def test_the_types_of_partitions_hold_for_all_batches(spark: SparkSession, out: str) -> None:
    commit(out, "1e5", {"k=1": {"a": [1]}})  # ids that look like numbers stay texts
    commit(out, "100000.0", {"k=x": {"a": [2]}})

    frame = read_committed(spark, out, columns=("batch_id", "attempt"))

    assert frame.dtypes == [("a", "bigint"), ("k", "string"), ("batch_id", "string"), ("attempt", "int")]
    assert rows(frame, "a", "k", "batch_id", "attempt") == [(1, "1", "1e5", 1), (2, "x", "100000.0", 1)]


def test_batches_with_other_partition_columns_are_read_together(spark: SparkSession, out: str) -> None:
    commit(out, "a", {day(1): {"a": [1]}, day(2): {"a": [2]}})
    commit(out, "b", {"": {"a": [3], "more": ["x"]}})
    commit(out, "c", {"day=2026-01-01/hour=3": {"a": [4]}})
    commit(out, "d", {day(5): {"a": [5]}})

    frame = read_committed(spark, out)

    assert sorted(frame.columns) == ["a", "day", "hour", "more"]
    assert sorted(map(tuple, frame.select("a", "hour", "more").collect())) == [
        *((1, None, None), (2, None, None), (3, None, "x"), (4, 3, None), (5, None, None))
    ]
    assert {row.a: row.day for row in frame.collect()}[5] == date(2026, 1, 5)
    asked = read_committed(spark, out, columns=("batch_id",))
    assert rows(asked, "a", "batch_id") == [(1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "d")]


def test_a_later_column_is_seen_with_merge_schema(spark: SparkSession, out: str) -> None:
    commit(out, "a", {day(1): {"a": [1]}})
    commit(out, "b", {day(1): {"a": [2], "more": ["x"]}})

    assert rows(read_committed(spark, out), "a") == [1, 2]
    merged = read_committed(spark, out, mergeSchema=True)
    assert sorted(map(tuple, merged.select("a", "more").collect())) == [(1, None), (2, "x")]


@pytest.mark.parametrize("partition", ["", "day=2026-01-01"])
def test_columns_of_the_authors_own_named_as_our_folders_stay_his(
    spark: SparkSession, out: str, partition: str
) -> None:
    for batch_id in ("a", "b"):
        commit(out, batch_id, {partition: {"batch_id": [f"mine-{batch_id}"], "start": [7]}})

    assert rows(read_committed(spark, out), "batch_id", "start") == [("mine-a", 7), ("mine-b", 7)]
    assert rows(read_committed(spark, out, columns=("attempt",)), "batch_id", "attempt") == [
        ("mine-a", 1),
        ("mine-b", 1),
    ]
    with pytest.raises(ConfigurationError, match="of this name itself"):
        read_committed(spark, out, columns=("batch_id",))
    empty = Path(out, layout.output_folder("c", "s1c"))  # a batch without a row beside them
    commit(out, "c", {"": {}})
    for file in empty.glob("*"):
        file.unlink()
    (empty / "_SUCCESS").touch()
    assert rows(read_committed(spark, out), "batch_id", "start") == [("mine-a", 7), ("mine-b", 7)]


def test_a_column_that_is_not_ours_cannot_be_asked_for(spark: SparkSession, out: str) -> None:
    for columns in (("day",), "batch_id"):
        with pytest.raises(ConfigurationError, match="can be added"):
            read_committed(spark, out, schema="a int", columns=columns)


def test_a_schema_is_kept_and_empty_results_have_no_rows(spark: SparkSession, out: str) -> None:
    commit(out, "a", {day(1): {"a": [1], "s": ["x"]}})
    Path(out, layout.output_folder("b", "s1b")).mkdir(parents=True)
    Path(out, layout.output_folder("b", "s1b"), "_SUCCESS").touch()
    commit(out, "b", {"": {}})
    Path(out, layout.output_folder("b", "s1b"), "part-0.parquet").unlink()

    frame = read_committed(spark, out, schema="a bigint, day string")
    assert (frame.dtypes, rows(frame, "a", "day")) == ([("a", "bigint"), ("day", "string")], [(1, "2026-01-01")])
    assert rows(read_committed(spark, out), "a") == [1]

    with pytest.raises(NothingFinished, match="holds no file"):
        read_committed(spark, out, batches=["b"])
    empty = read_committed(spark, out, batches=["b"], schema="a int", columns=("batch_id", "attempt"))
    assert (empty.columns, empty.collect()) == (["a", "batch_id", "attempt"], [])


def test_a_committed_folder_that_is_gone_is_an_error_that_says_so(spark: SparkSession, out: str) -> None:
    for n in range(12):
        commit(out, f"b-{n:02d}", {day(1): {"a": [n]}})
    shutil.rmtree(Path(out, "batch_id=b-11"))

    with pytest.raises(StagingError, match="is not there"):
        read_committed(spark, out)


def test_an_interval_is_read_alone_and_live_readers_do_not_see_it(spark: SparkSession, out: str) -> None:
    span = (ms(NINE), ms(TEN))
    commit(out, "live", {day(1): {"a": [1]}})
    commit(out, "once", {day(1): {"a": [2]}}, interval=span, number=1)
    commit(out, "again", {day(1): {"a": [3]}}, interval=span, number=2)
    commit(out, "joins", {day(1): {"a": [4]}}, interval=(0, 9), number=1, joins=True)

    assert rows(read_committed(spark, out), "a") == [1, 4]
    assert rows(read_committed(spark, out, interval=(NINE, TEN)), "a") == [3]
    assert rows(read_committed(spark, out, interval=span), "a") == [3]
    with pytest.raises(NothingFinished, match="asked for"):
        read_committed(spark, out, interval=(NINE, TEN + timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="time zone"):
        read_committed(spark, out, since=datetime(2026, 1, 1))


def test_batches_are_asked_for_by_time_and_id(spark: SparkSession, out: str) -> None:
    for n in range(3):
        begin = ms(NINE + timedelta(hours=n))
        commit(out, f"b-{n}", {day(1): {"a": [n]}}, min_arrival_ms=begin, max_arrival_ms=begin + 9, committed_ms=begin)

    assert rows(read_committed(spark, out, since=TEN), "a") == [1, 2]
    assert rows(read_committed(spark, out, since=NINE, until=TEN), "a") == [0]
    assert rows(read_committed(spark, out, committed_since=TEN + timedelta(hours=1)), "a") == [2]
    assert rows(read_committed(spark, out, batches=["b-1"]), "a") == [1]


def test_a_consumer_takes_over_what_is_new(spark: SparkSession, out: str) -> None:
    table: dict[str, list[int]] = {}

    def take(token: str | None) -> str:
        new = read_changes(spark, out, token, columns=("batch_id",))
        for batch_id in new.batches:
            table.pop(batch_id, None)
        for a, batch_id in rows(new.frame, "a", "batch_id") if new.frame is not None else ():
            table.setdefault(batch_id, []).append(a)
        return new.token

    span = (ms(NINE), ms(TEN))
    commit(out, "a", {day(1): {"a": [1]}})
    commit(out, "v", {day(1): {"a": [2]}}, interval=span, number=1, joins=True)
    token = take(None)
    assert table == {"a": [1], "v": [2]}

    commit(out, "a", {day(1): {"a": [3]}}, decided=2)
    commit(out, "b", {day(1): {"a": [4]}})
    commit(out, "w", {day(1): {"a": [5]}}, interval=span, number=2, joins=True)
    assert sum_markers(Files(pafs.LocalFileSystem()), out, least=1) == 5
    commit(out, "c", {day(1): {"a": [6]}})
    token = take(token)
    assert table == {"a": [3], "b": [4], "c": [6], "w": [5]}

    commit(out, "b", {}, decided=2)
    last = read_changes(spark, out, token)
    assert (last.batches, last.frame) == (("b",), None)
    assert read_changes(spark, out, last.token).batches == ()
    with pytest.raises(ConfigurationError, match="token"):
        read_changes(spark, out, "yesterday")


ODD = "o[ut] {pr,od} *?"


@pytest.mark.parametrize("partition", ["", "day=2026-01-01"])
def test_a_root_with_the_characters_of_patterns_is_found(
    spark: SparkSession, area: StagingArea, tmp_path: Path, partition: str
) -> None:
    out = str(tmp_path / ODD)
    frozen = freeze(area, {"s-0": 3})
    with open_batch(spark, frozen.uri, 1, work="load") as batch:
        frame = batch.records().select("record_index")
        frame.write.parquet(batch.output(out) + ("/" + partition if partition else ""))
        start = batch.start_id
    frozen.end(1)
    frozen.commit(1)
    commit(out, "b-2", {partition: {"record_index": [7]}})

    assert rows(read_committed(spark, out), "record_index") == [0, 1, 2, 7]
    asked = read_committed(spark, out, columns=("batch_id",))
    assert rows(asked, "record_index", "batch_id")[-1] == (7, "b-2")
    assert start


@pytest.mark.parametrize("kind", ["frames", "gateway"])
def test_small_files_are_read_in_such_a_place_too(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ODD
    (folder / "below").mkdir(parents=True)
    names = [f"n{n}.json" for n in range(130)]
    for name in names:
        (folder / name).write_text(name)
    files = FrameFiles(spark) if kind == "frames" else files_of(spark)
    assert isinstance(files, GatewayFiles) == (kind == "gateway")

    assert files.read(f"{folder}/n1.json") == b"n1.json"
    assert set(files.names(str(folder))) - {"below"} == set(names)
    assert files.names(str(folder / "below")) == files.names(str(folder / "nowhere")) == []
    assert files.contents(str(folder), names) == {name: name.encode() for name in names}
    assert files.contents(str(folder), ["n1.json", "n2.json"]) == {"n1.json": b"n1.json", "n2.json": b"n2.json"}
    assert files.contents(str(folder), ["n1.json", "gone.json"]) == {"n1.json": b"n1.json"}
    assert files.contents(str(folder / "nowhere"), ["n1.json"]) == {}
    assert files.there(str(folder))


def test_frames_alone_read_sums_and_markers(spark: SparkSession, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardbatch.spark.committed.files_of", FrameFiles)
    with pytest.raises(NothingFinished):
        read_committed(spark, out)
    for n in range(3):
        commit(out, f"b-{n}", {day(1): {"a": [n]}})
    assert sum_markers(Files(pafs.LocalFileSystem()), out, least=1) == 3
    os.unlink(Path(out, layout.MARKERS, "b-0.1.json"))
    commit(out, "b-3", {day(1): {"a": [3]}})

    assert rows(read_committed(spark, out), "a") == [0, 1, 2, 3]
