# SPDX-License-Identifier: Apache-2.0
"""Shards that grow old: how long until their records expire, said before; and what is not given up too early."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.control.status import ShardStatus, Status, shards, status
from shardbatch.core.interval import Interval
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from tests.support.passing import HOUR, time_passes
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def look(rig: Rig) -> tuple[Status, dict[str, ShardStatus]]:
    namespace = rig.consumer().namespace
    clock = rig.time.clock()
    found = shards(rig.store, namespace, clock=clock)
    return status(rig.store, namespace, clock), {item.shard_id: item for item in found}


def warnings(rig: Rig) -> list[str]:
    return [line for line in rig.said if "may expire soon" in line]


def test_a_claim_notes_the_retention_and_its_changes(rig: Rig) -> None:
    rig.run("r1")
    assert look(rig)[0].retention_ms == 24 * HOUR
    rig.stream.retention = timedelta(hours=48)
    rig.run("r2")
    assert look(rig)[0].retention_ms == 48 * HOUR
    writes = rig.store.writes  # type: ignore[attr-defined]
    rig.claim("r3")
    assert rig.store.writes == writes + 1  # type: ignore[attr-defined]  # the lease; the row has it already


def test_the_time_until_loss_is_that_of_the_shard_read_longest_ago(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    rig.stream.put("a", shard_id=first)
    rig.stream.put("b", shard_id=second)
    rig.run("r1")
    time_passes(rig, 10)
    rig.stream.put("c", shard_id=second)
    rig.run("r2")
    whole, each = look(rig)
    tip = rig.consumer().lease(first)
    assert tip is not None
    assert tip.caught_up_ms is not None
    assert each[first].expires_from_ms == tip.caught_up_ms + 24 * HOUR
    assert (each[first].unread_since_clock, each[second].unread_since_clock) == ("worker", "worker")
    assert whole.expires_from_ms == min(each[first].expires_from_ms or 0, each[second].expires_from_ms or 0)
    assert (whole.expires_unknown, warnings(rig)) == (0, [])


def test_what_nobody_knows_is_unknown(rig: Rig) -> None:
    rig.stream.retention_ms = lambda: None  # type: ignore[method-assign, assignment, return-value]
    rig.stream.put("a")
    rig.run("r1")
    whole, each = look(rig)
    assert (whole.retention_ms, whole.expires_from_ms, whole.expires_unknown) == (None, None, 1)
    assert [item.expires_from_ms for item in each.values()] == [None]


def test_a_shard_that_was_never_read_is_unknown_until_it_is_looked_at(rig: Rig) -> None:
    rig.claim("r1")
    assert (look(rig)[0].expires_from_ms, look(rig)[0].expires_unknown) == (None, 1)
    rig.over("r1")
    rig.run("r2")  # nothing was there
    whole, each = look(rig)
    assert (whole.expires_unknown, whole.millis_behind_latest) == (0, 0)
    assert [item.unread_since_clock for item in each.values()] == ["worker"]


def test_a_warning_counts_the_shards_that_it_does_not_name(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=7)
    for shard_id in rig.stream.shards:
        rig.stream.put("a", shard_id=shard_id)
    rig.run("r1")
    for shard_id in rig.stream.shards:
        rig.stream.put("b", shard_id=shard_id)
    time_passes(rig, 18.1)
    rig.claim("r2")
    (line,) = warnings(rig)
    assert "of 7 shards" in line
    assert line.count(" h (shardId-") == 5
    assert ") and 2 more. Read more" in line


def test_a_claim_warns_of_shards_of_which_little_of_the_retention_is_left(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    time_passes(rig, 17.9)
    rig.run("r2")
    assert warnings(rig) == []
    rig.stream.put("b")
    time_passes(rig, 18.1)
    rig.run("r3")
    (line,) = warnings(rig)
    assert f"5.9 h ({shard})" in line
    rig.run("r4")
    assert len(warnings(rig)) == 1


def test_an_interval_warns_of_nothing(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    time_passes(rig, 20)
    rig.claim("r2", scope="s", interval=Interval(rig.stream.now_ms - HOUR, rig.stream.now_ms))
    assert warnings(rig) == []


def test_a_shard_that_is_listed_is_never_given_up_by_a_clock(rig: Rig) -> None:
    """R16: it closed longer ago than 24 hours; the stream keeps records for longer and lists it still."""
    rig.stream.retention = timedelta(hours=48)
    (parent,) = rig.stream.shards
    sent = rig.stream.put("a", "b")
    rig.run("r1")
    sent += rig.stream.put("c")
    rig.stream.split(parent)
    time_passes(rig, 30)
    rig.run("r2")
    assert rig.committed() == sent
    assert look(rig)[1][parent].state == "completed"
    assert look(rig)[0].expires_unknown == 0


def test_a_checkpoint_older_than_the_retention_is_a_gap_with_its_range_and_times(rig: Rig) -> None:  # R50
    (shard,) = rig.stream.shards
    first, *_ = rig.stream.put("a", "lost")
    read_at = rig.stream.now_ms
    rig.stream.shards[shard].items.pop()
    rig.run("r1")
    time_passes(rig, 25)
    assert look(rig)[1][shard].expires_from_ms is not None
    rig.stream.trim(shard, keep=0)
    (left,) = rig.stream.put("c")
    found = rig.claim("r2")
    assert "0.0 h" in warnings(rig)[0]
    rig.land("r2", found)
    pending = rig.consumer().leases()[0].pending
    assert pending is not None
    assert pending.gaps
    assert (str(pending.gaps[0].after), pending.gaps[0].first_available) == (first, left)
    assert (pending.gaps[0].from_ms, pending.gaps[0].to_ms) == (read_at, rig.stream.now_ms)
    rig.over("r2")
    answer = rig.run("r3", policies=RECORD)
    assert (answer.records, answer.gaps) == (1, 1)  # what is left from the oldest on, never from the tip


def test_a_shard_that_left_the_listing_is_a_gap_only_if_it_was_not_read_to_its_end(rig: Rig) -> None:  # R102
    rig.stream = ScriptedStream(shards=2)
    read, unread = rig.stream.shards
    rig.stream.put("a", shard_id=read)
    rig.stream.put("b", shard_id=unread)
    rig.run("r1")
    rig.stream.split(read)
    rig.run("r2")
    rig.stream.put("c", shard_id=unread)
    rig.stream.split(unread)
    for shard_id in (read, unread):
        rig.stream.trim(shard_id, keep=0)
        rig.stream.forget(shard_id)
    answer = rig.run("r3", policies=RECORD)
    assert (answer.gaps, answer.completed) == (1, 1)
    (entry,) = [s for s in rig.manifest(answer.batch_id or "")["slices"] if s["gap"]]
    assert entry["shard_id"] == unread
    assert "left the stream" in entry["gap"]["reason"]
    assert (entry["gap"]["first_available"], entry["gap"]["from_ms"]) == (None, rig.stream.now_ms)
    assert rig.run("r4", policies=RECORD).gaps == 0


def gaps(rig: Rig, batch_id: str | None) -> set[str]:
    return {entry["shard_id"] for entry in rig.manifest(batch_id or "")["slices"] if entry["gap"]}


@pytest.mark.parametrize("listed", [True, False])
def test_records_of_a_child_that_expired_while_nobody_came_are_a_gap_of_the_child(rig: Rig, *, listed: bool) -> None:
    """Its row is new, its records need not be: they are younger than its parent's, and that is all that is known."""
    (parent,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    time_passes(rig, 20)
    low, high = rig.stream.split(parent)
    rig.stream.put("lost", shard_id=low)
    time_passes(rig, 30)
    for shard_id in (parent, low):
        rig.stream.trim(shard_id, keep=0)
    rig.stream.put("left", shard_id=low)
    if not listed:
        rig.stream.forget(parent)
    seen = look(rig)[1][parent].unread_since_ms
    answer = rig.run("r2", policies=RECORD)
    assert gaps(rig, answer.batch_id) == {parent, low, high}
    (gap,) = [s["gap"] for s in rig.manifest(answer.batch_id or "")["slices"] if s["shard_id"] == low]
    assert (gap["after"], gap["from_ms"], gap["to_ms"]) == ("TRIM_HORIZON", seen, rig.stream.now_ms)


def test_children_that_nobody_came_for_within_the_retention_have_no_gap(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    sent = rig.stream.put("a")
    rig.run("r1")
    time_passes(rig, 5)
    low, _ = rig.stream.split(parent)
    sent += rig.stream.put("b", shard_id=low)
    time_passes(rig, 18)
    answer = rig.run("r2")
    assert (answer.gaps, rig.committed()) == (0, sent)


@pytest.mark.parametrize("records", [("a",), ()])
def test_children_of_a_quiet_parent_that_ended_between_claim_and_read_have_no_gap(
    rig: Rig, records: tuple[str, ...]
) -> None:
    """Their rows are made once the parent's is completed: its last record is long gone, the last look at it is not."""
    rig.options["options"] = ClaimOptions(drain_lineage=False)
    (parent,) = rig.stream.shards
    rig.stream.put(*records)
    for number in range(10):
        rig.run(f"quiet{number}")
        time_passes(rig, 3)
    found = rig.claim("r1")
    low, _ = rig.stream.split(parent)
    rig.land("r1", found)
    assert rig.commit("r1", rig.freeze("r1")).completed == 1
    rig.over("r1")
    sent = rig.stream.put("b", shard_id=low)
    time_passes(rig, 20)
    assert rig.run("r2").batch_id is not None
    assert not [line for line in rig.said if "GAP" in line]
    assert rig.committed()[len(records) :] == sent


def test_a_late_look_at_a_parents_end_does_not_hide_what_expired_of_its_children(rig: Rig) -> None:
    rig.options["options"] = ClaimOptions(drain_lineage=False)
    (parent,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    found = rig.claim("r2")
    low, _ = rig.stream.split(parent)
    rig.stream.put("lost", shard_id=low)
    time_passes(rig, 23)
    rig.land("r2", found)  # sees the end of the parent, a day after it
    rig.commit("r2", rig.freeze("r2"))
    rig.over("r2")
    time_passes(rig, 2)
    rig.stream.trim(low, keep=0)
    rig.stream.put("left", shard_id=low)
    answer = rig.run("r3", policies=RECORD)
    assert low in gaps(rig, answer.batch_id)


@pytest.mark.parametrize("quiet", [True, False])
def test_a_child_that_a_late_read_makes_a_row_for_has_a_gap_if_its_parent_was_not_looked_at(
    rig: Rig, *, quiet: bool
) -> None:
    (parent,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    time_passes(rig, 30 if quiet else 0)
    rig.run("r2", policies=RECORD)
    found = rig.claim("r3")
    low, _ = rig.stream.split(parent)
    time_passes(rig, 0 if quiet else 30)
    rig.stream.put("left", shard_id=low)
    rig.land("r3", found, policies=RECORD)
    told = [line for line in rig.said if f"GAP in shard {low}" in line]
    assert bool(told) is not quiet


def test_a_child_that_is_younger_than_what_was_read_of_its_parent_has_no_gap(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    rig.stream.put("a", "lost")
    rig.stream.shards[parent].items.pop()
    rig.run("r1")
    time_passes(rig, 25)
    rig.stream.trim(parent, keep=0)
    rig.stream.put("b")  # the last of the parent, which is split just after it
    low, _ = rig.stream.split(parent)
    rig.stream.put("c", shard_id=low)
    time_passes(rig, 2)
    answer = rig.run("r2", policies=RECORD)
    assert (answer.records, gaps(rig, answer.batch_id)) == (2, {parent})


def test_a_shard_whose_whole_lineage_came_and_went_unseen_has_a_gap(rig: Rig) -> None:  # R07
    (parent,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    low, high = rig.stream.split(parent)
    lowest, low_rest = rig.stream.split(low)
    time_passes(rig, 50)
    for shard_id in (parent, low):
        rig.stream.forget(shard_id)
    sent = rig.stream.put("left", shard_id=lowest)
    answer = rig.run("r2", policies=RECORD)
    assert gaps(rig, answer.batch_id) == {parent, high, lowest, low_rest}
    assert rig.committed()[1:] == sent
