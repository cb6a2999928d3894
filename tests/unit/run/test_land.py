# SPDX-License-Identifier: Apache-2.0
"""A read task: what it lands of its group, what it counts, and what one bad shard does to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.policies import Policies, ShardErrors
from shardbatch.core.position import after
from shardbatch.errors import LeaseLost, SourceError, StreamRecreated
from shardbatch.run import Claim, land
from shardbatch.run.land import Landed
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    for shard_id in made.stream.shards:
        made.stream.put("a", "b", shard_id=shard_id)
    return made


def shards(rig: Rig) -> tuple[str, str]:
    first, second = rig.stream.shards
    return first, second


def landed(rig: Rig, found: Claim, **changes: object) -> Landed:
    (group,) = found.groups
    return land(rig.consumer(**changes), rig.owner("r1"), group.group, rig.stream.now_ms + 1)


def test_each_slice_stands_on_its_lease_with_its_files_in_staging(rig: Rig) -> None:
    (done,) = rig.land("r1", rig.claim("r1"))
    assert (done.records, done.shards, done.ended, done.errors) == (4, 2, 0, {})
    for row in rig.consumer().leases():
        assert row.pending is not None
        last = rig.stream.shards[row.shard_id].items[-1]
        assert (row.pending.records, row.pending.until) == (2, after(str(last.sequence_number)))
        assert row.staging == rig.consumer().landing.uri
        assert all((rig.folder / file.path).stat().st_size == file.bytes for file in row.pending.files)
        assert sum(file.records for file in row.pending.files) == 2


def test_a_shard_that_is_landed_already_is_counted_and_not_read_again(rig: Rig) -> None:
    found = rig.claim("r1")
    (first,) = rig.land("r1", found)
    reads = len(rig.stream.reads)
    (again,) = rig.land("r1", found)
    assert (again.records, again.shards) == (first.records, first.shards)
    assert len(rig.stream.reads) == reads


def test_children_of_a_shard_that_ends_follow_in_the_same_task(rig: Rig) -> None:
    parent, _ = shards(rig)
    found = rig.claim("r1")
    low, _ = rig.stream.split(parent)
    rig.stream.put("c", shard_id=low)
    (done,) = rig.land("r1", found)
    assert (done.records, done.ended) == (5, 1)
    assert {row.shard_id for row in rig.consumer().leases() if row.pending} >= {parent, low}


def test_one_bad_shard_is_named_and_the_others_are_landed(rig: Rig) -> None:
    bad, good = shards(rig)
    rig.stream.failing[bad] = SourceError("refused")
    (done,) = rig.land("r1", rig.claim("r1"))
    assert (done.records, list(done.errors)) == (2, [bad])
    assert "refused" in done.errors[bad]
    assert [row.shard_id for row in rig.consumer().leases() if row.pending] == [good]


def test_under_shard_errors_fail_the_task_fails_once_the_others_are_landed(rig: Rig) -> None:
    bad, _ = shards(rig)
    found = rig.claim("r1")
    rig.stream.failing[bad] = SourceError("refused")
    with pytest.raises(SourceError, match="refused"):
        landed(rig, found, policies=Policies(shard_errors=ShardErrors.FAIL))
    rows = {row.shard_id: row for row in rig.consumer().leases()}
    assert rows[bad].pending is None
    assert rows[bad].lease_owner == str(rig.owner("r1"))  # a retry reads it


def test_a_task_that_cannot_read_any_shard_fails(rig: Rig) -> None:
    found = rig.claim("r1")
    for shard_id in shards(rig):
        rig.stream.failing[shard_id] = SourceError("refused")
    with pytest.raises(SourceError, match="refused"):
        landed(rig, found)


def replaced(rig: Rig) -> None:
    """The stream is another one, which has no shard of the old one."""
    rig.stream.created_ms += 1
    for shard_id in rig.stream.shards:
        rig.stream.forget(shard_id)


def test_shards_that_another_stream_lacks_have_not_left_it(rig: Rig) -> None:  # W11
    found = rig.claim("r1")
    replaced(rig)
    with pytest.raises(StreamRecreated, match="belong to"):
        landed(rig, found)
    assert [row.pending for row in rig.consumer().leases()] == [None, None]
    assert not any("GAP" in line for line in rig.said)


def test_what_was_landed_before_the_stream_was_replaced_is_kept(rig: Rig) -> None:  # W11
    bad, good = shards(rig)
    found = rig.claim("r1")
    rig.stream.failing[bad] = SourceError("not today")
    landed(rig, found)
    rig.stream.failing.clear()
    replaced(rig)
    done = landed(rig, found)
    assert (done.records, list(done.errors)) == (2, [bad])
    assert "belong to" in done.errors[bad]
    assert [row.shard_id for row in rig.consumer().leases() if row.pending is not None] == [good]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_task_asks_which_stream_it_is_once_and_only_for_shards_that_seem_gone(  # W11
    rig: Rig, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    found, asked, identity = rig.claim("r1"), [], rig.stream.identity
    for shard_id in shards(rig)[:gone]:
        rig.stream.forget(shard_id)
    monkeypatch.setattr(rig.stream, "identity", lambda: asked.append(1) or identity())
    assert landed(rig, found).gaps == gone
    assert len(asked) == min(gone, 1)


def test_a_task_whose_leases_are_gone_is_told_so(rig: Rig) -> None:
    found = rig.claim("r1")
    rig.over("r1")
    rig.claim("r2")
    with pytest.raises(LeaseLost):
        landed(rig, found)
