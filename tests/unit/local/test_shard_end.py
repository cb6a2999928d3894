# SPDX-License-Identifier: Apache-2.0
"""The end of a closed shard, and the pages before it."""

from __future__ import annotations

import pytest

from tests.unit.local.caller import Caller, shard_id, texts

HASH_END = 2**128 - 1


def test_a_closed_shard_ends_with_its_last_records_and_names_its_children() -> None:  # K-34, KV-7
    caller = Caller()
    caller.create()
    caller.put("a", "b")
    iterator = caller.iterator()
    caller.split(0)
    first = caller.get(iterator, Limit=1)
    assert "ChildShards" not in first
    last = caller.get(first["NextShardIterator"])
    assert (texts(last), "NextShardIterator" in last) == (["b"], False)
    assert last["MillisBehindLatest"] == 0
    assert last["ChildShards"] == [
        {
            "ShardId": shard_id(number),
            "ParentShards": [shard_id(0)],
            "HashKeyRange": {"StartingHashKey": start, "EndingHashKey": end},
        }
        for number, start, end in ((1, "0", str(2**127 - 1)), (2, str(2**127), str(HASH_END)))
    ]


def test_by_option_a_closed_shard_ends_one_empty_answer_later() -> None:  # KV-7
    caller = Caller(end_with_records=False)
    caller.create()
    caller.put("a")
    caller.split(0)
    first = caller.get(caller.iterator())
    assert (texts(first), "ChildShards" in first) == (["a"], False)
    last = caller.get(first["NextShardIterator"])
    assert (texts(last), "NextShardIterator" in last) == ([], False)
    assert [child["ShardId"] for child in last["ChildShards"]] == [shard_id(1), shard_id(2)]


def test_by_option_the_end_names_no_children() -> None:
    caller = Caller(name_children=False)
    caller.create()
    caller.split(0)
    assert caller.get(caller.iterator()) == {"Records": [], "MillisBehindLatest": 0}


def test_the_end_of_a_merged_shard_names_both_parents_of_the_child() -> None:
    caller = Caller()
    caller.create(shards=2)
    caller.merge(0, 1)
    for number in (0, 1):
        children = caller.get(caller.iterator(number))["ChildShards"]
        assert [child["ParentShards"] for child in children] == [[shard_id(0), shard_id(1)]]


@pytest.mark.parametrize("later", [True, False])
def test_a_closed_shard_read_from_its_end_ends_at_once(later: bool) -> None:  # K-36, R03
    caller = Caller(end_with_records=not later)
    caller.create()
    number = caller.put("a")[0]["SequenceNumber"]
    caller.split(0)
    ending = caller.shards()[0]["SequenceNumberRange"]["EndingSequenceNumber"]
    for iterator in (
        caller.iterator(0, "LATEST"),
        caller.iterator(0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number),
        caller.iterator(0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=ending),
        caller.iterator(0, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=ending),
    ):
        answer = caller.get(iterator)
        assert (answer["Records"], "NextShardIterator" in answer) == ([], False)


def test_an_empty_closed_chain_ends_generation_by_generation() -> None:  # R08
    caller = Caller()
    caller.create()
    caller.split(0)
    caller.merge(1, 2)
    assert [child["ShardId"] for child in caller.get(caller.iterator(0))["ChildShards"]] == [shard_id(1), shard_id(2)]
    assert [child["ShardId"] for child in caller.get(caller.iterator(1))["ChildShards"]] == [shard_id(3)]
    assert "NextShardIterator" in caller.get(caller.iterator(3))


def test_empty_pages_before_the_records_must_be_followed() -> None:  # R31, TR-5
    caller = Caller(empty_pages=2)
    caller.create()
    caller.put("a")
    caller.clock.advance(5)
    iterator = caller.iterator()
    assert texts(caller.get(iterator)) == texts(caller.get(iterator)) == []
    for expected in ([], [], ["a"]):
        answer = caller.get(iterator)
        assert texts(answer) == expected
        assert answer["MillisBehindLatest"] == (0 if expected else 5000)
        iterator = answer["NextShardIterator"]


def test_forgotten_shards_leave_the_listing_and_their_children_stay() -> None:  # K-13, R07
    caller = Caller()
    caller.create()
    caller.split(0)
    iterator = caller.iterator(0)
    stream = caller.engine.find(caller.engine.home(), "s")
    caller.api.records.trim(stream, shard_id(0), forget=True)
    assert [shard.get("ParentShardId") for shard in caller.shards()] == [shard_id(0)] * 2
    assert caller.refused("GetRecords", ShardIterator=iterator) == "ResourceNotFoundException"  # K-35
