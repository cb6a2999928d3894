# SPDX-License-Identifier: Apache-2.0
"""What every use-case asks of an application's rows, and of who is over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import SCHEMA_VERSION
from shardbatch.errors import ApplicationUnknown, OwnerUnknown, UnsupportedSchema
from shardbatch.run.consumer import Verdicts, first_count, new_batch_id
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    made.store.prepare()
    return made


def test_rows_are_found_by_their_keys_their_columns_and_their_owner(rig: Rig) -> None:
    rig.claim("r1")
    consumer, me = rig.consumer(), str(rig.owner("r1"))
    first, second = consumer.leases()
    assert consumer.lease(first.shard_id) == first
    assert consumer.lease("shardId-9") is None
    assert consumer.leases(lease_owner=me) == [first, second]
    assert consumer.leases(lease_owner="other") == []
    for batch_id in ("b2", "b1"):
        rig.store.create(Batch(rig.namespace, "", batch_id, me, 1, BatchState.FROZEN))
    assert [batch.batch_id for batch in consumer.batches_of(me)] == ["b1", "b2"]
    assert consumer.batch("b3") is None


def test_an_owner_has_a_batch_unless_that_was_given_up(rig: Rig) -> None:
    consumer, me = rig.consumer(), str(rig.owner("r1"))
    assert not replace(consumer, store=MemoryStore()).has_batch(me)  # nothing was ever claimed: it has no tables
    assert not consumer.has_batch(me)
    for batch_id, state in (("b1", BatchState.VOID), ("b2", BatchState.COMMITTED)):
        assert not consumer.has_batch(me)
        rig.store.create(Batch(rig.namespace, "", batch_id, me, 1, state))
    assert consumer.has_batch(me)
    assert not consumer.has_batch("other")


def test_an_application_without_a_row_is_named(rig: Rig) -> None:
    assert rig.consumer().application() is None
    with pytest.raises(ApplicationUnknown, match="etl/orders"):
        rig.consumer().expect_application()
    rig.claim("r1")
    assert rig.consumer().expect_application() == rig.consumer().application()


def test_rows_of_the_version_before_are_refused_with_the_command_that_migrates_them(rig: Rig) -> None:
    rig.consumer().require_version()  # no rows yet
    rig.claim("r1")
    rig.consumer().require_version()
    row = rig.consumer().expect_application()
    assert rig.store.replace(row, replace(row, schema_version=SCHEMA_VERSION - 1, row_count=row.row_count + 1))
    with pytest.raises(UnsupportedSchema, match="migrate -a etl -s orders"):
        rig.consumer().require_version()


def test_ids_of_batches_sort_by_time_and_none_comes_twice() -> None:
    ids = [new_batch_id(ms) for ms in (1_767_323_045_678, 1_767_323_045_679, 1_767_323_046_000)]
    assert ids == sorted(ids)
    assert ids[0].startswith("20260102t030405678-")
    assert new_batch_id(0) != new_batch_id(0)
    assert len({first_count() for _ in range(20)}) == 20


def test_an_owner_is_asked_for_once_and_a_caller_not_at_all(rig: Rig) -> None:
    asked: list[str] = []

    def liveness(owner: str) -> Verdict:
        asked.append(owner)
        return Verdict.GONE

    verdicts = Verdicts(rig.consumer(liveness=liveness), "me")
    assert [verdicts(owner) for owner in ("me", "", "other", "other")] == [
        Verdict.OVER,
        Verdict.OVER,
        Verdict.GONE,
        Verdict.GONE,
    ]
    assert verdicts(str(ResetHolder("r1"))) is Verdict.ACTIVE
    assert asked == ["other"]


def test_an_owner_of_whom_nobody_can_say_keeps_what_it_has(rig: Rig) -> None:
    def liveness(owner: str) -> Verdict:
        raise OwnerUnknown(f"{owner} cannot be asked for.")

    verdicts = Verdicts(rig.consumer(liveness=liveness), "me")
    assert verdicts("other") is Verdict.ACTIVE
    assert verdicts("another") is Verdict.ACTIVE
    assert verdicts.unknown is not None
    assert "other cannot" in str(verdicts.unknown)  # the first error is the one that is told
    assert len([line for line in rig.said if "keeps its leases and batches" in line]) == 2
