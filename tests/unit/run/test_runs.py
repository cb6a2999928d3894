# SPDX-License-Identifier: Apache-2.0
"""Whole runs of an application on a scripted stream: what they commit, in which order, and what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, after
from shardbatch.core.start import Work
from shardbatch.errors import LeaseLost, NothingFinished, StreamRecreated
from shardbatch.run import Outcome
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def lease(rig: Rig, shard_id: str):
    found = rig.consumer().lease(shard_id)
    assert found is not None
    return found


def test_every_record_is_in_exactly_one_committed_batch(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=4)
    sent = rig.stream.put(*"abcdefghij")
    first = rig.run("r1")
    sent += rig.stream.put(*"klmnop")
    rig.run("r2")
    assert first.newly
    assert first.records == 10
    assert sorted(rig.committed(), key=int) == sent
    assert rig.sink() == sent


def test_a_run_with_no_new_records_commits_nothing_and_frees_its_leases(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    answer = rig.run("r2")
    assert answer.batch_id is None
    assert all(row.lease_owner is None for row in rig.consumer().leases())
    assert len(rig.batches()) == 1  # R11


def test_records_that_arrive_after_a_lag_of_zero_are_read_by_the_next_run(rig: Rig) -> None:
    rig.stream.put("a", "b", "c")
    rig.run("r1")  # R33: the page shows records and no lag at once
    sent = rig.stream.put("d")
    rig.run("r2")  # R34
    assert rig.committed()[-1:] == sent


def test_children_follow_their_parents_in_the_same_run(rig: Rig) -> None:
    parent = next(iter(rig.stream.shards))
    old = rig.stream.put("a", "b")
    rig.stream.split(parent)
    new = rig.stream.put("a", "b", "c", "d")
    answer = rig.run("r1")
    assert answer.records == 6
    assert answer.completed == 1
    assert rig.committed()[:2] == old
    assert sorted(rig.committed()[2:], key=int) == new
    assert lease(rig, parent).checkpoint == SHARD_END


def test_without_drain_lineage_one_batch_holds_one_generation(rig: Rig) -> None:
    rig.options["options"] = ClaimOptions(drain_lineage=False)
    rig.stream.put("a")
    rig.stream.split(next(iter(rig.stream.shards)))
    rig.stream.put("a", "b", "c")
    assert rig.run("r1").records == 1
    assert rig.run("r2").records == 3


def test_a_merge_child_waits_for_both_parents(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    left, right = rig.stream.shards
    rig.stream.put("a", shard_id=left)
    rig.stream.put("b", "c", shard_id=right)
    child = rig.stream.merge(left, right)
    rig.stream.put("x", "y")
    options = ClaimOptions(max_shards=1)
    assert rig.run("r1", options=options).records == 1
    assert child not in {row.shard_id for row in rig.consumer().leases() if row.completed}
    assert [shard for shard, _ in rig.stream.reads] == [left]
    answer = rig.run("r2", options=options)  # the right parent and then, in the same run, the child
    assert answer.records == 4
    assert len(rig.committed()) == 5


def test_a_closed_empty_shard_completes_without_spark_and_releases_its_children(rig: Rig) -> None:
    parent = next(iter(rig.stream.shards))  # R08, K-16
    rig.stream.split(parent)
    answer = rig.run("r1")
    assert answer.newly
    assert answer.records == 0
    assert lease(rig, parent).completed
    sent = rig.stream.put("a")
    rig.run("r2")
    assert rig.committed() == sent


def test_a_shard_that_closes_after_its_last_record_was_committed_completes(rig: Rig) -> None:
    parent = next(iter(rig.stream.shards))
    rig.stream.put("a")
    rig.run("r1")
    rig.stream.split(parent)
    answer = rig.run("r2")  # R03, K-36
    assert answer.completed == 1
    assert answer.records == 0
    assert lease(rig, parent).checkpoint == SHARD_END


def test_a_closed_shard_with_retained_records_is_delivered_once(rig: Rig) -> None:
    parent = next(iter(rig.stream.shards))
    sent = rig.stream.put(*"abcde")
    rig.stream.split(parent)
    rig.run("r1")  # R09
    rig.run("r2")
    assert rig.committed() == sent


def test_a_child_whose_parent_left_the_listing_is_claimed(rig: Rig) -> None:
    parent = next(iter(rig.stream.shards))
    rig.stream.split(parent)
    rig.stream.forget(parent)
    sent = rig.stream.put("a", "b")
    rig.run("r1")  # R07, K-13
    assert sorted(rig.committed(), key=int) == sent


def test_latest_is_resolved_once_and_children_begin_at_their_oldest_record(rig: Rig) -> None:
    rig.stream.put("old")
    rig.stream.now_ms += 1
    parent = next(iter(rig.stream.shards))
    assert rig.run("r1", start=LATEST).records == 0
    rig.stream.now_ms += 10
    wanted = rig.stream.put("a")  # R24
    rig.stream.split(parent)
    wanted += rig.stream.put("b", "c", "d")
    rig.run("r2", start=LATEST)  # R12, R13
    assert sorted(rig.committed(), key=int) == wanted


def test_a_child_goes_on_from_where_an_earlier_run_committed_it(rig: Rig) -> None:
    rig.stream.split(next(iter(rig.stream.shards)))
    rig.stream.put("a", "b", "c")
    rig.run("r1")
    sent = rig.stream.put("d")
    rig.run("r2")  # R18
    assert rig.committed()[-1:] == sent
    assert len(rig.committed()) == 4


def test_the_record_limit_ends_a_batch_and_the_next_run_goes_on(rig: Rig) -> None:
    rig.stream.page_size = 2
    sent = rig.stream.put(*"abcdefg")
    limits = ReadLimits(records=3)
    assert rig.run("r1", limits=limits).records == 4  # pages are not cut
    rig.run("r2", limits=limits)
    assert rig.committed() == sent


def test_a_retried_read_answers_with_the_slice_that_is_stored(rig: Rig) -> None:
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    rig.stream.put("c")
    again = rig.land("r1", found)
    assert sum(task.records for task in again) == 2
    assert len(rig.stream.reads) == 1


def test_a_cleared_claim_answers_with_the_same_leases(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=5)
    rig.stream.put(*"abcdefgh")
    found = rig.claim("r1", options=ClaimOptions(read_tasks=2))
    assert rig.claim("r1", options=ClaimOptions(read_tasks=2)) == found


def test_nothing_moves_until_work_has_finished(rig: Rig) -> None:
    rig.stream.put("a")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    with pytest.raises(NothingFinished, match="nothing is committed"):
        rig.commit("r1", frozen)
    assert lease(rig, next(iter(rig.stream.shards))).checkpoint == TRIM_HORIZON


def test_a_failed_run_is_taken_over_with_the_same_bytes(rig: Rig) -> None:
    sent = rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.stream.put("c")
    rig.over("r1")
    again = rig.claim("r2")
    assert again.outcome is Outcome.ADOPTED
    assert again.groups == ()
    reopened = rig.freeze("r2", again.batch_id)
    assert (reopened.batch_id, reopened.attempt) == (frozen.batch_id, 2)
    assert rig.records(frozen.batch_id or "") == sent
    rig.work(reopened)
    rig.commit("r2", reopened)
    with pytest.raises(LeaseLost):
        rig.freeze("r1", frozen.batch_id)


def test_a_cleared_run_replays_its_committed_batch_and_moves_no_checkpoint(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    rig.stream.put("b")
    before = lease(rig, next(iter(rig.stream.shards)))
    found = rig.claim("r1")
    assert found.outcome is Outcome.REPLAY
    frozen = rig.freeze("r1", found.batch_id)
    assert frozen.replay
    rig.work(frozen)
    answer = rig.commit("r1", frozen)
    assert (answer.newly, answer.replayed, answer.decided) == (False, True, 2)
    assert lease(rig, before.shard_id) == before
    assert len(rig.sink()) == 1


def test_leases_of_an_active_run_are_not_taken(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    found = rig.claim("r2")
    assert found.outcome is Outcome.HELD
    assert "leased by here/dag/r1" in found.held[0]


def test_a_recreated_stream_fails_and_names_both_identities(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    rig.stream.created_ms = 2
    with pytest.raises(StreamRecreated, match=r"@2.*@1"):  # R49
        rig.claim("r2")


def test_two_applications_on_one_stream_have_their_own_checkpoints(rig: Rig, tmp_path: Path) -> None:
    from dataclasses import replace

    from shardbatch.core.rows import Namespace

    rig.stream.put("a")
    rig.run("r1")
    other = replace(rig.consumer(), namespace=Namespace("other", rig.stream.name))
    assert other.leases() == []  # R54
    assert rig.consumer().leases()[0].checkpoint == after("100")


def test_an_interval_run_reads_its_span_beside_the_live_application(rig: Rig) -> None:
    from dataclasses import replace as changed

    from shardbatch.core.interval import Interval
    from shardbatch.run import claim, commit, freeze, land

    rig.stream.put("before")
    rig.stream.now_ms += 10
    wanted = rig.stream.put("a", "b")
    begin = rig.stream.now_ms
    rig.stream.now_ms += 100_000
    rig.stream.put("after")
    rig.run("live")
    live = rig.consumer().leases()
    owner = changed(rig.owner("backfill"), mode="interval")
    span = Interval(begin, begin + 1)
    consumer = rig.consumer(scope=owner.scope, interval=span, limits=ReadLimits(records=1))
    rig.stream.put("later")
    found = claim(consumer, owner)
    for group in found.groups:
        land(consumer, owner, group.group, rig.stream.now_ms)
    frozen = freeze(consumer, owner)
    assert rig.records(frozen.batch_id or "") == wanted
    rig.work(frozen)
    assert commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")]).newly
    assert rig.consumer().leases() == live
    assert consumer.leases() == []
    assert claim(consumer, owner).outcome is Outcome.REPLAY  # cleared: the same batch, never new records
