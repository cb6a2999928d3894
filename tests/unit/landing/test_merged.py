# SPDX-License-Identifier: Apache-2.0
"""A batch without Spark, in one order over all of its shards."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from shardbatch.errors import StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.landing.batch import open_batch
from shardbatch.landing.schema import RECORD_SCHEMA
from shardbatch.landing.writer import Sizes
from tests.support.dynamodb_records import Change, freeze_changes
from tests.support.vectors import VECTORS, Vector


@pytest.fixture
def area(tmp_path: Path) -> StagingArea:
    (tmp_path / "staging").mkdir()
    return StagingArea(str(tmp_path / "staging"))


def numbers(uri: str) -> list[int]:
    return [int(number) for piece in open_batch(uri).merged() for number in piece.column(3).to_pylist()]


@pytest.mark.parametrize("name", VECTORS)
def test_the_order_of_the_vectors(area: StagingArea, name: str) -> None:  # BV-1, BV-2, BV-3
    vector = VECTORS[name]
    assert numbers(freeze_changes(area, vector.changes(), parents=vector.parents).uri) == list(vector.order)


def test_children_that_no_slice_names_come_after_the_shards_that_ended(area: StagingArea) -> None:
    vector = Vector({"P": [(7, 50)], "Q": [(8, 60)], "A": [(1, 10), (9, 70)]}, [7, 8, 1, 9], {"A": ["P", "Q"]})
    frozen = freeze_changes(area, vector.changes(), parents=vector.parents, named=False)
    for entry in frozen.manifest.slices:
        assert entry.slice.children == ()
    assert numbers(frozen.uri) == list(vector.order)


def test_every_record_is_there_once_in_short_batches_with_all_columns(area: StagingArea) -> None:
    chance, shards, number = random.Random(7), {}, 0
    for shard in range(7):
        records, seconds = [], 0
        for _ in range(chance.choice([0, 1, 700, 2500])):
            number, seconds = number + 1, seconds + chance.choice([0, 0, 1, 3])
            records.append(Change(number, seconds, new={"id": {"S": str(number)}}))
        shards[f"s-{shard}"] = records
    batch = open_batch(freeze_changes(area, shards).uri)

    found = list(batch.merged())

    assert {piece.schema for piece in found} == {RECORD_SCHEMA}
    assert max(piece.num_rows for piece in found) <= 1000
    assert len(found) < sum(map(len, shards.values())) / 400
    merged, whole = pa.Table.from_batches(found), batch.to_arrow()
    order = [("arrival_time", "ascending"), ("sequence_number", "ascending")]
    places = [(time, int(number)) for time, number in zip(*(merged[n].to_pylist() for n, _ in order), strict=True)]
    assert places == sorted(places)
    assert merged.sort_by(order).equals(whole.sort_by(order))


def test_large_records_come_in_small_batches_and_memory_holds_a_part_of_each_file(tmp_path: Path) -> None:
    area, chance = StagingArea(str(tmp_path), sizes=Sizes(row_group=1 << 20)), random.Random(7)
    shards = {
        f"s-{shard}": [Change(1000 * shard + n, n, data=chance.randbytes(400_000), new={}) for n in range(60)]
        for shard in range(4)
    }
    batch = open_batch(freeze_changes(area, shards).uri)
    before, most, total = pa.total_allocated_bytes(), 0, 0
    for piece in batch.merged():
        assert piece.nbytes <= 8 << 20
        total += piece.nbytes
        most = max(most, pa.total_allocated_bytes() - before)
    assert total > 90 << 20
    assert most < total / 2


def test_a_file_that_holds_other_records_than_the_manifest_says_is_an_error(area: StagingArea) -> None:
    frozen = freeze_changes(area, {"A": [Change(1, 1, new={})], "B": [Change(2, 2, new={}), Change(3, 3, new={})]})
    first, second = (Path(path) for path in open_batch(frozen.uri).files)
    second.write_bytes(first.read_bytes())
    with pytest.raises(StagingError, match="holds 1 records, not 2"):
        list(open_batch(frozen.uri).merged())
    second.unlink()
    with pytest.raises(StagingError, match="Could not read"):
        list(open_batch(frozen.uri).merged())
