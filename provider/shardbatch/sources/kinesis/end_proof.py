# SPDX-License-Identifier: Apache-2.0
"""Checks an answer that says a shard has ended but names no children: an answer that merely lost its iterator says the
same, and then the shard may have more records."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from shardbatch.core.shard import Shard
from shardbatch.errors import InvalidAnswer, SourceError, Throttled
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.ending import Ending, judge
from shardbatch.sources.kinesis.polling import Polling

#: What the walks of a proof must weigh together. One that began with the last record read and whose last answer has a
#: lag of zero weighs STRONG: it proves where it comes from, and says that nothing follows. Every other one weighs 1:
#: some servers tell a lag at the end, and the record may have expired, or there was none.
ENOUGH = 6
STRONG = 2


class Found(Enum):
    """What is known after a step: nothing yet, that the shard has ended, or that it has more."""

    NOTHING_YET = "nothing yet"
    ENDED = "ended"
    MORE = "more"


class EndProof:
    """Walks from the last record that was read to the end, several times, each time with an iterator of its own.

    Made after a listing has shown the shard as closed: no record comes after that, so every walk would find what the
    shard has beyond the place. A proof belongs to one claim of an end.

    :param probe: asks for the answers; only this proof uses it.
    :param place: the parameters of an iterator *at* the last record read, or at the start if there is none.
    :param last: the number of that record.
    :param children: those that the listing shows.
    """

    def __init__(self, probe: Polling, place: dict[str, Any], last: str | None, children: Sequence[Shard]) -> None:
        self.children = tuple(children)
        #: Whether a walk met the last record, so that the service still holds it.
        self.met = False
        #: The lag of the last answer.
        self.lag_ms = 0
        #: Answers so far.
        self.steps = 0
        self._probe = probe
        self._place = place
        self._last = last
        self._met_here = False
        self._weight = 0
        probe.drop()

    def step(self) -> Found:
        """Ask once.

        :raises SourceError: if there was no answer, or one that proves nothing; the walk begins anew.
        """
        try:
            return self._weigh(self._probe.ask(self._place))
        except Throttled:
            raise
        except SourceError:
            self._begin()
            raise

    def _begin(self) -> None:
        self._probe.drop()
        self._met_here = False

    def _weigh(self, answer: Decoded) -> Found:
        self.lag_ms = answer.millis_behind_latest
        self.steps += 1
        if answer.records.num_rows:
            if self._last is None or int(answer.records.column(0)[-1].as_py()) != int(self._last):
                return Found.MORE
            self._met_here = self.met = True
        ending = judge(answer.next_iterator, answer.children)
        if ending is Ending.ENDED:
            self.children = answer.children
            return Found.ENDED
        if ending is Ending.CONTRADICTORY:
            raise InvalidAnswer("An answer contradicts itself about a shard's end.")
        if ending is Ending.OPEN:
            self._probe.accept(answer)
            return Found.NOTHING_YET
        if self.met and not self._met_here:
            raise InvalidAnswer("An answer lacks the record that it was asked for.")
        self._weight += STRONG if self._met_here and answer.millis_behind_latest == 0 else 1
        self._begin()
        return Found.ENDED if self._weight >= ENOUGH else Found.NOTHING_YET
