# SPDX-License-Identifier: Apache-2.0
"""What a person passes over is told: by a forward reset as an accepted gap, by a batch set aside as a span of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.cli import tables
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import batches, shards
from shardbatch.core.batch import BatchState
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from tests.support.passing import HOUR, later, only
from tests.support.rig import Rig
from tests.support.verbs import batch, done, told
from tests.unit.control.test_park import frozen

RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def told_gaps(rig: Rig) -> list[dict[str, Any]]:
    """The gaps of all committed batches, as their manifests tell them."""
    rows = sorted(rig.batches(BatchState.COMMITTED), key=lambda item: item.batch_id)
    return [gap for row in rows for entry in rig.manifest(row.batch_id)["slices"] for gap in entry["gaps"]]


def lagging(rig: Rig) -> tuple[list[str], int]:
    """One record is committed, three more came an hour later each; and when the first one arrived."""
    sent = rig.stream.put("a")
    arrived = rig.stream.now_ms
    rig.run("r1")
    for key in "bcd":
        later(rig, 1)
        sent += rig.stream.put(key)
    return sent, arrived


def test_a_forward_reset_to_a_record_is_an_accepted_gap_of_the_next_batch(rig: Rig) -> None:
    sent, arrived = lagging(rig)
    (shard,) = rig.stream.shards
    (item,) = told(reset, rig, shards=[shard], to=after(sent[2]), dry_run=True)
    assert "SKIPS records that arrived from 2027-01-15T08:00:00Z" in item.effect
    assert "the next batch tells it as a gap" in item.effect
    done(reset, rig, shards=[shard], to=after(sent[2]))
    (found,) = shards(rig.store, rig.namespace)
    assert found.skipped == 1
    assert "(skips)" in tables.shards([found], rig.time.ms)[0]["state"]
    answer = rig.run("r2")  # under gap=fail: it is accepted
    assert (answer.records, answer.gaps) == (1, 1)
    (gap,) = told_gaps(rig)
    assert (gap["after"], gap["until"], gap["from_ms"]) == (sent[0], sent[2], arrived)
    assert "ann reset to" in gap["accepted"]
    assert "bad data" in gap["accepted"]
    (row,) = batches(rig.store, rig.namespace, limit=1)
    assert row.gaps == 1
    assert "bad data" in (row.note or "")
    assert only(rig).skipped == ()
    assert rig.run("r3").batch_id is None
    assert rig.committed() == [sent[0], sent[3]]


def test_a_forward_reset_to_an_instant_says_between_which_instants(rig: Rig) -> None:
    sent, arrived = lagging(rig)
    (shard,) = rig.stream.shards
    target = rig.stream.now_ms - HOUR // 2
    (item,) = told(reset, rig, shards=[shard], to=at_timestamp(target), dry_run=True)
    assert " to 2027-01-15T10:30:0" in item.effect
    done(reset, rig, shards=[shard], to=at_timestamp(target))
    rig.run("r2")
    (gap,) = told_gaps(rig)
    assert (gap["from_ms"], gap["to_ms"], gap["until"]) == (arrived, target, f"AT_TIMESTAMP:{target}")
    assert rig.committed() == [sent[0], sent[3]]


def test_a_quiet_shard_that_passed_records_over_tells_it_without_waiting_for_a_record(rig: Rig) -> None:
    sent, _ = lagging(rig)
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=after(sent[3]))
    answer = rig.run("r2")
    assert (answer.records, answer.gaps) == (0, 1)
    assert [gap["until"] for gap in told_gaps(rig)] == [sent[3]]


def test_a_second_reset_does_not_overwrite_what_the_first_passed_over(rig: Rig) -> None:
    sent, _ = lagging(rig)
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=after(sent[1]))
    done(reset, rig, shards=[shard], to=after(sent[2]))
    rig.run("r2")
    assert [(gap["after"], gap["until"]) for gap in told_gaps(rig)] == [(sent[0], sent[1]), (sent[1], sent[2])]


def test_a_reset_back_before_it_makes_it_readable_again(rig: Rig) -> None:
    sent, _ = lagging(rig)
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=after(sent[2]))
    done(reset, rig, shards=[shard], to=after(sent[0]))
    assert only(rig).skipped == ()
    assert rig.run("r2").gaps == 0
    assert rig.committed() == sent


def test_a_reset_back_into_it_leaves_the_rest(rig: Rig) -> None:
    sent, _ = lagging(rig)
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=after(sent[2]))
    done(reset, rig, shards=[shard], to=after(sent[1]))
    rig.run("r2")
    assert [(gap["after"], gap["until"]) for gap in told_gaps(rig)] == [(sent[0], sent[1])]
    assert rig.committed() == [sent[0], sent[2], sent[3]]


def test_a_landed_slice_that_a_forward_reset_drops_is_passed_over(rig: Rig) -> None:
    sent, _ = lagging(rig)
    (shard,) = rig.stream.shards
    rig.land("r2", rig.claim("r2"))
    rig.over("r2")
    done(reset, rig, shards=[shard], to=after(sent[2]), liveness=rig.verdict)
    rig.run("r3")
    assert [(gap["after"], gap["until"]) for gap in told_gaps(rig)] == [(sent[0], sent[2])]
    assert rig.committed() == [sent[0], sent[3]]


def test_a_gap_behind_what_was_passed_over_waits_and_both_are_told(rig: Rig) -> None:
    sent, _ = lagging(rig)
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=after(sent[1]))
    later(rig, 30)
    (left,) = rig.stream.put("left")
    rig.land("r2", rig.claim("r2"))
    assert only(rig).waits_for_gap
    assert rig.freeze("r2").batch_id is None
    rig.over("r2")
    rig.run("r3", policies=RECORD)
    told_ones = told_gaps(rig)
    assert [bool(gap["accepted"]) for gap in told_ones] == [True, False]
    assert [gap["after"] for gap in told_ones] == [sent[0], sent[1]]
    assert told_ones[1]["first_available"] == left


def test_a_reset_to_the_oldest_record_hides_nothing_that_expired_unread(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    rig.run("r2")
    later(rig, 1)
    rig.stream.put("lost")
    later(rig, 26)
    rig.stream.put("left")
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=TRIM_HORIZON)
    done(reset, rig, shards=[shard], to=TRIM_HORIZON)
    assert rig.run("r3", policies=RECORD).gaps == 1


def test_resets_back_and_forth_hide_nothing_that_expired_unread(rig: Rig) -> None:
    """Each instant that it goes to moves what is wanted on; the last reset wants all again."""
    rig.stream.put("a")
    rig.run("r1")
    rig.run("r2")
    later(rig, 1)
    rig.stream.put("lost")
    later(rig, 26)
    (shard,) = rig.stream.shards
    for to in (at_timestamp(rig.stream.now_ms - 2 * HOUR), at_timestamp(rig.stream.now_ms - HOUR), TRIM_HORIZON):
        done(reset, rig, shards=[shard], to=to)
    assert only(rig).skipped == ()
    rig.stream.put("left")
    assert rig.run("r3", policies=RECORD).gaps == 1


def test_a_reset_of_a_shard_that_was_seen_within_the_retention_has_no_gap(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    sent = rig.stream.put("a")
    rig.run("r1")
    later(rig, 20)
    rig.run("r2")
    later(rig, 20)
    sent += rig.stream.put("b")
    done(reset, rig, shards=[shard], to=TRIM_HORIZON)
    assert rig.run("r3").gaps == 0
    assert rig.committed() == sent


def test_a_landed_slice_that_a_reset_drops_counts_as_unread(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    later(rig, 1)
    rig.stream.put("landed")
    rig.land("r2", rig.claim("r2"))
    rig.over("r2")
    later(rig, 24.5)
    rig.stream.put("left")
    (shard,) = rig.stream.shards
    done(reset, rig, shards=[shard], to=TRIM_HORIZON, liveness=rig.verdict)
    assert rig.run("r3", policies=RECORD).gaps == 1


def test_a_batch_that_was_set_aside_says_when_its_records_arrived(rig: Rig) -> None:
    began = rig.stream.now_ms
    rig.stream.put("a")
    rig.stream.now_ms += 5000
    rig.stream.put("b")
    _, batch_id = frozen(rig)
    rig.over("r1")
    (item,) = told(set_aside, rig, batch_id, dry_run=True)
    assert "2 records (arrived 2027-01-15T08:00:00Z/2027-01-15T08:00:05Z)" in item.effect
    done(set_aside, rig, batch_id)
    row = batch(rig, batch_id)
    assert (row.min_arrival_ms, row.max_arrival_ms) == (began, began + 5000)
    (found,) = batches(rig.store, rig.namespace)
    assert (found.min_arrival_ms, found.max_arrival_ms) == (began, began + 5000)
    assert tables.batches([found], rig.time.ms)[0]["arrived"] == "2027-01-15T08:00:00Z/2027-01-15T08:00:05Z"


@pytest.mark.parametrize("seen", [True, False])
def test_what_children_had_before_the_instant_that_their_parent_goes_to_is_told(rig: Rig, seen: bool) -> None:
    """Their parent was committed to its end; ``seen``: and a claim since then has made their rows."""
    (parent,) = rig.stream.shards
    sent, began = rig.stream.put("a"), rig.stream.now_ms
    generation = ClaimOptions(drain_lineage=False)
    found = rig.claim("r1", options=generation)
    children = rig.stream.split(parent)
    rig.land("r1", found, options=generation)
    frozen = rig.freeze("r1", options=generation)
    rig.work(frozen)
    rig.commit("r1", frozen, options=generation)
    rig.over("r1")
    rig.stream.put("b", "c", "e", "f")
    if seen:
        rig.claim("r2", options=generation)
    later(rig, 2)
    to = at_timestamp(rig.stream.now_ms - HOUR)
    done(reset, rig, shards=[parent], to=to, force=True)
    new = rig.stream.put("b", "c", "e", "f")
    rig.run("r3", policies=RECORD)
    rig.run("r4", policies=RECORD)
    assert sorted(rig.committed()) == sorted([*sent, *new])
    gaps = told_gaps(rig)
    assert len(gaps) == len(children)
    for gap in gaps:
        assert gap["accepted"]
        assert gap["until"] == str(to)
        assert gap["from_ms"] is None or gap["from_ms"] <= began
