# SPDX-License-Identifier: Apache-2.0
"""Tokens of Bloop and listings of streams, written short."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardbatch.core.shard import Shard

ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2026-11-28T00:00:00.000"
#: How the places of a token are written short.
KINDS = {"@": "at_sequence", ">": "after_sequence", "|": "trim_horizon", "!": "latest"}


def token(active: str, shards: str, arn: str = ARN) -> dict[str, Any]:
    """A token: ``A>10(P)`` is the shard A after 10, a child of P; ``@`` at, ``|`` trim_horizon, ``!`` latest."""
    return {"stream_arn": arn, "active": active.split(), "shards": [entry(word) for word in shards.split()]}


def entry(word: str) -> dict[str, str]:
    name, _, parent = word.rstrip(")").partition("(")
    found = {"shard_id": name}
    for sign, kind in KINDS.items():
        if sign in name:
            found["shard_id"], _, number = name.partition(sign)
            found["iterator_type"] = kind
            if number:
                found["sequence_number"] = number
    if parent:
        found["parent"] = parent
    return found


def listing(words: str, closed: Iterable[str] = ()) -> list[Shard]:
    """Shards of a stream: ``A(P)`` is a child of P; what has a child is closed, and so are those that are named so."""
    found = []
    for word in words.split():
        name, _, parent = word.rstrip(")").partition("(")
        found.append(Shard(name, (parent,) if parent else ()))
    above = {parent for shard in found for parent in shard.parent_shard_ids} | set(closed)
    return [Shard(shard.shard_id, shard.parent_shard_ids, closed=shard.shard_id in above) for shard in found]
