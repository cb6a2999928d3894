# SPDX-License-Identifier: Apache-2.0
"""Where others' work and ours meet: a row that moves between a look and a write, and calls that come again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.release import release
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Verdict
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import BATCH, SHARD_LEASE, Row
from shardbatch.core.shard import Shard
from shardbatch.landing.area import StagingArea
from shardbatch.run import Frozen, Outcome, beat, land
from shardbatch.run.hold import Held
from tests.support.backfill import Backfill, of_interval, span_of, taken_back
from tests.support.mortal import Killed, MortalStore
from tests.support.one_by_one import OneByOne
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, batch, done, namespace, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def landed(rig: Rig, run: str = "r1", *records: str) -> None:
    rig.stream.put(*(records or ("a",)))
    rig.land(run, rig.claim(run))


class Before(OneByOne):
    """Lets something happen before the first write of a kind; ``new`` is ``None`` where a row is deleted, ``seen``
    where one is made."""

    def __init__(self, rig: Rig, moment: Callable[[Any, Any], bool], event: Callable[[], Any]) -> None:
        self._store, self._moment, self._event = rig.store, moment, event
        self.happened = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _look(self, seen: Any, new: Any) -> None:
        if not self.happened and self._moment(seen, new):
            self.happened = True
            self._event()

    def create(self, row: Row) -> bool:
        self._look(None, row)
        return self._store.create(row)

    def replace(self, seen: Row, new: Row) -> bool:
        self._look(seen, new)
        return self._store.replace(seen, new)

    def delete(self, seen: Row) -> bool:
        self._look(seen, None)
        return self._store.delete(seen)


# claims and freezes


def test_a_claim_leaves_the_stamps_of_a_freeze_that_is_at_work(rig: Rig) -> None:
    landed(rig)
    drawn: list[str | None] = []

    def another_claims() -> None:
        drawn.append(only(rig).batch_id)
        assert rig.claim("r2").outcome is Outcome.HELD

    store = Before(rig, lambda seen, new: new is not None and new.key.table is BATCH, another_claims)
    frozen = rig.freeze("r1", store=store)
    assert [frozen.batch_id] == drawn
    assert rig.batches(BatchState.VOID) == []


def test_a_freeze_that_died_after_its_stamps_freezes_the_same_slices_when_it_is_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed(rig)
    with monkeypatch.context() as patch:

        def die(*_: Any, **__: Any) -> None:
            raise Killed

        patch.setattr(StagingArea, "write_manifest", die)
        with pytest.raises(Killed):
            rig.freeze("r1")
    given_up = only(rig).batch_id
    frozen = rig.freeze("r1")
    assert frozen.record_count == 1
    assert frozen.batch_id not in (None, given_up)


# tries of a read


def held_by(rig: Rig, run: str = "r1") -> Held:
    return Held(rig.consumer(), str(rig.owner(run)), only(rig))


def test_a_read_that_lives_on_behind_its_runs_freeze_loses_the_lease_and_says_no_more(rig: Rig) -> None:
    rig.stream.put("a")
    found = rig.claim("r1")
    held = held_by(rig)
    rig.land("r1", found)
    rig.freeze("r1")
    before = only(rig)
    held.renew()
    assert held.lost
    assert only(rig) == before


def test_no_sign_of_life_takes_a_lease_back_that_was_given_back(rig: Rig) -> None:
    rig.claim("r1")
    held = held_by(rig)
    held.give_back(None)
    before = only(rig)
    held.renew()
    assert before.lease_owner is None
    assert only(rig) == before


def test_a_try_that_comes_again_leaves_a_child_to_the_task_that_reads_it(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    left, right = rig.stream.shards
    for shard_id in (left, right):
        rig.stream.put("a", shard_id=shard_id)
    child = rig.stream.merge(left, right)
    rig.stream.put("b", "c", shard_id=child)
    found = rig.claim("r1", limits=ReadLimits(concurrency=1))
    first, second = found.groups
    read = [land(rig.consumer(), rig.owner("r1"), task.group, rig.stream.now_ms + 1) for task in (first, second, first)]
    assert [(task.records, task.shards) for task in read] == [(1, 1), (3, 2), (1, 1)]
    row = rig.consumer().lease(child)
    assert row is not None
    assert row.read_group == second.group


# commits


def test_a_commit_leaves_what_another_try_of_freeze_has_just_stamped(rig: Rig) -> None:
    landed(rig)
    assert rig.store.replace(only(rig), leases.stamp(only(rig), str(rig.owner("r1")), "b9", rig.time.ms))
    before = only(rig)
    assert rig.commit("r1", Frozen()).batch_id is None
    assert only(rig) == before


# verbs


def test_a_release_leaves_a_lease_that_went_to_a_live_run_meanwhile(rig: Rig) -> None:
    landed(rig)
    rig.over("r1")
    store = Interrupted(rig.store, SHARD_LEASE, lambda: rig.claim("r2"))
    (item,) = told(release, rig, owner=str(rig.owner("r1")), store=store)
    assert (item.result, item.why) == ("left", f"it went to {rig.owner('r2')} meanwhile")
    assert only(rig).lease_owner == str(rig.owner("r2"))


def test_a_release_leaves_a_batch_that_a_live_run_adopted_meanwhile(rig: Rig) -> None:
    landed(rig)
    batch_id = str(rig.freeze("r1").batch_id)
    rig.over("r1")
    store = Interrupted(rig.store, BATCH, lambda: rig.claim("r2"))
    (item,) = told(release, rig, batch_id=batch_id, store=store)
    assert (item.result, item.why) == ("left", f"it went to {rig.owner('r2')} meanwhile")
    assert batch(rig, batch_id).owner == str(rig.owner("r2"))


def test_a_reset_discards_a_batch_that_shows_life_meanwhile_before_it_takes_its_leases(rig: Rig) -> None:
    landed(rig)
    frozen = rig.freeze("r1")
    batch_id = str(frozen.batch_id)

    def alive() -> None:
        beat(rig.consumer(), rig.owner("r1"), batch_id, frozen.attempt, "app-1")

    store = Interrupted(rig.store, BATCH, alive)
    told(reset, rig, shards=[only(rig).shard_id], to=TRIM_HORIZON, force=True, store=store)
    assert batch(rig, batch_id).attempt_ref is not None
    assert batch(rig, batch_id).state is BatchState.VOID


def test_a_reset_that_another_finished_leaves_what_a_run_has_taken_since(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    shard_id = only(rig).shard_id

    def finished_and_claimed() -> None:
        assert done(reset, rig, shards=[shard_id], to=TRIM_HORIZON) == [(shard_id, "finished")]
        assert rig.claim("r2").outcome is Outcome.LEASES

    def frees(seen: Any, new: Any) -> bool:
        holder = ResetHolder.parse(seen.lease_owner) if isinstance(seen, Lease) else None
        return holder is not None and holder.rewound and new.lease_owner is None

    store = Before(rig, frees, finished_and_claimed)
    told(reset, rig, shards=[shard_id], to=TRIM_HORIZON, store=store)
    assert store.happened
    assert only(rig).lease_owner == str(rig.owner("r2"))


def test_a_restart_deletes_also_a_row_that_comes_between(rig: Rig) -> None:
    """A claim that had listed the old stream adds the row of a shard of it."""
    rig.stream.put("a")
    rig.run("r1")
    late = leases.add(namespace(rig), "", Shard("shardId-late", ()), TRIM_HORIZON, 7, rig.time.ms)
    rig.stream = ScriptedStream()
    rig.stream.created_ms = 2
    store = Before(rig, lambda seen, new: new is None, lambda: rig.store.create(late))
    answer = done(reset, rig, every=True, stream_id=rig.stream.identity(), store=store)
    assert ("shardId-late", "deleted") in answer
    assert rig.consumer().leases() == []


def test_a_restart_goes_on_when_the_applications_row_was_written_meanwhile(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    rig.stream = ScriptedStream()
    rig.stream.created_ms = 2

    def noted() -> None:
        row = application(rig)
        assert rig.store.replace(row, row.acted("another verb"))

    store = Before(rig, lambda seen, new: getattr(new, "stream_id", "") == rig.stream.identity(), noted)
    told(reset, rig, every=True, stream_id=rig.stream.identity(), store=store)
    assert store.happened
    assert application(rig).stream_id == rig.stream.identity()


@pytest.mark.parametrize("writes", [1, 2])
def test_a_set_aside_that_died_after_its_decision_is_finished_by_another_call(rig: Rig, writes: int) -> None:
    """Its writes are a note on the application, the decision, and the lease."""
    landed(rig)
    batch_id = str(rig.freeze("r1").batch_id)
    rig.over("r1")
    with pytest.raises(Killed):
        told(set_aside, rig, batch_id, store=MortalStore(rig.store, writes, applied=writes == 1))
    assert only(rig).batch_id == batch_id
    assert done(set_aside, rig, batch_id) == [(batch_id, "already")]
    assert (only(rig).batch_id, only(rig).checkpoint.exact) == (None, True)


def test_an_interval_is_not_taken_back_while_its_owner_replays_it(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    batch_id = backfill.whole()
    backfill.worked()
    (item,) = taken_back(rig, batch_id, liveness=lambda owner: Verdict.ACTIVE)
    assert (item.result, "at work" in item.why) == ("left", True)
    backfill.commit()
    assert of_interval(rig, span) == sent
    assert [item.result for item in taken_back(rig, batch_id, liveness=lambda owner: Verdict.ACTIVE)] == ["dropped"]
