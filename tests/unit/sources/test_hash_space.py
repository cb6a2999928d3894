# SPDX-License-Identifier: Apache-2.0
"""The hash keys of Kinesis, and what a listing lacks of them."""

from __future__ import annotations

import pytest

from shardbatch.core.shard import KeyRange, Shard
from shardbatch.sources.kinesis.hash_space import HASH_KEYS, hash_key, missing

HALF = 2**127


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


def test_a_listing_whose_open_shards_cover_all_hash_keys_lacks_nothing() -> None:  # KV-6
    parent = Shard("p", (), HASH_KEYS, closed=True)
    low, high = Shard("a", ("p",), KeyRange(0, HALF - 1)), Shard("b", ("p",), KeyRange(HALF, 2 * HALF - 1))
    assert missing([parent, low, high]) == ""


def test_what_a_listing_lacks_is_named_with_its_share_and_the_shards_without_children() -> None:  # K-10
    found = missing([Shard("p", (), KeyRange(0, HALF - 1), closed=True), Shard("b", (), KeyRange(HALF, 2 * HALF - 1))])
    assert found == (
        f"no open shard covers 50.0000% of the hash keys: 0-{HALF - 1}. p closed, and no child of theirs is listed."
    )


def test_many_holes_are_counted_and_few_are_named() -> None:
    found = missing([Shard(str(n), (), KeyRange(10 * n, 10 * n)) for n in range(9)])
    assert "1-9, 11-19, 21-29, 31-39, 41-49 and 4 more" in found


def test_a_server_that_tells_no_ranges_lacks_nothing() -> None:
    assert missing([Shard("a"), Shard("b")]) == missing([]) == ""
