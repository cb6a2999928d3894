# SPDX-License-Identifier: Apache-2.0
"""Tokens of Bloop as a format of positions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from shardbatch.bloop.reading import plan_token
from shardbatch.bloop.token import Token
from shardbatch.bloop.writing import write_token
from shardbatch.control.place_look import Seen, look_at_all
from shardbatch.control.position_format import Exported, Standing
from shardbatch.core.carried import NOTHING_CARRIED
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Source
from shardbatch.core.position import Kind, Position
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Taken
from shardbatch.errors import ConfigurationError, SourceError

_STREAM = re.compile(r"arn:[^:]+:dynamodb:[^:]*:[^:]*:table/[^/]+/stream/[^/]+")


@dataclass(frozen=True)
class KeptToken:
    """A token that was read."""

    token: Token
    carried = NOTHING_CARRIED

    @property
    def text(self) -> str:
        """What it is, for notes."""
        return f"a Bloop token with {len(self.token.shards)} shards, {len(self.token.active)} of them active"

    def plan(
        self, identity: str, listing: Sequence[Shard], start: Position | None, now: Callable[[], Position]
    ) -> Sequence[Taken]:
        """What becomes of each shard; children before their parents.

        :raises InvalidStream: if the token is of another stream.
        """
        return plan_token(self.token, identity, listing, start, now)


class BloopTokens:
    """Implements :class:`shardbatch.control.position_format.PositionFormat`."""

    who = "the token"
    complete = False

    def require_stream(self, identity: str) -> None:
        """Check that Bloop reads such a stream.

        :raises ConfigurationError: if it is not a stream of a DynamoDB table.
        """
        if not _STREAM.fullmatch(identity):
            raise ConfigurationError(
                f"Bloop reads streams of DynamoDB tables only, and this is {identity}.",
                remedy="Choose another format, or an application on the stream of a table.",
            )

    def write(self, standing: Standing, source: Source) -> Exported:
        """The token of an application.

        :raises ConfigurationError: if no shard of it is in the stream any more.
        :raises SourceError: if the stream cannot be asked for what follows a place.
        """
        places = [(row.shard_id, row.checkpoint) for row in standing.rows if _named(row, standing.listed)]
        seen = look_at_all(source, places)
        for found in seen.values():
            if found.refused:
                raise SourceError(found.refused, remedy="", retryable=False)
        token, remarks = write_token(
            standing.identity, standing.rows, standing.listed, lambda shard_id, place: seen.get(shard_id, Seen())
        )
        if not token.active:
            raise ConfigurationError(
                "There is no shard that Bloop could go on with: all have been read and have left the stream.",
                remedy='Let Bloop begin at "trim_horizon".',
            )
        return Exported(token.to_json(), tuple(remarks))

    def read(self, value: Any) -> KeptToken:
        """The token that some JSON is.

        :raises InvalidToken: if it is none.
        """
        return KeptToken(Token.parse(value))


def _named(row: Lease, listed: Collection[str]) -> bool:
    """Whether a row stands at a record that the stream can be asked for."""
    return row.checkpoint.kind is Kind.AFTER_SEQUENCE_NUMBER and row.shard_id in listed
