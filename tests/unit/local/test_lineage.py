# SPDX-License-Identifier: Apache-2.0
"""What stays true of shards however they are split and merged."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.unit.local.caller import Caller, Json, texts

HASH_END = 2**128 - 1


def ranges(caller: Caller) -> list[tuple[int, int]]:
    """Hash ranges of the open shards in order."""
    listed = caller.shards(ShardFilter={"Type": "AT_LATEST"})
    return sorted(
        (int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"])) for shard in listed
    )


def assert_covered(caller: Caller) -> None:
    """Open shards own every hash key exactly once."""  # KV-6
    edges = ranges(caller)
    assert edges[0][0] == 0
    assert edges[-1][1] == HASH_END
    assert all(low[1] + 1 == high[0] for low, high in itertools.pairwise(edges))


def assert_lineage(caller: Caller) -> None:
    """Every closed shard's range is handed over whole to younger shards that name it, and to no others."""
    shown = {shard["ShardId"]: shard for shard in caller.shards()}
    handed = {name: 0 for name, shard in shown.items() if "EndingSequenceNumber" in shard["SequenceNumberRange"]}

    def span(shard: Json) -> tuple[int, int]:
        return int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"]) + 1

    for name, shard in shown.items():
        for link in ("ParentShardId", "AdjacentParentShardId"):
            if link in shard:
                assert shard[link] < name
                (low, high), (start, end) = span(shard), span(shown[shard[link]])
                overlap = min(high, end) - max(low, start)
                assert overlap > 0
                handed[shard[link]] += overlap
    assert handed == {name: span(shown[name])[1] - span(shown[name])[0] for name in handed}


@pytest.mark.parametrize("counts", [(4, 2, 4, 3), (1, 2, 3, 5, 10, 7), (3, 3), (5, 9, 6)])
def test_shard_counts_change_by_splits_and_merges_that_keep_lineage_and_records(counts: tuple[int, ...]) -> None:
    caller = Caller()
    caller.create(shards=counts[0])
    sent = 0
    for count in counts[1:]:
        for number in range(20):
            caller.put(str(sent + number), key=f"key-{number}")
        sent += 20
        answer = caller.call("UpdateShardCount", StreamName="s", TargetShardCount=count, ScalingType="UNIFORM_SCALING")
        assert answer["TargetShardCount"] == count
        edges = ranges(caller)
        assert len(edges) == count
        assert_covered(caller)
        sizes = [high - low for low, high in edges]
        assert max(sizes) - min(sizes) <= 1
    assert_lineage(caller)
    read = [text for number in caller.shard_ids() for text in caller.read(number)]
    assert sorted(read, key=int) == [str(number) for number in range(sent)]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_to_the_shards_their_lineage_holds_every_record_once_and_in_order(seed: int) -> None:  # K-5
    chance = random.Random(seed)
    caller = Caller(end_with_records=seed % 2 == 0)
    caller.create(shards=chance.randint(1, 3))
    sent: dict[str, list[int]] = {}
    for step in range(60):
        key = f"key-{chance.randint(0, 9)}"
        caller.put(f"{key} {step}", key=key)
        sent.setdefault(key, []).append(step)
        reshard(caller, chance)
        caller.clock.advance(chance.random())
    assert_covered(caller)
    assert_lineage(caller)
    assert walk(caller) == sent


def reshard(caller: Caller, chance: random.Random) -> None:
    """Perhaps a split, a merge of two neighbours, or another shard count."""
    listed = caller.shards(ShardFilter={"Type": "AT_LATEST"})
    listed.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
    shards = [int(shard["ShardId"][-12:]) for shard in listed]
    what = chance.randint(0, 9)
    if what == 0 and len(shards) < 8:
        caller.split(chance.choice(shards))
    elif what == 1 and len(shards) > 1:
        low = chance.randrange(len(shards) - 1)
        caller.merge(shards[low], shards[low + 1])
    elif what == 2:
        count = chance.randint((len(shards) + 1) // 2, min(8, 2 * len(shards)))
        caller.call("UpdateShardCount", StreamName="s", TargetShardCount=count, ScalingType="UNIFORM_SCALING")


def walk(caller: Caller) -> dict[str, list[int]]:
    """What a reader finds that starts at the roots and goes on to children once all their parents have ended."""
    found: dict[str, list[int]] = {}
    waiting = caller.shard_ids(ShardFilter={"Type": "AT_TRIM_HORIZON"})
    ended: set[int] = set()
    known = set(waiting)
    while waiting:
        number = waiting.pop(0)
        answer = caller.get(caller.iterator(number), Limit=3)
        while True:
            for key, step in (text.split() for text in texts(answer)):
                found.setdefault(key, []).append(int(step))
            if "NextShardIterator" not in answer or not (answer["Records"] or answer["MillisBehindLatest"]):
                break
            answer = caller.get(answer["NextShardIterator"], Limit=3)
        if "NextShardIterator" in answer:
            continue
        ended.add(number)
        for child in answer["ChildShards"]:
            child_number = int(child["ShardId"][-12:])
            if child_number not in known and {int(name[-12:]) for name in child["ParentShards"]} <= ended:
                known.add(child_number)
                waiting.append(child_number)
    return found
