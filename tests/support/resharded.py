# SPDX-License-Identifier: Apache-2.0
"""An application on the embedded server whose stream is resharded between records of the same keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shardbatch.core.shard import KeyRange
from shardbatch.local import StreamServer
from shardbatch.run import Frozen
from tests.integration.sources.kinesis_world import STREAM, World
from tests.support.rig import Rig

KEYS = [f"key-{n}" for n in range(12)]


class Resharded:
    """The data of a record are its key and its number among those of the key: ``key-3:17``."""

    def __init__(self, server: StreamServer, folder: Path, shards: int = 1, **how: Any) -> None:
        """:param how: options of the source."""
        self.world = World(server, shards)
        self.server = server
        self.sent: dict[str, int] = dict.fromkeys(KEYS, 0)
        self.rig = Rig(folder / "staging", options={"source": self.world.source(**how), "clock": self.world.time.clock})

    def put(self, keys: Iterable[str] = KEYS) -> None:
        """One record of each key."""
        entries = []
        for key in keys:
            entries.append({"PartitionKey": key, "Data": f"{key}:{self.sent[key]}".encode()})
            self.sent[key] += 1
        assert self.world.client.put_records(StreamName=STREAM, Records=entries)["FailedRecordCount"] == 0
        self.server.clock.advance(0.01)

    def open_shards(self) -> list[tuple[str, KeyRange]]:
        """The open shards in the order of their hash keys."""
        found = [(s.shard_id, s.hash_range) for s in self.world.source().list_shards() if not s.closed and s.hash_range]
        return sorted(found, key=lambda shard: shard[1].start)

    def split(self, at: int = 0) -> None:
        """Split one of the open shards in the middle."""
        still = self.open_shards()
        shard_id, span = still[at % len(still)]
        middle = str((span.start + span.end) // 2 + 1)
        self.world.client.split_shard(StreamName=STREAM, ShardToSplit=shard_id, NewStartingHashKey=middle)

    def merge(self, at: int = 0) -> None:
        """Merge an open shard with the next."""
        still = self.open_shards()
        at %= len(still) - 1
        self.world.client.merge_shards(
            StreamName=STREAM, ShardToMerge=still[at][0], AdjacentShardToMerge=still[at + 1][0]
        )

    def freeze(self, run: str) -> Frozen:
        """Claim, read and freeze what there is."""
        found = self.rig.claim(run)
        self.rig.land(run, found)
        return self.rig.freeze(run)


def disorder(data: Sequence[bytes]) -> list[str]:
    """Neighbours of one key, in the order of these records, that do not follow each other."""
    of_key: dict[str, list[int]] = {}
    for text in (row.decode() for row in data):
        key, _, number = text.partition(":")
        of_key.setdefault(key, []).append(int(number))
    return [
        f"{key}: {later} after {earlier}"
        for key, numbers in of_key.items()
        for earlier, later in itertools.pairwise([-1, *numbers])
        if later != earlier + 1
    ]
