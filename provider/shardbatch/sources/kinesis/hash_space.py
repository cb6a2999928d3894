# SPDX-License-Identifier: Apache-2.0
"""The hash keys of Kinesis, which the open shards of a stream divide among them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from shardbatch.core.shard import KeyRange, Shard, childless, holes
from shardbatch.core.shortlist import shortlist

#: Every hash key that there is.
HASH_KEYS = KeyRange(0, 2**128 - 1)


def hash_key(partition_key: str) -> int:
    """The hash key of a partition key: MD5 of its UTF-8 text as an unsigned integer (Kinesis API reference)."""
    digest = hashlib.md5(partition_key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big")


def missing(listing: Sequence[Shard]) -> str:
    """What a listing lacks, in words; empty if its open shards cover all hash keys, or none of them tells its range."""
    if all(shard.hash_range is None for shard in listing):
        return ""
    found = holes((s.hash_range for s in listing if not s.closed and s.hash_range is not None), HASH_KEYS)
    if not found:
        return ""
    share = sum(hole.size for hole in found) / HASH_KEYS.size
    text = f"no open shard covers {share:.4%} of the hash keys: {shortlist(found)}."
    torn = childless(listing)
    if torn:
        text += f" {shortlist([shard.shard_id for shard in torn])} closed, and no child of theirs is listed."
    return text
