# SPDX-License-Identifier: Apache-2.0
"""Two phases: a slice is prepared on its lease, and becomes the checkpoint when its batch is committed, or never.

Where a consumer of single records prepares and commits positions again and again, ours prepares once for a batch: what
another try or another owner finds prepared is its answer. Records are not acknowledged one by one: a batch is whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.errors import NothingFinished
from tests.support.passing import only
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_what_is_prepared_leaves_the_checkpoint_and_is_replaced_by_no_other(rig: Rig) -> None:  # KV-9, K-46
    sent = rig.stream.put("a", "b", "c")
    found = rig.claim("r1")
    rig.land("r1", found)
    prepared = only(rig).pending
    assert prepared is not None
    assert (only(rig).checkpoint, prepared.until) == (TRIM_HORIZON, after(sent[-1]))
    rig.stream.put("d")
    rig.land("r1", found)  # a second prepare
    assert only(rig).pending == prepared
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert (only(rig).checkpoint, only(rig).pending) == (after(sent[-1]), None)


def test_the_next_owner_is_handed_what_is_prepared(rig: Rig) -> None:  # KV-9, K-46
    sent = rig.stream.put("a", "b", "c")
    rig.land("r1", rig.claim("r1"))
    rig.over("r1")
    rig.stream.put("d")
    rig.run("r2")
    assert rig.committed() == sent
    assert len(rig.stream.reads) == 1


def test_nothing_is_prepared_where_nothing_was_read(rig: Rig) -> None:  # KV-9, K-46, R83
    rig.stream.put("a")
    rig.run("r1")
    before = only(rig).checkpoint
    found = rig.claim("r2")
    rig.land("r2", found)
    assert (only(rig).pending, only(rig).checkpoint) == (None, before)
    answer = rig.commit("r2", rig.freeze("r2"))  # a success
    assert (answer.batch_id, answer.records, only(rig).checkpoint) == (None, 0, before)


def test_a_commit_that_comes_late_moves_no_checkpoint_back(rig: Rig) -> None:  # KV-9
    rig.stream.put("a")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    (last,) = rig.stream.put("b")
    rig.over("r1")
    rig.run("r2")
    rig.commit("r1", frozen)
    assert only(rig).checkpoint == after(last)


def test_the_checkpoint_is_the_last_record_in_the_streams_order(rig: Rig) -> None:  # KV-14, K-41, K-4
    rig.stream._next_sequence = 9
    rig.stream.put("a", "b")
    rig.stream._next_sequence = 100
    rig.stream.put("c")
    rig.run("r1")
    assert rig.committed() == ["9", "10", "100"]
    assert only(rig).checkpoint == after("100")  # as texts, 9 is the largest


def test_work_that_fails_has_the_whole_batch_again_in_order_and_moves_nothing(rig: Rig) -> None:  # KV-14, K-41, R59
    sent = rig.stream.put(*"abcde")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    with pytest.raises(NothingFinished):
        rig.commit("r1", frozen)
    assert only(rig).checkpoint == TRIM_HORIZON
    again = rig.freeze("r1", frozen.batch_id)
    assert (again.attempt, rig.records(again.batch_id or "")) == (2, sent)
    rig.work(again)
    rig.commit("r1", again)
    assert only(rig).checkpoint == after(sent[-1])


def test_a_closed_shard_whose_checkpoint_is_its_last_record_still_ends(rig: Rig) -> None:  # K-36, R03
    rig.stream.put("a")
    rig.run("r1")
    (parent,) = rig.stream.shards
    rig.stream.split(parent)
    rig.run("r2")
    assert [row.completed for row in rig.consumer().leases() if row.shard_id == parent] == [True]


def test_children_begin_at_their_oldest_record_once_both_parents_are_in_the_table(rig: Rig) -> None:  # K-37
    (parent,) = rig.stream.shards
    rig.run("r1")
    left, right = rig.stream.split(parent)
    sent = rig.stream.put("a", "b")
    child = rig.stream.merge(left, right)
    sent += rig.stream.put("c")
    rig.run("r2")
    assert rig.consumer().lease(child) is not None
    assert sorted(rig.committed(), key=int) == sent
