# SPDX-License-Identifier: Apache-2.0
"""Whether there is something to claim: yes for all that a claim takes, no for what others have or nobody can read."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.claimable import Claimable
from shardbatch.control.shared_look import Look, Rest
from shardbatch.control.stream_look import MOST_SHARDS, StreamLook
from shardbatch.core.batch import BatchState, void
from shardbatch.core.lease import stamp
from shardbatch.core.owner import ResetHolder
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Page, Verdict
from shardbatch.core.position import after, at_timestamp
from shardbatch.errors import LeaseLost, OwnerUnknown, SourceError, StoreNotFound
from shardbatch.run import Outcome
from shardbatch.run.consumer import Consumer
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

MINUTE = ClaimOptions(lease_duration=timedelta(minutes=1))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", stream=ScriptedStream(shards=2), options={"options": MINUTE})


def why(rig: Rig, me: str = "", **changes: Any) -> str:
    """What there is to claim; the rows are the same afterwards."""
    consumer: Consumer = rig.consumer(**changes)
    question = Claimable("here", 60_000, me, consumer.liveness, consumer.clock)
    stream = StreamLook(
        Look().path(), rig.stream.name, lambda: nullcontext(consumer.source), Rest(), consumer.clock
    )  # fmt: skip
    before = written(consumer)
    answer = question.ask_with(consumer.store, consumer.namespace, stream)
    assert written(consumer) == before
    assert answer.reached == bool(answer.told and answer.told["why"])
    return str((answer.told or {})["why"])


def written(consumer: Consumer) -> list[Any]:
    try:
        return [consumer.application(), *consumer.leases()]
    except StoreNotFound:
        return []


def drained(rig: Rig, run: str = "r0") -> None:
    """A run reads all there is, and commits it."""
    rig.run(run)


def test_before_the_first_claim_there_is_something_to_claim(rig: Rig) -> None:
    assert "Nothing was claimed yet" in why(rig)
    assert "Nothing was claimed yet" in why(rig, store=MemoryStore())  # it has no tables


def test_an_idle_stream_has_nothing_until_a_record_comes_to_any_shard(rig: Rig) -> None:
    rig.stream.put("a", "b", "c", "d")
    drained(rig)
    assert why(rig) == ""
    for shard_id in rig.stream.shards:
        rig.stream.put("x", shard_id=shard_id)
        assert why(rig) == f"{shard_id} may have records that are not read."
        drained(rig, f"of {shard_id}")
        assert why(rig) == ""


def test_the_last_record_of_an_idle_shard_expires_and_calls_no_run(rig: Rig) -> None:
    rig.stream.put("a", "b", "c", "d")
    drained(rig)
    for shard_id in rig.stream.shards:
        rig.stream.trim(shard_id, 0)
    assert why(rig) == ""


def test_what_an_active_run_holds_is_not_there_for_others_and_what_a_dead_one_left_is(rig: Rig) -> None:
    rig.stream.put("a")
    found = rig.claim("r1")
    assert why(rig) == ""
    assert why(rig, me=str(rig.owner("r1"))) == "This run has leases or a batch already."
    rig.over("r1")
    assert "records that are not read" in why(rig)
    rig.land("r1", found)
    assert "were landed and are in no batch" in why(rig)


def test_without_an_answer_of_airflow_an_owner_keeps_what_it_has(rig: Rig) -> None:
    def silent(owner: str) -> Verdict:
        raise OwnerUnknown(owner)

    rig.stream.put("a")
    rig.claim("r1")
    assert why(rig, liveness=silent) == ""


@pytest.mark.parametrize("verdict", [Verdict.GONE, Verdict.FOREIGN])
def test_the_lease_of_an_owner_who_cannot_be_judged_counts_once_it_looks_old(rig: Rig, verdict: Verdict) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = verdict
    assert why(rig) == ""
    rig.time.ms += 61_000
    assert "records that are not read" in why(rig)
    rig.time.ms -= 61_000 + 301_000  # a clock that was wrong wrote a row from the future
    assert "records that are not read" in why(rig)


def test_a_reset_is_never_over(rig: Rig) -> None:
    rig.stream.put("a")
    drained(rig)
    rig.stream.put("b")
    for lease in rig.consumer().leases():
        assert rig.store.replace(lease, lease._next(rig.time.now_ms(), lease_owner=str(ResetHolder("x"))))
    rig.time.ms += 3_600_000
    assert why(rig, liveness=lambda owner: Verdict.OVER) == ""


def test_a_frozen_batch_counts_once_its_owner_is_over_and_a_parked_one_never(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    batch_id = rig.freeze("r1").batch_id
    batch = rig.consumer().batch(str(batch_id))
    assert batch is not None
    assert why(rig) == ""
    assert why(rig, me=batch.owner) == "This run has leases or a batch already."
    rig.over("r1")
    assert why(rig) == f"Batch {batch_id} of {batch.owner} can be adopted."
    parked = replace(batch, state=BatchState.PARKED, row_count=batch.row_count + 1)
    assert rig.store.replace(batch, parked)
    assert why(rig) == ""


def test_a_frozen_batch_of_a_deleted_run_counts_once_its_row_looks_old_and_of_another_deployment_never(
    rig: Rig,
) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    rig.freeze("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    assert why(rig) == ""
    rig.time.ms += 61_000
    assert "can be adopted" in why(rig)
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    assert why(rig) == ""


@pytest.mark.parametrize("state", ["void", "absent"])
def test_a_stamp_that_was_given_up_counts_once_its_owner_is_over(rig: Rig, state: str) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    me = str(rig.owner("r1"))
    for lease in rig.consumer().leases():
        if lease.pending is not None:
            assert rig.store.replace(lease, stamp(lease, me, "b1", rig.time.now_ms()))
    if state == "void":
        assert rig.store.create(void(rig.namespace, "", "b1", 7, rig.time.now_ms()))
    assert why(rig) == ""  # its freeze may be at work
    rig.over("r1")
    assert "which was given up" in why(rig)


def test_a_committed_stamp_counts_only_if_something_follows_its_slice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> Any:
        raise LeaseLost("died")

    rig.stream.put("a", shard_id=next(iter(rig.stream.shards)))
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    with monkeypatch.context() as patch:
        patch.setattr(
            import_module("shardbatch.run.commit"), "roll_forward", lost
        )  # it dies between its decision and its leases
        with pytest.raises(LeaseLost):
            rig.commit("r1", frozen)
    rig.over("r1")
    assert any(lease.batch_id for lease in rig.consumer().leases())
    assert why(rig) == ""
    rig.stream.put("b", shard_id=next(iter(rig.stream.shards)))
    assert "records that are not read" in why(rig)


def test_children_count_once_their_parents_are_read_and_have_records(rig: Rig) -> None:
    rig.stream.put("a", "b", "c", "d")
    drained(rig)
    parent = next(iter(rig.stream.shards))
    child, other = rig.stream.split(parent)
    assert parent in why(rig)  # its end is to be read
    rig.stream.put("x", shard_id=child)
    rig.options = {"options": replace(MINUTE, drain_lineage=False)}
    drained(rig, "r1")
    assert {row.shard_id for row in rig.consumer().leases() if row.completed} == {parent}
    assert child in why(rig)
    drained(rig, "r2")
    assert why(rig) == ""
    rig.stream.put("y", shard_id=other)
    assert other in why(rig)


def test_a_shard_without_a_row_whose_parent_is_open_or_waits_does_not_count(rig: Rig) -> None:
    rig.stream.put("a")
    found = rig.claim("r1")  # it holds the parent for long
    child, _ = rig.stream.split(next(iter(rig.stream.shards)))
    rig.stream.put("x", shard_id=child)
    assert found.outcome is Outcome.LEASES
    assert why(rig) == ""


def test_what_begins_at_an_instant_ahead_does_not_count_before_the_streams_clock_is_there(rig: Rig) -> None:
    start = at_timestamp(rig.stream.now_ms + 60_000)
    assert rig.claim("r1", start=start).outcome is Outcome.NOTHING
    assert why(rig, start=start) == ""
    rig.stream.now_ms += 61_000
    rig.stream.put("a")
    assert "records that are not read" in why(rig)


def test_an_unknown_shard_counts_and_a_shard_that_cannot_be_asked_fails_the_look_only_if_no_other_counts(
    rig: Rig,
) -> None:
    rig.stream.put("a", "b", "c", "d")
    drained(rig)
    first, second = rig.stream.shards
    rig.stream.failing[first] = SourceError("refused")
    with pytest.raises(SourceError, match="refused"):
        why(rig)
    rig.stream.put("x", shard_id=second)
    assert second in why(rig)


def test_a_shard_that_never_shows_its_tip_counts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.stream.put("a", "b", "c", "d")
    drained(rig)
    read = rig.stream.read

    def behind(shard_id: str, position: Any) -> Any:
        for page in read(shard_id, position):
            yield replace(page, at_tip=False, lag_ms=5)

    monkeypatch.setattr(rig.stream, "read", behind)
    assert "records that are not read" in why(rig)


def test_of_very_many_shards_others_are_asked_each_time(rig: Rig) -> None:
    places = {f"s-{number}": after("1") for number in range(MOST_SHARDS + 50)}
    asked: set[str] = set()

    class Many(ScriptedStream):
        def read(self, shard_id: str, position: Any) -> Any:
            asked.add(shard_id)
            yield Page(self._batch([]), position, at_tip=True)

    for turn in range(20):
        before = len(asked)
        stream = StreamLook(Look().path(), "orders", lambda: nullcontext(Many()), Rest())
        assert stream.unread(places) is None
        assert turn or len(asked) == MOST_SHARDS
        if turn and before == len(asked) == len(places):
            break
    assert asked == places.keys()


def test_an_import_that_is_not_finished_is_left_to_the_claim_which_refuses(rig: Rig) -> None:
    drained(rig)
    row = rig.consumer().expect_application()
    assert rig.store.replace(row, replace(row, importing="leases are taken over", row_count=row.row_count + 1))
    assert why(rig) == "An import is not finished."


def test_the_question_is_the_same_for_all_runs_and_has_literals_only() -> None:
    question = Claimable("here", 60_000, "me")
    assert json.loads(json.dumps(question.to_json())) == {"deployment": "here", "lease_duration_ms": 60_000}
    assert Claimable(**question.to_json()).ask(MemoryStore(), Rig(Path()).namespace).reached
