# SPDX-License-Identifier: Apache-2.0
"""Reading a shard by polling: iterators and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from shardbatch.errors import InvalidAnswer
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.decoder import Decoded


@dataclass(frozen=True)
class Wait:
    """There is nothing to read yet; ask again after so many seconds."""

    seconds: float


class Way(Protocol):
    """A way to read one shard. After an answer it is told whether that was believed."""

    def ask(self, place: dict[str, Any]) -> Decoded | Wait:
        """The next answer; a way that has to begin anew begins at ``place``, the parameters of an iterator."""
        ...

    def accept(self, answer: Decoded) -> None:
        """The answer was believed: go on behind it."""

    def reject(self) -> None:
        """The answer was not believed: ask for it again."""

    def drop(self) -> None:
        """Begin anew, at the place that the next question names."""


class Polling:
    """Asks with an iterator, and with the one that the last believed answer gave."""

    def __init__(self, caller: Caller, pace: Pace, shard_id: str, limit: int | None = None) -> None:
        """:param limit: records that one answer may hold at most, default the options' ``page_records``."""
        self._limit = limit
        self._caller = caller
        self._pace = pace
        self._shard_id = shard_id
        self._iterator: str | None = None

    def ask(self, place: dict[str, Any]) -> Decoded:
        """One answer of GetRecords."""
        if self._iterator is None:
            self._iterator = self._new_iterator(place)
        return self._caller.records(self._iterator, self._pace, self._limit)

    def accept(self, answer: Decoded) -> None:
        """Go on with its iterator."""
        self._iterator = answer.next_iterator

    def reject(self) -> None:
        """The iterator is good for the same question again."""

    def drop(self) -> None:
        """The next question needs a new iterator."""
        self._iterator = None

    def _new_iterator(self, place: dict[str, Any]) -> str:
        parameters: dict[str, Any] = {"ShardId": self._shard_id, **self._caller.stream.address, **place}
        answer = self._caller.once("get_shard_iterator", **parameters)
        iterator = answer.get("ShardIterator")
        if not iterator:
            raise InvalidAnswer(f"The service gave no iterator for {self._shard_id} of the {self._caller.where}.")
        return str(iterator)
