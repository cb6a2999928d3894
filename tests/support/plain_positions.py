# SPDX-License-Identifier: Apache-2.0
"""A format of positions that is as small as one can be: a place for each shard, by its id. For streams of tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardbatch.control.position_format import Exported, Standing
from shardbatch.core.carried import NOTHING_CARRIED
from shardbatch.core.ports import Source
from shardbatch.core.position import LATEST, Position
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Taken, youngest_first
from shardbatch.errors import InvalidStream, InvalidToken


@dataclass(frozen=True)
class KeptPlaces:
    """Places that were read."""

    places: dict[str, Position]
    carried = NOTHING_CARRIED

    @property
    def text(self) -> str:
        return f"{len(self.places)} places"

    def plan(
        self, identity: str, listing: Sequence[Shard], start: Position | None, now: Callable[[], Position]
    ) -> Sequence[Taken]:
        listed = {shard.shard_id: shard for shard in listing}
        if not self.places.keys() & listed.keys():
            raise InvalidStream(f"None of the places is in {identity}.")
        shards = {**{name: Shard(name, closed=True) for name in self.places}, **listed}
        found = []
        for name in youngest_first(shards):
            said = self.places.get(name, Position.parse("TRIM_HORIZON"))
            place = (start or now()) if said == LATEST else said
            found.append(Taken(shards[name], place, f"at {place}", chosen=said == LATEST))
        return found


class PlainPlaces:
    """Implements :class:`shardbatch.control.position_format.PositionFormat` for any stream."""

    who = "the list"
    complete = False

    def require_stream(self, identity: str) -> None:
        """It has words for all."""

    def write(self, standing: Standing, source: Source) -> Exported:
        return Exported({row.shard_id: str(row.checkpoint) for row in standing.rows}, ())

    def read(self, value: Any) -> KeptPlaces:
        try:
            return KeptPlaces({name: Position.parse(text) for name, text in value.items()})
        except (AttributeError, ValueError, TypeError) as error:
            raise InvalidToken(f"These are no places: {error}.") from error
