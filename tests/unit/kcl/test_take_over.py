# SPDX-License-Identifier: Apache-2.0
"""The leases of KCL taken over: all or nothing, never beside live workers, and finished by another if it dies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Done
from shardbatch.control.status import committed_up_to
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import APPLICATION, SHARD_LEASE
from shardbatch.errors import ConfigurationError, ImportUnfinished, LeaseLost, StreamRecreated, WorkersAlive
from shardbatch.kcl.lease import KclLease
from shardbatch.kcl.take_over import LOOKS, import_kcl
from shardbatch.run import Outcome
from shardbatch.stores.memory import MemoryStore
from tests.support.kcl import ScriptedKcl
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def lease(shard_id: str, checkpoint: str, **more: Any) -> KclLease:
    return KclLease(shard_id, shard_id, 40, checkpoint, **more)


def half_read(rig: Rig) -> tuple[ScriptedKcl, list[str]]:
    """A stream that KCL has read in part: one shard to its end, one half, their children not at all; what is left."""
    rig.stream = ScriptedStream(shards=2)
    left, right = rig.stream.shards
    rig.stream.put("a", "b", shard_id=left)
    read, *unread = rig.stream.put("c", "d", "e", shard_id=right)
    low, high = rig.stream.split(left)
    unread += rig.stream.put("f", shard_id=low)
    unread += rig.stream.put("g", shard_id=high)
    merged = rig.stream.merge(high, right)
    unread += rig.stream.put("h", shard_id=merged)
    return ScriptedKcl(lease(left, "SHARD_END", child_shard_ids=(low, high)), lease(right, read)), unread


def bring(rig: Rig, kcl: ScriptedKcl, **chosen: Any) -> list[Done]:
    return told(import_kcl, rig, **{"source": rig.stream, "kcl": kcl, "clock": rig.time.clock(), **chosen})


def results(found: list[Done]) -> dict[str, str]:
    return {item.name: item.result for item in found}


def drained(rig: Rig) -> list[str]:
    for number in range(4):
        rig.run(f"drain{number}")
    return sorted(rig.committed(), key=int)


def test_exactly_what_kcl_had_left_is_read(rig: Rig) -> None:
    kcl, unread = half_read(rig)
    found = bring(rig, kcl)
    assert set(results(found).values()) == {"imported"}
    rows = {row.shard_id: row for row in rig.consumer().leases()}
    left, right, low, high, merged = rig.stream.shards
    assert [str(rows[name].checkpoint) for name in (left, right, low, high, merged)] == [
        *("SHARD_END", kcl.rows[right].checkpoint, "TRIM_HORIZON", "TRIM_HORIZON", "TRIM_HORIZON")
    ]
    assert [rows[left].completed, rows[right].completed] == [True, False]
    assert (rows[merged].parent_shard_ids, rows[left].hash_range) == ((high, right), rig.stream.shards[left].hash_range)
    assert drained(rig) == sorted(unread, key=int)


def test_who_why_and_from_where_stand_on_the_rows(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    bring(rig, kcl, reason="leaving KCL")
    row = application(rig)
    assert (row.importing, row.stream_id, row.start_position) == (None, rig.stream.identity(), TRIM_HORIZON)
    assert "ann imported 2 leases of the KCL table kcl-app: leaving KCL" in (row.last_action or "")
    assert all("leaving KCL" in (each.note or "") for each in rig.consumer().leases())


def test_the_watermark_promises_nothing_of_what_kcl_had_read_or_never_wanted(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    imported_ms = rig.stream.now_ms
    bring(rig, kcl)
    assert committed_up_to(rig.store, rig.namespace).ms is None
    rig.stream.now_ms += 600_000
    drained(rig)
    found = committed_up_to(rig.store, rig.namespace)
    assert (found.ms or 0) > imported_ms + MARGIN_MS
    assert found.complete_from_ms == imported_ms + MARGIN_MS


@pytest.mark.parametrize(("ahead_ms", "from_ms"), [(-600_000, MARGIN_MS), (600_000, 600_000)])
def test_the_watermark_promises_nothing_before_the_instant_that_was_given_for_leases_without_a_place(
    rig: Rig, ahead_ms: int, from_ms: int
) -> None:
    (shard,) = rig.stream.shards
    now = rig.stream.now_ms
    bring(rig, ScriptedKcl(lease(shard, "LATEST")), start=at_timestamp(now + ahead_ms))
    assert application(rig).complete_from == now + from_ms


def test_where_the_stream_tells_no_time_the_import_is_as_late_as_clocks_may_differ(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    kcl, _ = half_read(rig)
    monkeypatch.setattr(rig.stream, "clock_ms", lambda: None)
    before = rig.time.ms
    bring(rig, kcl)
    assert before + CLOCKS_APART_MS <= (application(rig).complete_from or 0) <= rig.time.ms + CLOCKS_APART_MS


def test_a_preview_tells_all_and_changes_nothing_also_beside_live_workers(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    kcl.moves = {look: next(iter(kcl.rows)) for look in range(1, 9)}
    rig.store.prepare()
    before = everything(rig)
    found = bring(rig, kcl, dry_run=True, reason="")
    assert bring(rig, kcl, dry_run=True, store=MemoryStore()) == found  # no table is made, none is needed
    assert set(results(found).values()) == {"would import"}
    effects = {item.name: item.effect for item in found}
    assert "5 shards, 1 of them completed" in effects["etl/orders"]
    assert "as KCL has it" in effects[list(rig.stream.shards)[1]]
    assert everything(rig) == before


def test_sub_sequence_numbers_are_kept(rig: Rig) -> None:  # K-42
    (shard,) = rig.stream.shards
    bring(rig, ScriptedKcl(lease(shard, "100", sub_sequence_number=3)))
    assert rig.consumer().leases()[0].checkpoint == after("100", 3)


@pytest.mark.parametrize("look", range(2, LOOKS + 2))
def test_live_workers_are_told_whenever_they_move_and_nothing_is_written(rig: Rig, look: int) -> None:  # K-24, K-26
    kcl, _ = half_read(rig)
    owned, *_ = kcl.rows
    kcl.rows[owned] = replace(kcl.rows[owned], owner="worker-7")
    kcl.moves = {look: owned}
    with pytest.raises(WorkersAlive, match=f"{owned} was written by worker-7"):
        bring(rig, kcl)
    assert (rig.consumer().leases(), rig.consumer().application()) == ([], None)


def test_a_worker_that_comes_to_life_while_leases_are_written_keeps_claims_off(rig: Rig) -> None:
    kcl, unread = half_read(rig)
    kcl.moves = {LOOKS + 2: next(iter(kcl.rows))}
    with pytest.raises(WorkersAlive):
        bring(rig, kcl)
    with pytest.raises(ImportUnfinished):
        rig.claim("r1")
    assert set(results(bring(rig, kcl)).values()) == {"imported", "already"}
    assert drained(rig) == sorted(unread, key=int)


def test_the_leases_are_watched_for_the_time_that_is_said(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    began = rig.time.ms
    said: list[str] = []
    bring(rig, kcl, say=said.append)
    assert 30_000 <= rig.time.ms - began < 31_000
    assert "for 30 s" in said[0]
    rig.store = MemoryStore()
    began = rig.time.ms
    bring(rig, kcl, watched=timedelta(minutes=3))
    assert 180_000 <= rig.time.ms - began < 181_000


@pytest.mark.parametrize("kind", ["made", "removed"])
def test_a_lease_that_comes_or_goes_is_a_sign_of_life(rig: Rig, kind: str) -> None:
    kcl, _ = half_read(rig)
    name = list(rig.stream.shards)[2] if kind == "made" else next(iter(kcl.rows))

    class Turning(ScriptedKcl):
        def leases(self) -> list[KclLease]:
            if self.looks == 2:
                self.rows.pop(name) if kind == "removed" else self.rows.update({name: lease(name, "TRIM_HORIZON")})
            return super().leases()

    with pytest.raises(WorkersAlive, match=f"{name} was {kind}"):
        bring(rig, Turning(*kcl.rows.values()))


def test_a_lease_that_names_no_place_leaves_all_until_a_start_is_given(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    kcl = ScriptedKcl(lease(first, "5000"), lease(second, "LATEST"))
    found = bring(rig, kcl)
    assert results(found) == {second: "left"}
    assert "no instant" in found[0].why
    assert (rig.consumer().leases(), rig.consumer().application()) == ([], None)
    found = bring(rig, kcl, start=at_timestamp(rig.stream.now_ms))
    assert set(results(found).values()) == {"imported"}
    row = rig.consumer().lease(second)
    assert row is not None
    assert row.checkpoint == at_timestamp(rig.stream.now_ms)
    assert set(results(bring(rig, kcl)).values()) == {"already"}


def test_what_was_imported_already_is_no_harm_and_what_went_on_is_not_overwritten(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    bring(rig, kcl)
    before = everything(rig)
    assert set(results(bring(rig, kcl)).values()) == {"already"}
    assert everything(rig) == before
    drained(rig)
    before = everything(rig)
    with pytest.raises(ConfigurationError, match="does not stand where KCL does"):
        bring(rig, kcl)
    assert everything(rig) == before


def test_an_application_of_ones_own_is_not_taken_over(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    before = everything(rig)
    with pytest.raises(ConfigurationError, match="another app_name"):
        bring(rig, ScriptedKcl(lease(next(iter(rig.stream.shards)), "TRIM_HORIZON")))
    assert everything(rig) == before


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("at", range(7))
def test_an_import_that_dies_is_finished_by_another_and_nothing_is_claimed_before(
    rig: Rig, at: int, *, applied: bool
) -> None:
    kcl, unread = half_read(rig)
    with pytest.raises(Killed):
        bring(rig, kcl, store=MortalStore(rig.store, at, applied=applied))
    began, ended = at > 0 or applied, at == 6 and applied
    if began and not ended:
        with pytest.raises(ImportUnfinished, match="ann began to import 2 leases of the KCL table kcl-app: bad data"):
            rig.claim("r1")
        assert rig.consumer().application() is not None
    found = results(bring(rig, kcl))
    assert set(found.values()) <= {"imported", "already"}
    assert drained(rig) == sorted(unread, key=int)


def test_after_a_death_kcl_may_have_gone_on(rig: Rig) -> None:
    """The user went back to KCL meanwhile: what the first import made is made anew, with counters of its own (L1)."""
    kcl, unread = half_read(rig)
    with pytest.raises(Killed):
        bring(rig, kcl, store=MortalStore(rig.store, 5, applied=True))
    right = list(rig.stream.shards)[1]
    stale = rig.consumer().lease(right)
    assert stale is not None
    kcl.rows[right] = replace(kcl.rows[right], checkpoint=unread[0], counter=90)
    found = results(bring(rig, kcl))
    assert found[right] == "imported"
    row = rig.consumer().lease(right)
    assert row is not None
    assert (row.checkpoint, row.lease_count != stale.lease_count + 1) == (after(unread[0]), True)
    assert drained(rig) == sorted(unread[1:], key=int)


def test_a_claim_that_comes_first_keeps_the_application(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    store = Interrupted(rig.store, APPLICATION, lambda: rig.claim("r1"))
    with pytest.raises(LeaseLost, match="made by another just now"):
        bring(rig, kcl, store=store)
    assert application(rig).claimed_by


def test_two_imports_at_once_are_one(rig: Rig) -> None:
    kcl, unread = half_read(rig)
    other = ScriptedKcl(*kcl.rows.values())
    store = Interrupted(rig.store, SHARD_LEASE, lambda: bring(rig, other))
    assert set(results(bring(rig, kcl, store=store)).values()) == {"imported", "already"}
    assert drained(rig) == sorted(unread, key=int)


def test_an_import_that_loses_its_last_write_to_another_writes_again(rig: Rig) -> None:
    kcl, unread = half_read(rig)

    def noted() -> None:
        row = application(rig)
        if row.importing is not None:
            assert rig.store.replace(row, row.acted("another verb"))

    class LastWrite(Interrupted):
        def create(self, row: Any) -> bool:
            return self._store.create(row)

    bring(rig, kcl, store=LastWrite(rig.store, APPLICATION, noted))
    assert application(rig).importing is None
    assert drained(rig) == sorted(unread, key=int)


def test_a_lease_that_a_run_has_taken_meanwhile_is_left(rig: Rig) -> None:
    """Another import has ended and a run has begun, while this one still wants to make a lease anew."""
    kcl, _ = half_read(rig)
    with pytest.raises(Killed):
        bring(rig, kcl, store=MortalStore(rig.store, 6, applied=False))
    right = list(rig.stream.shards)[1]
    moved = ScriptedKcl(*kcl.rows.values())
    moved.rows[right] = replace(moved.rows[right], checkpoint=str(int(moved.rows[right].checkpoint) + 1))

    def overtake() -> None:
        bring(rig, kcl)
        assert rig.claim("r1").outcome is Outcome.LEASES

    found = bring(rig, moved, store=Interrupted(rig.store, SHARD_LEASE, overtake))
    assert {item.name: item.why for item in found if item.result == "left"} == {right: "a run has it already"}
    assert "etl/orders" not in results(found)  # nor is it said that the application was imported
    row = rig.consumer().lease(right)
    assert row is not None
    assert row.checkpoint == after(kcl.rows[right].checkpoint)


def test_another_stream_of_the_same_name_is_refused(rig: Rig) -> None:
    kcl, _ = half_read(rig)
    bring(rig, kcl)
    rig.stream.created_ms = 2
    with pytest.raises(StreamRecreated):
        bring(rig, kcl)


def test_a_shard_that_left_the_stream_becomes_a_gap(rig: Rig) -> None:  # R102
    kcl, unread = half_read(rig)
    left, right, *_ = rig.stream.shards
    for name in (left, right):
        rig.stream.forget(name)
    bring(rig, kcl)
    row = rig.consumer().lease(left)
    assert row is not None
    assert (row.completed, row.checkpoint) == (True, SHARD_END)
    answers = [rig.run(f"r{n}", policies=Policies(gap=GapPolicy.RECORD)) for n in range(3)]
    assert sum(answer.gaps for answer in answers) == 3  # and of its children, which are as old as its end
    assert sorted(rig.committed(), key=int) == sorted(unread[2:], key=int)


def test_what_expired_of_a_shard_that_kcl_never_began_is_a_gap(rig: Rig) -> None:
    """The workers were stopped longer ago than the retention, right after a split: nothing of its children was read."""
    rig.stream = ScriptedStream()
    (parent,) = rig.stream.shards
    low, high = rig.stream.split(parent)
    rig.stream.put("expires", "stays", shard_id=low)
    rig.stream.forget(parent)
    rig.stream.trim(low, 1)
    kcl = ScriptedKcl(lease(parent, "SHARD_END", child_shard_ids=(low, high)), lease(low, "TRIM_HORIZON"))
    assert "becomes a gap" in {item.name: item.effect for item in bring(rig, kcl)}[low]
    answer = rig.run("r1", policies=Policies(gap=GapPolicy.RECORD))
    (batch,) = rig.batches(BatchState.COMMITTED)
    found = {entry["shard_id"]: entry["gap"] for entry in rig.manifest(batch.batch_id)["slices"]}
    assert answer.gaps == len(found) == 2
    assert (found[low]["after"], found[low]["from_ms"]) == ("TRIM_HORIZON", None)
    assert len(rig.committed()) == 1


def test_a_child_of_a_shard_that_is_still_there_begins_without_a_gap(rig: Rig) -> None:
    kcl, unread = half_read(rig)
    bring(rig, kcl)
    assert [rig.run(f"r{number}").gaps for number in range(3)] == [0, 0, 0]
    assert sorted(rig.committed(), key=int) == sorted(unread, key=int)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"reason": " "}, "needs a reason"),
        ({"start": after("5")}, "cannot all begin at 5"),
        ({"watched": timedelta(0)}, "not be watched"),
    ],
)
def test_an_import_that_makes_no_sense_is_refused(rig: Rig, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        bring(rig, half_read(rig)[0], **chosen)
