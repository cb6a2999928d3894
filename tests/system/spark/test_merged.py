# SPDX-License-Identifier: Apache-2.0
"""A batch in Spark, in one order over all of its shards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from shardbatch import open_batch as open_without_spark
from shardbatch.spark import open_batch
from shardbatch.spark.dynamodb import changes
from tests.support.dynamodb_records import Change, freeze_changes
from tests.support.vectors import VECTORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from shardbatch.landing.area import StagingArea

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_the_order_of_the_vectors(spark: SparkSession, area: StagingArea) -> None:  # BV-1, BV-2, BV-3
    for name, vector in VECTORS.items():
        frozen = freeze_changes(area, vector.changes(), parents=vector.parents, batch_id=name.replace(" ", "-"))
        frame = open_batch(spark, frozen.uri, 1).merged()
        assert [int(row.sequence_number) for row in frame.collect()] == list(vector.order), name


def lineages(chance: random.Random) -> tuple[dict[str, list[Change]], dict[str, list[str]]]:
    """Shards of five generations, with clocks that run backwards and numbers that belong to no order."""
    shards: dict[str, list[Change]] = {}
    parents: dict[str, list[str]] = {}
    for generation in range(5):
        for n in range(4):
            shard_id = f"{chance.randrange(10**6)}-{generation}-{n}"
            if generation:
                before = [name for name in shards if f"-{generation - 1}-" in name]
                parents[shard_id] = chance.sample(before, chance.choice([1, 1, 2]))
            shards[shard_id] = [
                Change(chance.choice([9, 10, 10**21, 10**56]) + chance.randrange(90), chance.choice([None, *range(9)]))
                for _ in range(chance.choice([0, 1, 30]))
            ]
            shards[shard_id].sort(key=lambda change: change.number)
    return shards, parents


def ancestors(shard_id: str, parents: Mapping[str, Sequence[str]]) -> set[str]:
    above = set(parents.get(shard_id, ()))
    return above.union(*(ancestors(parent, parents) for parent in above))


def test_it_is_the_order_without_spark_and_never_against_the_lineage(spark: SparkSession, area: StagingArea) -> None:
    for seed in range(3):
        shards, parents = lineages(random.Random(seed))
        frozen = freeze_changes(area, shards, parents=parents, batch_id=f"b-{seed}")

        rows = open_batch(spark, frozen.uri, 1).merged().collect()

        places = [(row.shard_id, row.record_index) for row in rows]
        assert sorted(places) == sorted((s, n) for s, records in shards.items() for n in range(len(records)))
        positions = [tuple(row.position) for row in rows]
        assert positions == sorted(set(positions))
        seen: set[str] = set()
        at = dict.fromkeys(shards, 0)
        for shard_id, index in places:
            assert index == at[shard_id]
            at[shard_id] += 1
            assert seen.isdisjoint(child for child in shards if shard_id in ancestors(child, parents))
            seen.add(shard_id)
        pieces = open_without_spark(frozen.uri).merged()
        assert [(r["shard_id"], r["record_index"]) for piece in pieces for r in piece.to_pylist()] == places


def test_changes_keep_the_order_and_have_its_position(spark: SparkSession, area: StagingArea) -> None:
    vector = VECTORS["BV-1 parents before children"]
    batch = open_batch(spark, freeze_changes(area, vector.changes(), parents=vector.parents).uri, 1)

    frame = changes(batch, "id STRING", records=batch.merged()).frame

    assert [int(row.sequence_number) for row in frame.collect()] == list(vector.order)
    shuffled = frame.repartition(3, "event_id").orderBy("position")
    assert [int(row.sequence_number) for row in shuffled.collect()] == list(vector.order)
