# SPDX-License-Identifier: Apache-2.0
"""Whether an answer says that its shard has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from shardbatch.core.shard import Shard


class Ending(Enum):
    """What an answer says of its shard: ``OPEN``, ``ENDED``; ``CLAIMED``, an end that names no children and must be
    confirmed by a listing; or ``CONTRADICTORY``, not to be believed."""

    OPEN = "open"
    ENDED = "ended"
    CLAIMED = "claimed"
    CONTRADICTORY = "contradictory"


def judge(next_iterator: str | None, children: Sequence[Shard]) -> Ending:
    """What an answer with this next iterator and these children says (KCL's table of valid combinations)."""
    if next_iterator:
        return Ending.CONTRADICTORY if children else Ending.OPEN
    if not children:
        return Ending.CLAIMED
    return Ending.ENDED if all(child.parent_shard_ids for child in children) else Ending.CONTRADICTORY


def confirmed(shard_id: str, listing: Iterable[Shard]) -> tuple[bool, tuple[Shard, ...]]:
    """Whether a fresh listing agrees that a shard has ended, and the children that it shows.

    A shard that is closed there has ended, and so has one that is no longer listed; one that is listed as open has not.
    """
    shards = list(listing)
    ended = all(shard.closed for shard in shards if shard.shard_id == shard_id)
    return ended, tuple(shard for shard in shards if ended and shard_id in shard.parent_shard_ids)
