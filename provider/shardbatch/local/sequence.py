# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers in the layout that Kinesis uses: 186 bits, 56 decimal digits, rising inside a shard.

From the top: the value 2, the shard's creation in seconds (36 bits), the shard number's low nibble, the count of the
record in its shard (64), a zero byte, the record's second (36), the shard number (32), and the version nibble 2.
"""

from __future__ import annotations

from dataclasses import dataclass

LAST_COUNT = 2**63 - 1
COUNT_SHIFT = 80
SECOND_SHIFT = 36
SECOND_MASK = 2**36 - 1


@dataclass(frozen=True)
class SequenceParts:
    """What a sequence number says about itself."""

    shard_created: int
    shard_number: int
    count: int
    second: int


def build_head(shard_created: int, shard_number: int) -> int:
    """The bits that all numbers of one shard share."""
    return (2 << 184) | (shard_created << 148) | ((shard_number & 0xF) << 144) | (shard_number << 4) | 2


def encode(parts: SequenceParts) -> int:
    """The number that stands for ``parts``."""
    head = build_head(parts.shard_created, parts.shard_number)
    return head | (parts.count << COUNT_SHIFT) | (parts.second << SECOND_SHIFT)


def decode(number: int) -> SequenceParts | None:
    """The parts of ``number``, or None if it was not made by this layout."""
    if number.bit_length() != 186 or number >> 184 != 2 or number & 0xF != 2:
        return None
    return SequenceParts(
        shard_created=(number >> 148) & SECOND_MASK,
        shard_number=(number >> 4) & 0xFFFFFFFF,
        count=(number >> COUNT_SHIFT) & (2**64 - 1),
        second=(number >> SECOND_SHIFT) & SECOND_MASK,
    )
