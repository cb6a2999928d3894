# SPDX-License-Identifier: Apache-2.0
"""A gap that a person accepts is in the next batch, with who and why, although the policy is to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.accept_gap import accept_gap
from shardbatch.control.status import shards as listed
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.core.slice import Slice
from shardbatch.errors import ConfigurationError
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, batch, done, everything, namespace, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def expired(rig: Rig, shard_id: str) -> list[str]:
    """A shard of which records expired unread; what is left of it."""
    rig.stream.put("a", shard_id=shard_id)
    rig.run("r0")
    rig.stream.put("b", "c", shard_id=shard_id)
    rig.stream.now_ms += 1
    rig.time.ms += 48 * 3_600_000
    left = rig.stream.put("d", shard_id=shard_id)
    rig.stream.trim(shard_id, 1)
    return left


def waiting(rig: Rig, run: str = "r1") -> tuple[str, list[str]]:
    """A shard whose slice waits behind a gap, and the records that it has."""
    shard_id = next(iter(rig.stream.shards))
    left = expired(rig, shard_id)
    rig.run(run)
    assert pending(rig, shard_id) is not None
    return shard_id, left


def pending(rig: Rig, shard_id: str) -> Slice | None:
    row = rig.consumer().lease(shard_id)
    assert row is not None
    return row.pending


def test_what_waited_behind_an_accepted_gap_is_in_the_next_batch(rig: Rig) -> None:
    shard_id, left = waiting(rig)
    files = pending(rig, shard_id).files  # type: ignore[union-attr]
    assert done(accept_gap, rig, shards=[shard_id]) == [(shard_id, "accepted")]
    assert pending(rig, shard_id).files == files  # type: ignore[union-attr]
    reads = len(rig.stream.reads)
    answer = rig.run("r2")
    assert (answer.records, answer.gaps) == (1, 1)
    assert len(rig.stream.reads) == reads  # what was landed is not read anew
    assert rig.sink()[-1:] == left


def test_who_and_why_stand_in_gap_manifest_batch_event_and_application(rig: Rig) -> None:
    shard_id, _ = waiting(rig)
    done(accept_gap, rig, shards=[shard_id])
    assert (application(rig).last_action or "").endswith(f"ann accepted the gaps of {shard_id}: bad data")
    answer = rig.run("r2")
    assert answer.batch_id is not None
    (entry,) = rig.manifest(answer.batch_id)["slices"]
    assert "ann accepted the gap: bad data" in entry["gap"]["accepted"]
    for note in (answer.note, batch(rig, answer.batch_id).note):
        assert note is not None
        assert f"gap of {shard_id}: " in note
        assert "ann accepted the gap: bad data" in note
    row = rig.consumer().lease(shard_id)
    assert row is not None
    assert "ann accepted the gap" in (row.note or "")


def test_descendants_that_waited_follow_by_themselves(rig: Rig) -> None:
    shard_id, left = waiting(rig)
    rig.stream.split(shard_id)
    children = rig.stream.put("x", "y", "z")
    rig.run("r2")
    done(accept_gap, rig, every=True)
    for number in range(3, 6):
        rig.run(f"r{number}")
    assert rig.sink()[1:] == left + children
    assert sorted(rig.committed(), key=int)[1:] == left + children


def test_an_active_run_freezes_what_was_accepted_while_it_works(rig: Rig) -> None:
    shard_id = next(iter(rig.stream.shards))
    left = expired(rig, shard_id)
    rig.land("r1", rig.claim("r1"))
    assert done(accept_gap, rig, shards=[shard_id]) == [(shard_id, "accepted")]
    row = rig.consumer().lease(shard_id)
    assert row is not None
    assert row.lease_owner == str(rig.owner("r1"))
    made = rig.freeze("r1")
    rig.work(made)
    rig.commit("r1", made)
    assert rig.sink()[-1:] == left


def test_a_stamp_that_is_written_at_the_same_time_is_made_anew(rig: Rig) -> None:
    shard_id = next(iter(rig.stream.shards))
    expired(rig, shard_id)
    rig.land("r1", rig.claim("r1"))
    store = Interrupted(rig.store, SHARD_LEASE, lambda: done(accept_gap, rig, every=True))
    made = rig.freeze("r1", store=store, policies=Policies(gap=GapPolicy.RECORD))
    assert (made.record_count, made.gaps) == (1, 1)
    assert made.batch_id is not None
    assert rig.manifest(made.batch_id)["slices"][0]["gap"]["accepted"]


def test_files_stay_when_the_answer_of_their_store_was_lost_and_their_gap_accepted_meanwhile(rig: Rig) -> None:
    """The slice is on the row, accepted; the reader learns only that its write lost, and must not remove the files."""
    shard_id = next(iter(rig.stream.shards))
    left = expired(rig, shard_id)
    found = rig.claim("r1")

    class Unlucky(Interrupted):
        def replace(self, seen, new):  # type: ignore[no-untyped-def]
            landed = seen.key.table is SHARD_LEASE and seen.pending is None and new.pending is not None
            answer = rig.store.replace(seen, new)
            if landed and answer:
                assert done(accept_gap, rig, every=True) == [(shard_id, "accepted")]
                return False
            return answer

    rig.land("r1", found, store=Unlucky(rig.store, SHARD_LEASE, lambda: None))
    made = rig.freeze("r1")
    assert made.batch_id is not None
    assert rig.records(made.batch_id) == left


def test_a_preview_says_what_is_lost_and_changes_no_row(rig: Rig) -> None:
    shard_id, left = waiting(rig)
    before = everything(rig)
    (item,) = told(accept_gap, rig, every=True, dry_run=True, reason="")
    assert (item.name, item.result) == (shard_id, "would accept")
    assert f"lost up to {left[0]}" in item.effect
    assert everything(rig) == before


def test_a_second_call_changes_nothing(rig: Rig) -> None:
    shard_id, _ = waiting(rig)
    done(accept_gap, rig, shards=[shard_id])
    before = everything(rig)
    assert done(accept_gap, rig, shards=[shard_id]) == [(shard_id, "already")]
    assert done(accept_gap, rig, every=True) == []
    assert everything(rig) == before


def test_only_shards_that_were_named_are_accepted(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    rig.stream.put("a", shard_id=second)
    expired(rig, first)
    rig.stream.put("e", "f", shard_id=second)
    rig.stream.trim(second, 1)
    rig.run("r1")
    assert done(accept_gap, rig, shards=[first]) == [(first, "accepted")]
    found = {row.shard_id: row.pending_gap for row in listed(rig.store, namespace(rig))}
    assert found == {first: False, second: True}


def test_a_shard_without_a_gap_is_left(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    (item,) = told(accept_gap, rig, shards=list(rig.stream.shards))
    assert (item.result, item.why) == ("left", "no gap waits on it")


def test_a_choice_that_makes_no_sense_is_refused(rig: Rig) -> None:
    rig.run("r1")
    for chosen, text in (
        ({}, "No gaps were chosen"),
        ({"every": True, "shards": ["s"]}, "all and some"),
        ({"shards": ["s-none"]}, "no lease"),
        ({"every": True, "reason": ""}, "needs a reason"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            told(accept_gap, rig, **chosen)
