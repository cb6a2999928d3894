# SPDX-License-Identifier: Apache-2.0
"""Listings that lack something, and rows that somebody deleted: said, made good, never a silent stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.rows import SHARD_LEASE, Key
from shardbatch.core.shard import Shard
from shardbatch.errors import InvalidAnswer
from shardbatch.run import Outcome, claim
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


def in_order(rig: Rig) -> bool:
    """Whether every shard's records come after those of its parents, in batches and in their manifests."""
    place = {number: at for at, number in enumerate(rig.committed())}
    for shard in rig.stream.shards.values():
        own = [place[str(item.sequence_number)] for item in shard.items if str(item.sequence_number) in place]
        above = [
            place[str(item.sequence_number)]
            for parent in shard.parents
            for item in rig.stream.shards[parent].items
            if str(item.sequence_number) in place
        ]
        if own and above and min(own) < max(above):
            return False
    return True


def test_a_parent_that_the_first_listing_of_all_lacks_is_read_before_its_children(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)  # K-10
    parent = next(iter(stream.shards))
    sent = stream.put("a", "b")
    for child in stream.split(parent):
        sent += stream.put("c", shard_id=child)
    stream.tears = [lambda shard: not shard.parent_shard_ids]
    rig.run("r1")
    assert sorted(rig.committed(), key=int) == sent
    assert in_order(rig)
    assert not warned(rig, "no lease row")


def two_generations(rig: Rig) -> tuple[str, str, list[str]]:
    """After a first run the shard is split and its low child is split again: the child and a grandchild. Runs read one
    generation only."""
    rig.options["options"] = ClaimOptions(drain_lineage=False)
    stream = rig.stream
    first = next(iter(stream.shards))
    sent = stream.put("a", shard_id=first)
    rig.run("r0")
    low, high = stream.split(first)
    sent += stream.put("b", shard_id=low) + stream.put("c", shard_id=high)
    below, beside = stream.split(low)
    sent += stream.put("d", shard_id=below) + stream.put("e", shard_id=beside)
    return low, below, sent


@pytest.mark.parametrize("torn", [1, 2, 3])
def test_a_closed_parent_that_listings_lack_is_read_before_its_children(tmp_path: Path, torn: int) -> None:
    """Its children came after the last claim, so neither they nor their parent have a row."""
    rig, stream = rig_of(tmp_path)
    low, _, sent = two_generations(rig)
    stream.tears = [lambda shard: shard.shard_id == low] * torn
    for number in range(4):
        rig.run(f"r1.{number}")
    assert sorted(rig.committed(), key=int) == sent
    # two listings in a row that are complete and lack it say that it has expired: there nobody can know better
    assert in_order(rig) == (torn == 1)


def test_children_whose_parent_has_expired_are_read_after_two_listings(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    low, _, sent = two_generations(rig)
    lost = {str(item.sequence_number) for item in stream.shards[low].items}
    stream.forget(next(iter(stream.shards)))
    stream.forget(low)
    before = stream.listings
    rig.run("r1", policies=Policies(gap=GapPolicy.RECORD))
    assert stream.listings - before == 2
    rig.run("r2", policies=Policies(gap=GapPolicy.RECORD))
    assert set(rig.committed()) == set(sent) - lost
    before = stream.listings
    rig.run("r3")
    assert stream.listings - before == 1  # what is begun needs no second look


def test_children_wait_while_the_listing_that_lacks_their_parent_has_holes(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    low, below, sent = two_generations(rig)
    stream.split(next(name for name in stream.shards if name not in (low, below) and not stream.shards[name].closed))
    lacking = [lambda shard: shard.shard_id == low or int(shard.shard_id.rpartition("-")[2]) >= 5] * 4
    stream.tears = list(lacking)
    rig.run("r1")
    assert rig.consumer().lease(below) is None
    assert warned(rig, "wait for a complete listing")
    for run in ("r2", "r3"):
        rig.run(run)
    assert sorted(rig.committed(), key=int) == sent
    assert in_order(rig)


def test_a_child_that_has_a_row_waits_for_a_parent_that_has_none_and_that_one_listing_lacks(tmp_path: Path) -> None:
    """A claim makes the rows of children first, and may die before those of their parents."""
    rig, stream = rig_of(tmp_path)
    low, below, sent = two_generations(rig)
    rig.claim("r1")
    rig.over("r1")
    row = rig.store.get(Key(SHARD_LEASE, rig.consumer().namespace, ("", low)))
    assert row is not None
    assert rig.store.delete(row)
    assert rig.consumer().lease(below) is not None
    stream.tears = [lambda shard: shard.shard_id == low]
    for run in ("r2", "r3", "r4"):
        rig.run(run)
    assert sorted(rig.committed(), key=int) == sent
    assert in_order(rig)


@pytest.mark.parametrize("hole", [False, True])
def test_a_read_goes_on_with_no_child_whose_other_parent_one_listing_lacks(tmp_path: Path, hole: bool) -> None:
    rig, stream = rig_of(tmp_path, 2)
    left, right = stream.shards
    found = rig.claim("r1", options=ClaimOptions(max_shards=1))  # the other one is left to the next run
    assert found.shards == 1
    sent = stream.put("a", shard_id=left)
    near, far = stream.split(right)
    sent += stream.put("b", shard_id=near)
    merged = stream.merge(left, near)
    sent += stream.put("c", shard_id=merged)
    tear: Tear = lambda shard: shard.shard_id == near or (hole and shard.shard_id == far)  # noqa: E731
    stream.tears = [tear, tear] if hole else [tear]
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.over("r1")
    stream.tears.clear()
    for run in ("r2", "r3"):
        rig.run(run)
    assert sorted(rig.committed(), key=int) == sent
    assert in_order(rig)


def test_an_interval_is_not_claimed_by_a_listing_that_stays_torn(tmp_path: Path) -> None:
    """No later listing would make it good: its side leases are those of one claim."""
    rig, stream = rig_of(tmp_path)
    stream.put("a")
    stream.split(next(iter(stream.shards)))
    stream.tears = [children] * 3
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(stream.now_ms - 1000, stream.now_ms + 1)
    rig.time.ms = stream.now_ms = stream.now_ms + 100_000
    consumer = rig.consumer(scope=owner.scope, interval=span)
    with pytest.raises(InvalidAnswer, match="no open shard covers"):
        claim(consumer, owner)
    claim(consumer, owner)
    assert len(consumer.leases()) == 3


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
