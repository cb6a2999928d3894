# SPDX-License-Identifier: Apache-2.0
"""Shards: hash keys, coverage, listings taken during a reshard, and depth in a lineage."""

from __future__ import annotations

import pytest

from shardbatch.core.shard import MAX_HASH_KEY, HashRange, Shard, generations, hash_key, holes, inconsistent


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", 16955237001963240173058271559858726497),
        ("b", 195289424170611159128911017612795795343),
        ("cat", 277102220249073555409885156483852860632),
        ("user-1", 285573413173782752570879317399258818820),
    ],
)
def test_a_partition_key_is_hashed_as_the_service_does(key: str, expected: int) -> None:
    assert hash_key(key) == expected  # K-3


def test_ranges_that_meet_leave_no_hole() -> None:
    assert holes([HashRange(100, MAX_HASH_KEY), HashRange(0, 99)]) == []  # KV-6


def test_a_hole_is_named() -> None:
    assert holes([HashRange(0, 99), HashRange(101, MAX_HASH_KEY)]) == [HashRange(100, 100)]
    assert holes([HashRange(1, MAX_HASH_KEY)]) == [HashRange(0, 0)]
    assert holes([]) == [HashRange(0, MAX_HASH_KEY)]


def test_overlapping_ranges_leave_no_hole() -> None:
    assert holes([HashRange(0, 200), HashRange(100, 150), HashRange(201, MAX_HASH_KEY)]) == []


def test_an_inverted_range_is_an_error() -> None:
    with pytest.raises(ValueError, match="backwards"):  # K-26
        HashRange(5, 4)


def test_a_child_of_an_open_parent_is_a_race_of_the_listing() -> None:
    listing = [Shard("p", closed=False), Shard("c", ("p",)), Shard("x", ("gone",))]
    assert [shard.shard_id for shard in inconsistent(listing)] == ["c"]  # K-10


def test_depth_counts_from_the_oldest_known_shard() -> None:
    parents = {"a": (), "b": (), "m": ("a", "b"), "c": ("m", "gone"), "d": ("gone",)}
    assert generations(parents) == {"a": 0, "b": 0, "m": 1, "c": 2, "d": 0}


def test_depth_of_a_merge_is_below_its_deeper_parent() -> None:
    parents = {"a": (), "b": ("a",), "m": ("a", "b")}
    assert generations(parents)["m"] == 2


def test_a_circle_is_an_error() -> None:
    with pytest.raises(ValueError, match="circle"):
        generations({"a": ("b",), "b": ("a",)})


def test_a_long_lineage_is_walked_in_linear_time() -> None:
    chain = {str(n): (str(n - 1),) if n else () for n in range(3000)}
    assert generations(chain)["2999"] == 2999
