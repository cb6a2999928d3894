# SPDX-License-Identifier: Apache-2.0
"""What Bloop 3.1.1 reads from a token on, as a model: its rules for shards that are gone, that end and that are new."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from shardbatch.core.shard import Shard

Records = Mapping[str, Sequence[int]]


def read_by_bloop(token: Mapping[str, Any], listing: Sequence[Shard], records: Records) -> dict[str, list[int]]:
    """The records of each shard that Bloop reads until nothing more comes, as often as it reads them.

    :raises LookupError: if no shard of the token is left.
    """
    entries = {entry["shard_id"]: entry for entry in token["shards"]}
    listed = {shard.shard_id: shard for shard in listing}
    children: dict[str, list[str]] = {name: [] for name in entries}
    for name, entry in entries.items():
        if entry.get("parent") in entries:
            children[entry["parent"]].append(name)
    roots = [name for name, entry in entries.items() if entry.get("parent") not in entries]
    active = list(token["active"])
    unverified = deque(roots)
    while unverified:
        name = unverified.popleft()
        if name not in listed:
            for known in (roots, active):
                if name in known:
                    known.remove(name)
                    known.extend(children[name])
            unverified.extend(children[name])
    if not roots:
        raise LookupError("This token has no relation to the actual Stream.")
    found: dict[str, list[int]] = {}
    todo = deque((name, entries[name]) for name in active)
    while todo:
        name, entry = todo.popleft()
        found.setdefault(name, []).extend(_from(entry, records[name]))
        if listed[name].closed:
            below = children.get(name) or [s.shard_id for s in listing if name in s.parent_shard_ids]
            todo.extend((child, {"shard_id": child}) for child in below)
    return found


def _from(entry: Mapping[str, str], records: Sequence[int]) -> list[int]:
    kind, number = entry.get("iterator_type", "trim_horizon"), int(entry.get("sequence_number", 0))
    if kind == "latest":
        return []
    return [each for each in records if each > number or (each == number and kind == "at_sequence")]
