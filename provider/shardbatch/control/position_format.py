# SPDX-License-Identifier: Apache-2.0
"""How positions of an application are written down outside of the lease store: the port of its formats."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shardbatch.core.application import Application
from shardbatch.core.carried import Carried
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Source
from shardbatch.core.position import Position
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Taken
from shardbatch.errors import InvalidToken


def loaded(positions: str | Mapping[str, Any]) -> Any:
    """What the text of some positions says: JSON, or what a template makes of a dictionary.

    :raises InvalidToken: if it is neither.
    """
    if not isinstance(positions, str):
        return positions
    try:
        return json.loads(positions)
    except (ValueError, RecursionError) as error:
        try:
            return ast.literal_eval(positions.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise InvalidToken(f"The positions are not JSON: {error}.") from error


@dataclass(frozen=True)
class Remark:
    """What a person who takes up exported positions has to know of a row.

    ``kind`` is ``lease`` or ``batch``. ``result`` is ``read again``: the other program reads what was committed here,
    or will be; ``read too``: it reads what this application does not want; ``gap``: records are lost, and the other
    program is not told; ``not read``: it does not read what this application has not given to readers either.
    """

    kind: str
    name: str
    result: str
    text: str


@dataclass(frozen=True)
class Standing:
    """Where an application stands, by what is committed.

    :param identity: the stream's.
    :param rows: one for each shard that the application knows, or that is listed and that it will read.
    :param listed: ids of the shards that the stream lists.
    :param application: its own row.
    :param fresh: ids of the shards that it has no row of yet.
    :param intervals: what the runs over intervals have in common, one for each interval.
    """

    identity: str
    rows: Sequence[Lease]
    listed: frozenset[str]
    application: Application
    fresh: frozenset[str] = frozenset()
    intervals: tuple[IntervalOutput, ...] = ()


@dataclass(frozen=True)
class Exported:
    """Positions as their format has them, and what has to be known beside them.

    :param positions: of JSON's own types.
    """

    positions: Mapping[str, Any]
    remarks: tuple[Remark, ...]


class Kept(Protocol):
    """Positions that were read from a text."""

    @property
    def text(self) -> str:
        """What they are, for notes: ``the token of a stream, with 3 shards``."""
        ...

    @property
    def carried(self) -> Carried:
        """What they say of the application beside its shards; ``NOTHING_CARRIED`` if nothing."""
        ...

    def plan(
        self, identity: str, listing: Sequence[Shard], start: Position | None, now: Callable[[], Position]
    ) -> Sequence[Taken]:
        """What becomes of each shard; children before their parents.

        :param start: where shards begin that name no place, if a person chose one.
        :param now: the present tip of the stream, as a place.
        :raises InvalidStream: if they are of another stream.
        """
        ...


class PositionFormat(Protocol):
    """One way to write positions down."""

    #: Whose it is, for words.
    who: str
    #: Whether it writes down what the rows know of losses, so that who takes it up is told of them.
    complete: bool

    def require_stream(self, identity: str) -> None:
        """Check that positions of this stream can be written so.

        :raises ConfigurationError: if they cannot.
        """

    def write(self, standing: Standing, source: Source) -> Exported:
        """Write them. No place is later than that of the application.

        :raises ConfigurationError: if a place cannot be written.
        """
        ...

    def read(self, value: Any) -> Kept:
        """Take what a text says for positions. Nothing is asked.

        :raises InvalidToken: if they are not written as the format wants, or contradict themselves.
        """
        ...
