# SPDX-License-Identifier: Apache-2.0
"""Reading a shard by enhanced fan-out: subscriptions, one after the other, and the place where the next begins."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from shardbatch.errors import InvalidAnswer, ShardNotFound, Throttled
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.polling import Wait
from shardbatch.sources.kinesis.refusals import PlaceRefused, StreamBusy
from shardbatch.sources.kinesis.registration import LOOK_EVERY, Registration
from shardbatch.sources.kinesis.words import BUSY

#: Seconds within which the service refuses the next subscription of a consumer to a shard.
RENEW_AFTER = 5.0
#: Longest wait in one piece, so that the reader looks at its limits meanwhile.
LONGEST_WAIT = 1.0


class Subscribing:
    """The subscriptions of one read. What was not accepted is sent again by the next subscription."""

    def __init__(self, caller: Caller, registration: Registration, shard_id: str) -> None:
        self._caller = caller
        self._registration = registration
        self._shard_id = shard_id
        self._events: Generator[Decoded, None, None] | None = None
        self._subscribed_at = float("-inf")
        self._asked: float | None = None
        self._continuation: str | None = None

    def ask(self, place: dict[str, Any]) -> Decoded | Wait:
        """The next event; ``place`` counts until one has told where a next subscription begins.

        :raises Throttled: if the service refuses to subscribe now, or another subscription takes this one's place.
        :raises PlaceRefused: if the service does not take ``place``.
        :raises ShardNotFound: if shard, stream or consumer are gone.
        """
        if self._events is None:
            wait = self._subscribed_at + RENEW_AFTER - self._caller.clock.monotonic()
            arn = self._registration.arn() if wait <= 0 else None
            if arn is None:
                return Wait(min(wait, LONGEST_WAIT) if wait > 0 else LOOK_EVERY)
        try:
            if self._events is None:
                asked = self._caller.clock.monotonic()
                self._events = self._caller.subscribe(str(arn), self._shard_id, self._start(place))
                if self._subscribed_at > float("-inf"):
                    self._caller.renewed()
                self._asked, self._subscribed_at = asked, self._caller.clock.monotonic()
            event = next(self._events, None)
        except StreamBusy as error:
            self.drop()
            raise Throttled(str(error), remedy=BUSY) from error
        except ShardNotFound:
            self.drop()
            self._registration.forget()
            raise
        except PlaceRefused as error:
            self.drop()
            if self._continuation is None:
                raise
            self._continuation = None
            raise InvalidAnswer(f"The service takes back its own place in {self._shard_id}.") from error
        except BaseException:
            self.drop()
            raise
        if event is None:  # its five minutes are over
            self.drop()
            return Wait(0.0)
        return replace(event, asked=self._asked)

    def accept(self, answer: Decoded) -> None:
        """The event was believed: a next subscription begins behind it."""
        self._continuation = answer.next_iterator

    def drop(self) -> None:
        """End the subscription."""
        if self._events is not None:
            self._events.close()
            self._events = None

    reject = drop

    def _start(self, place: dict[str, Any]) -> dict[str, Any]:
        if self._continuation is not None:
            return {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._continuation}
        names = {"ShardIteratorType": "Type", "StartingSequenceNumber": "SequenceNumber"}
        return {names.get(name, name): value for name, value in place.items()}
