# SPDX-License-Identifier: Apache-2.0
"""Shards: coverage, listings taken during a reshard, and depth in a lineage."""

from __future__ import annotations

import pytest

from shardbatch.core.shard import KeyRange, Shard, generations, holes, inconsistent

SPACE = KeyRange(0, 999)


def test_ranges_that_meet_leave_no_hole() -> None:
    assert holes([KeyRange(100, 999), KeyRange(0, 99)], SPACE) == []  # KV-6


def test_a_hole_is_named() -> None:
    assert holes([KeyRange(0, 99), KeyRange(101, 999)], SPACE) == [KeyRange(100, 100)]
    assert holes([KeyRange(1, 999)], SPACE) == [KeyRange(0, 0)]
    assert holes([], SPACE) == [KeyRange(0, 999)]


def test_overlapping_ranges_leave_no_hole() -> None:
    assert holes([KeyRange(0, 200), KeyRange(100, 150), KeyRange(201, 999)], SPACE) == []


def test_an_inverted_range_is_an_error() -> None:
    with pytest.raises(ValueError, match="backwards"):  # K-26
        KeyRange(5, 4)


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
