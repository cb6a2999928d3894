# SPDX-License-Identifier: Apache-2.0
"""Listings of shards: pages, tokens, filters, and the faults of listings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.caller import NOW, Caller, shard_id

DAY = 86_400


def resharded() -> Caller:
    """At 0 s two shards; at 100 s shard 0 splits into 2 and 3; at 200 s 2 and 3 merge into 4."""
    caller = Caller()
    caller.create(shards=2)
    caller.clock.advance(100)
    caller.split(0)
    caller.clock.advance(100)
    caller.merge(2, 3)
    caller.clock.advance(100)
    return caller


def test_pages_are_followed_by_token_alone() -> None:  # K-8, R19
    caller = Caller()
    caller.create(shards=5)
    seen: list[str] = []
    page = caller.call("ListShards", StreamName="s", MaxResults=2)
    while True:
        seen += [shard["ShardId"] for shard in page["Shards"]]
        if "NextToken" not in page:
            break
        page = caller.call("ListShards", NextToken=page["NextToken"], MaxResults=2)
    assert seen == [shard_id(number) for number in range(5)]


@pytest.mark.parametrize(
    "beside",
    [
        {"StreamName": "s"},
        {"StreamCreationTimestamp": NOW},
        {"ExclusiveStartShardId": shard_id(0)},
        {"ShardFilter": {"Type": "AT_LATEST"}},
    ],
)
def test_a_token_is_exclusive(beside: dict[str, Any]) -> None:  # R19
    caller = Caller()
    caller.create(shards=2)
    token = caller.call("ListShards", StreamName="s", MaxResults=1)["NextToken"]
    assert caller.refused("ListShards", NextToken=token, **beside) == "InvalidArgumentException"


def test_a_token_expires_after_300_seconds() -> None:
    caller = Caller()
    caller.create(shards=2)
    token = caller.call("ListShards", StreamName="s", MaxResults=1)["NextToken"]
    caller.clock.advance(300)
    assert len(caller.call("ListShards", NextToken=token)["Shards"]) == 1
    caller.clock.advance(1)
    assert caller.refused("ListShards", NextToken=token) == "ExpiredNextTokenException"


@pytest.mark.parametrize("token", ["x", "bm9uZXNlbnNl", "é", "A" * 600])
def test_a_bad_token_is_an_error(token: str) -> None:
    caller = Caller()
    caller.create()
    assert caller.refused("ListShards", NextToken=token) == "InvalidArgumentException"
    assert caller.refused("ListShards", NextToken=caller.iterator()) == "InvalidArgumentException"


def test_a_page_has_at_most_1000_shards_and_a_description_100() -> None:  # R19, R20
    caller = Caller()
    caller.create(shards=2500)
    page = caller.call("ListShards", StreamName="s", MaxResults=10_000)
    sizes = [len(page["Shards"])]
    while "NextToken" in page:
        page = caller.call("ListShards", NextToken=page["NextToken"])
        sizes.append(len(page["Shards"]))
    assert sizes == [1000, 1000, 500]
    description = caller.call("DescribeStream", StreamName="s", Limit=10_000)["StreamDescription"]
    assert (len(description["Shards"]), description["HasMoreShards"]) == (100, True)


def test_the_last_description_page_says_that_it_is_the_last() -> None:
    caller = Caller()
    caller.create(shards=3)
    first = caller.call("DescribeStream", StreamName="s", Limit=2)["StreamDescription"]
    last = caller.call("DescribeStream", StreamName="s", Limit=2, ExclusiveStartShardId=shard_id(1))
    assert first["HasMoreShards"] is True
    assert last["StreamDescription"]["HasMoreShards"] is False
    assert len(last["StreamDescription"]["Shards"]) == 1


def test_the_option_page_size_makes_small_pages() -> None:
    caller = Caller(page_size=2)
    caller.create(shards=3)
    assert len(caller.call("ListShards", StreamName="s")["Shards"]) == 2
    assert len(caller.call("DescribeStream", StreamName="s")["StreamDescription"]["Shards"]) == 2


@pytest.mark.parametrize(
    ("shard_filter", "shown"),
    [
        ({"Type": "FROM_TRIM_HORIZON"}, [0, 1, 2, 3, 4]),
        ({"Type": "AT_TRIM_HORIZON"}, [0, 1]),
        ({"Type": "AT_LATEST"}, [1, 4]),
        ({"Type": "AFTER_SHARD_ID", "ShardId": shard_id(2)}, [3, 4]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": NOW + 50}, [0, 1]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": NOW + 150}, [1, 2, 3]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": NOW + 250}, [1, 4]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": NOW - DAY}, [0, 1]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": NOW + 50}, [0, 1, 2, 3, 4]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": NOW + 150}, [1, 2, 3, 4]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": NOW + 250}, [1, 4]),
    ],
)
def test_filters_choose_shards(shard_filter: dict[str, Any], shown: list[int]) -> None:
    assert resharded().shard_ids(ShardFilter=shard_filter) == shown


def test_the_trim_horizon_moves_with_the_retention() -> None:
    caller = resharded()
    caller.clock.advance(DAY - 150)
    assert caller.shard_ids(ShardFilter={"Type": "AT_TRIM_HORIZON"}) == [1, 2, 3]
    caller.clock.advance(100)
    assert caller.shard_ids(ShardFilter={"Type": "AT_TRIM_HORIZON"}) == [1, 4]


def test_a_filter_stays_in_force_on_later_pages() -> None:
    caller = resharded()
    first = caller.call("ListShards", StreamName="s", MaxResults=1, ShardFilter={"Type": "AT_LATEST"})
    second = caller.call("ListShards", NextToken=first["NextToken"])
    assert [shard["ShardId"] for shard in first["Shards"] + second["Shards"]] == [shard_id(1), shard_id(4)]
    assert "NextToken" not in second


@pytest.mark.parametrize(
    ("shard_filter", "error"),
    [
        ({}, "ValidationException"),
        ({"Type": "SOME"}, "ValidationException"),
        ({"Type": "AFTER_SHARD_ID"}, "InvalidArgumentException"),
        ({"Type": "AT_TIMESTAMP"}, "InvalidArgumentException"),
        ({"Type": "AT_LATEST", "ShardId": shard_id(0)}, "InvalidArgumentException"),
        ("AT_LATEST", "SerializationException"),
    ],
)
def test_bad_filters_are_refused(shard_filter: Any, error: str) -> None:
    caller = Caller()
    caller.create()
    assert caller.refused("ListShards", StreamName="s", ShardFilter=shard_filter) == error


def test_a_listing_can_show_a_child_beside_its_parent_still_open() -> None:  # K-10
    caller = Caller()
    caller.create()
    caller.split(0)
    caller.faults.add("ListShards", "open_parent")
    raced, settled = caller.shards(), caller.shards()
    assert "EndingSequenceNumber" not in raced[0]["SequenceNumberRange"]
    assert [shard["ShardId"] for shard in raced] == [shard["ShardId"] for shard in settled]
    assert "EndingSequenceNumber" in settled[0]["SequenceNumberRange"]


def test_children_can_appear_some_listings_later() -> None:
    caller = Caller()
    caller.create(shards=2)
    caller.split(0)
    caller.split(1)
    caller.faults.add("ListShards", "hide_children", times=2, shard=shard_id(1))
    assert [caller.shard_ids() for _ in range(3)] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]
    caller.faults.add("DescribeStream", "hide_children")
    assert len(caller.call("DescribeStream", StreamName="s")["StreamDescription"]["Shards"]) == 2
