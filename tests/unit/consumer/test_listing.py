# SPDX-License-Identifier: Apache-2.0
"""Listings that lack something, and rows that somebody deleted: said, made good, never a silent stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardbatch.consumer import Outcome
from shardbatch.core.rows import SHARD_LEASE, Key
from shardbatch.core.shard import Shard
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

Tear = Callable[[Shard], bool]


class Torn(ScriptedStream):
    """A stream whose next listings lack what their ``tears`` say; all after those are whole."""

    tears: list[Tear]
    listings = 0

    def list_shards(self) -> list[Shard]:
        self.listings += 1
        tear = self.tears.pop(0) if self.tears else lambda shard: False
        return [shard for shard in super().list_shards() if not tear(shard)]


def rig_of(folder: Path, shards: int = 1, *tears: Tear) -> tuple[Rig, Torn]:
    stream = Torn(shards=shards)
    stream.tears = list(tears)
    return Rig(folder / "staging", stream), stream


def warned(rig: Rig, text: str) -> list[str]:
    return [line for line in rig.said if text in line]


def children(shard: Shard) -> bool:
    return bool(shard.parent_shard_ids)


def test_a_listing_torn_by_a_reshard_is_asked_for_again(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, 1, children)  # K-10, K-11, R23: closed parent without children
    parent = next(iter(stream.shards))
    sent = stream.put("a", "b") + stream.put("c")
    stream.split(parent)
    began = rig.time.ms
    rig.run("r1")
    assert rig.time.ms - began >= 1000
    assert len(rig.consumer().leases()) == 3
    assert sorted(rig.committed(), key=int) == sent
    assert not warned(rig, "no open shard covers")


def test_a_listing_that_stays_torn_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, 2, *[children] * 3)  # K-11, KV-6
    low, high = stream.shards
    stream.put(*"aa", shard_id=low)
    stream.put(*"bb", shard_id=high)
    left, right = stream.split(low)
    sent = stream.put("c", shard_id=left) + stream.put("d", shard_id=right)
    found = rig.claim("r1")
    assert (found.outcome, found.shards, stream.listings) == (Outcome.LEASES, 2, 3)
    (line,) = warned(rig, "no open shard covers")
    assert f"50.0000% of the hash keys: 0-{2**127 - 1}" in line
    assert f"{low} closed, and no child of theirs is listed" in line
    assert "Nothing is lost" in line
    stream.tears.clear()
    for run in ("r1", "r2"):
        rig.over(run)
        rig.run("next-" + run)
    assert set(sent) <= set(rig.committed())
    assert len(rig.committed()) == len(set(rig.committed())) == 6


def test_a_whole_listing_is_asked_for_once_and_nothing_is_waited_for(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, 3)
    rig.claim("r1")
    assert stream.listings == 1
    assert not warned(rig, "covers")


def test_a_source_without_hash_ranges_has_no_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, _ = rig_of(tmp_path)
    monkeypatch.setattr(Torn, "list_shards", lambda self: [Shard("a"), Shard("b")])
    assert rig.claim("r1").shards == 2
    assert not warned(rig, "covers")


def test_a_parent_that_one_listing_lacks_is_read_late_and_not_lost(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)  # K-10
    parent = next(iter(stream.shards))
    sent = stream.put("a", "b")
    for child in stream.split(parent):
        sent += stream.put("c", shard_id=child)
    stream.tears = [lambda shard: not shard.parent_shard_ids]
    rig.run("r1")
    assert sorted(rig.committed(), key=int) == sent[2:]
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sent
    assert len(warned(rig, f"{parent}: no lease row")) == 1


@pytest.mark.parametrize("which", ["a root", "a child", "the parent"])
def test_a_row_deleted_by_hand_is_reported_and_made_again(tmp_path: Path, which: str) -> None:
    rig, stream = rig_of(tmp_path, 2)  # R48
    first, other = stream.shards
    stream.put("a", "b", shard_id=first)
    low, high = stream.split(first)
    for shard_id in (other, low, high):
        stream.put("c", shard_id=shard_id)
    rig.run("r1")
    lost = {"a root": other, "a child": low, "the parent": first}[which]
    row = rig.store.get(Key(SHARD_LEASE, rig.consumer().namespace, ("", lost)))
    assert row is not None
    assert rig.store.delete(row)
    sent = [stream.put("d", shard_id=shard_id)[0] for shard_id in (other, low, high)]
    for run in ("r2", "r3"):
        rig.run(run)
    assert len(warned(rig, f"{lost}: no lease row")) == 1
    again = rig.consumer().lease(lost)
    assert again is not None
    assert again.lease_count != row.counter
    assert set(sent) <= set(rig.committed())
    assert rig.committed().count(sent[0]) == 1


def test_a_reshard_is_not_taken_for_deleted_rows(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    stream.put("a")
    rig.run("r1")
    low, _ = stream.split(next(iter(stream.shards)))
    stream.split(low)
    for run in ("r2", "r3", "r4"):
        rig.run(run)
    assert not warned(rig, "no lease row")
