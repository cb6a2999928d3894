# SPDX-License-Identifier: Apache-2.0
"""Who may take a lease, what a lost lease does to a read, and gaps."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies, ShardErrors
from shardbatch.core.ports import Clock, Verdict
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE
from shardbatch.core.tables import columns_of_table
from shardbatch.errors import LeaseLost, SourceError, Starving, UnsupportedSchema
from shardbatch.run import Outcome, land
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_the_columns_are_those_that_are_documented() -> None:
    assert [column.name for column in columns_of_table(SHARD_LEASE)] == [
        "lease_owner", "lease_count", "checkpoint", "completed", "parent_shard_ids", "hash_range", "batch_id",
        "read_group", "pending", "checkpoint_arrival_ms", "millis_behind_latest", "caught_up_ms", "updated_at_ms",
        "note",
        "begins", "skipped", "staging", "committed_to", "tenure",
    ]  # fmt: skip  # K-17, K-25
    assert SHARD_LEASE.key == ("scope", "shard_id")
    assert (SHARD_LEASE.counter, BATCH.counter, APPLICATION.counter) == ("lease_count", "row_count", "row_count")


def foreign(rig: Rig) -> Lease:
    """A lease that another deployment's owner holds."""
    rig.stream.put("a")
    rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    return only(rig)


def test_a_foreign_lease_is_taken_after_it_stood_still_for_the_lease_duration(rig: Rig) -> None:
    held = foreign(rig)  # K-23, K-24, R46: whatever its owner meant to do with it
    began = rig.time.ms
    found = rig.claim("r2", options=ClaimOptions(lease_duration=timedelta(seconds=60)))
    assert found.outcome is Outcome.LEASES
    assert only(rig).lease_owner == str(rig.owner("r2"))
    assert only(rig).lease_count == held.lease_count + 1
    assert rig.time.ms - began >= 60_000


def test_a_foreign_lease_that_is_renewed_is_not_taken(rig: Rig) -> None:
    foreign(rig)
    consumer = rig.consumer()

    def renewing(seconds: float) -> None:
        rig.time.sleep(seconds)
        assert rig.store.replace(only(rig), leases.renew(only(rig), str(rig.owner("r1")), rig.time.ms))

    clock = replace(consumer.clock, sleep=renewing)
    found = rig.claim("r2", clock=clock)
    assert found.outcome is Outcome.HELD
    assert only(rig).lease_owner == str(rig.owner("r1"))


def test_another_machines_wall_clock_decides_nothing(rig: Rig) -> None:
    foreign(rig)
    ahead = leases.renew(only(rig), str(rig.owner("r1")), rig.time.ms - 10_000_000)
    assert rig.store.replace(only(rig), ahead)
    options = ClaimOptions(lease_duration=timedelta(seconds=60))
    began = rig.time.ms
    rig.claim("r2", options=options)
    assert rig.time.ms - began >= 60_000  # however old the row looks, it is watched for the whole time


def test_a_frozen_batch_of_another_deployment_is_not_adopted(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    rig.freeze("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    assert rig.claim("r2").outcome is Outcome.HELD
    assert rig.batches()[0].owner == str(rig.owner("r1"))


def test_a_question_that_fails_stops_the_claim_and_takes_nothing(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")

    def down(owner: str) -> Verdict:
        raise ConnectionError("the API server does not answer")

    with pytest.raises(ConnectionError):
        rig.claim("r2", liveness=down)
    assert only(rig).lease_owner == str(rig.owner("r1"))


def test_a_lost_lease_stops_the_read_and_nothing_is_stored(rig: Rig) -> None:
    rig.stream.put(*"abcdefgh")
    found = rig.claim("r1")
    consumer = rig.consumer()
    read = rig.stream.read

    def robbed(shard_id, position):
        for number, page in enumerate(read(shard_id, position)):
            if number == 1:  # another claimer takes the lease between two pages
                assert rig.store.replace(only(rig), leases.take(only(rig), "thief", None, rig.time.ms))
            yield page

    rig.stream.read = robbed  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):  # K-30
        land(consumer, rig.owner("r1"), found.groups[0].group, rig.stream.now_ms)
    assert only(rig).lease_owner == "thief"
    assert only(rig).pending is None
    assert not list(rig.folder.rglob("part-*"))


def test_a_shard_read_to_its_end_is_not_completed_before_the_commit(rig: Rig) -> None:
    rig.stream.put("a")
    rig.stream.split(next(iter(rig.stream.shards)))
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    assert not any(lease.completed for lease in rig.consumer().leases())  # K-33, R55
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert [lease.checkpoint for lease in rig.consumer().leases() if lease.completed] == [SHARD_END]


def test_a_run_that_finds_all_held_fails_once_records_have_waited_too_long(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("zombie")
    assert rig.claim("r2").outcome is Outcome.HELD
    rig.time.ms += 3_600_001
    with pytest.raises(Starving, match=r"records have waited for 3600 s.*zombie"):
        rig.claim("r3")


def test_a_quiet_stream_that_is_held_never_fails_a_run(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    rig.claim("zombie")
    rig.time.ms += 100 * 3_600_000
    assert rig.claim("r2").outcome is Outcome.HELD


def test_a_shard_that_cannot_be_read_is_left_out_and_the_others_go_on(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    bad, good = rig.stream.shards
    rig.stream.put("a", shard_id=bad)
    sent = rig.stream.put("b", shard_id=good)
    rig.stream.failing[bad] = SourceError("broken")
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    (landed,) = rig.land("r1", found)
    assert list(landed.errors) == [bad]
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert rig.committed() == sent
    rig.over("r1")
    rig.stream.failing.clear()
    assert rig.run("r2").records == 1


def test_with_shard_errors_fail_one_bad_shard_fails_the_read(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    rig.stream.failing[next(iter(rig.stream.shards))] = SourceError("broken")
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    with pytest.raises(SourceError, match="broken"):
        rig.land("r1", found, policies=Policies(shard_errors=ShardErrors.FAIL))


def test_a_read_in_which_every_shard_fails_fails(rig: Rig) -> None:
    rig.stream.failing[next(iter(rig.stream.shards))] = SourceError("broken")
    with pytest.raises(SourceError, match="broken"):
        rig.land("r1", rig.claim("r1"))


def expired(rig: Rig) -> str:
    """A shard of which an unread range expired; the first record that is left."""
    shard = next(iter(rig.stream.shards))
    rig.stream.put("a")
    rig.run("r1")
    rig.stream.put("b", "c")
    left = rig.stream.put("d")
    rig.stream.trim(shard, keep=1)
    rig.time.ms += int(rig.stream.retention.total_seconds() * 1000) + 1
    return left[0]


def test_records_that_expired_are_a_gap_and_what_is_left_waits_landed(rig: Rig) -> None:
    left = expired(rig)
    found = rig.claim("r2")
    rig.land("r2", found)
    frozen = rig.freeze("r2")
    assert frozen.batch_id is None
    assert frozen.waiting == (only(rig).shard_id,)
    pending = only(rig).pending
    assert pending is not None
    assert pending.gaps
    assert (str(pending.gaps[0].after), pending.gaps[0].first_available) == ("100", left)  # K-7


def test_under_the_record_policy_a_gap_goes_into_the_batch_and_is_counted(rig: Rig) -> None:
    left = expired(rig)
    answer = rig.run("r2", policies=Policies(gap=GapPolicy.RECORD))
    assert (answer.records, answer.gaps) == (1, 1)
    assert rig.committed()[-1:] == [left]


def test_a_trimmed_checkpoint_of_a_shard_that_was_caught_up_is_no_gap(rig: Rig) -> None:
    shard = next(iter(rig.stream.shards))
    rig.stream.put("a")
    rig.run("r1")
    for number in range(3):  # a quiet shard: its last record expires, run after run finds its tip
        rig.time.ms += int(rig.stream.retention.total_seconds() * 1000) // 2
        rig.run(f"quiet{number}")
    rig.stream.trim(shard, keep=0)
    sent = rig.stream.put("b")
    answer = rig.run("r2")
    assert answer.gaps == 0
    assert rig.committed()[-1:] == sent


def test_a_parent_that_left_the_stream_unread_becomes_a_gap_and_is_completed(rig: Rig) -> None:
    parent = next(iter(rig.stream.shards))
    rig.stream.put("a")
    rig.run("r1")
    rig.stream.put("b")
    rig.stream.split(parent)
    rig.stream.forget(parent)
    sent = rig.stream.put("c", "d")
    answer = rig.run("r2", policies=Policies(gap=GapPolicy.RECORD))
    assert answer.gaps == 1  # K-15, K-35
    assert answer.completed == 1
    rig.run("r3", policies=Policies(gap=GapPolicy.RECORD))
    assert sorted(rig.committed()[1:], key=int) == sent


def test_rows_of_a_later_schema_version_are_refused(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    (row,) = rig.store.list(APPLICATION, rig.consumer().namespace)
    later = replace(row, schema_version=3, row_count=row.counter + 1)  # type: ignore[type-var]
    assert rig.store.replace(row, later)
    with pytest.raises(UnsupportedSchema, match="schema version 3"):
        rig.claim("r2")


def test_a_batch_is_parked_after_its_attempts_and_its_shards_wait(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    rig.stream.put("a", shard_id=first)
    policies = Policies(max_attempts=2)
    rig.land("r1", rig.claim("r1", options=ClaimOptions(max_shards=1)))
    rig.freeze("r1")
    rig.over("r1")
    rig.freeze("r2", rig.claim("r2", policies=policies).batch_id)
    rig.over("r2")
    sent = rig.stream.put("b", shard_id=second)
    rig.run("r3", policies=policies)
    assert [batch.state for batch in rig.batches()] == [BatchState.PARKED, BatchState.COMMITTED]
    assert rig.committed() == sent


def test_the_duration_limit_leaves_the_rest_to_the_next_run(rig: Rig) -> None:
    rig.stream.page_size = 1
    sent = rig.stream.put(*"abcdef")

    ticks = iter(range(10_000))
    clock = Clock(rig.time.now_ms, lambda: float(next(ticks)), rig.time.sleep)
    rig.run("r1", limits=ReadLimits(duration=timedelta(seconds=6)), clock=clock)
    assert 0 < len(rig.committed()) < 6
    rig.run("r2")
    assert rig.committed() == sent
    assert only(rig).checkpoint > TRIM_HORIZON
