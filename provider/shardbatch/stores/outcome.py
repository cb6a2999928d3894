# SPDX-License-Identifier: Apache-2.0
"""Learning what became of a conditional write whose answer was lost.

Every write carries a random token that the store keeps in the column ``write_token``, and a condition: the row's
counter must be the one that was seen.

The race, step by step, of a write over counter *c* whose answer does not come:

1. The write may have been applied, or not, or it may still be on its way and be applied later.
2. The row is read back, by a read that sees all writes before it.

   * *It has our token:* the write was applied. No other write has that token.
   * *It has another counter than c, and another token:* someone else was first, so our condition cannot hold any more.
     Or ours was applied, and someone wrote over it since: then our token is gone, and "not applied" is answered. The
     caller reads the row and decides anew, as after any race that it lost. So a caller must not take that answer as
     "nothing of this was ever visible".
   * *It is unchanged:* ours was not applied yet. The same write, with the same token, is sent again.

3. Now two copies of the write may be on their way. The first to arrive raises the counter, and the second finds its
   condition broken: it does nothing. A copy that arrives minutes later does nothing either.
4. The second copy is answered "condition failed", though the first was applied. So once a call of this write was
   unclear, a "no" is not believed: only the read-back says no. A "yes" is always true.
"""

from __future__ import annotations

import math
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shardbatch.core.rows import Key, Row
from shardbatch.errors import ProtocolError, StoreError
from shardbatch.stores import keys

TOKEN = "write_token"

T = TypeVar("T")


class Unclear(Exception):
    """A call may have been carried out or not; the cause is chained or in the text."""


@dataclass(frozen=True)
class Stored:
    """What a read-back needs of a row."""

    counter: int
    token: str | None


@dataclass(frozen=True)
class Write:
    """One conditional write. ``before`` is the counter that the stored row must have; ``None``: no row may be there."""

    key: Key
    row: Row
    before: int | None
    token: str
    deletes: bool = False

    @property
    def name(self) -> str:
        """For messages: what is written where."""
        verb = "delete" if self.deletes else "create" if self.before is None else "replace"
        place = "/".join((str(self.key.namespace), *self.key.values))
        return f"{verb} of the {self.key.table.name} row {place}"


def creation(row: Row) -> Write:
    """The write of a row that must not be there yet."""
    return creations([row])[0]


def creations(rows: Sequence[Row]) -> list[Write]:
    """The writes of rows that must not be there yet."""
    made = [Write(row.key, row, None, token) for row, token in zip(rows, _tokens(len(rows)), strict=True)]
    for write in made:
        keys.check(write.key)
    return made


def replacement(seen: Row, new: Row) -> Write:
    """The write of ``new`` over ``seen``.

    :raises ProtocolError: if the two are not the same row, or the counter does not rise.
    """
    return replacements([(seen, new)])[0]


def replacements(changes: Sequence[tuple[Row, Row]]) -> list[Write]:
    """The writes of each second row over the first.

    :raises ProtocolError: if two are not the same row, or the counter does not rise.
    """
    made = [
        Write(new.key, new, seen.counter, token)
        for (seen, new), token in zip(changes, _tokens(len(changes)), strict=True)
    ]
    for (seen, new), write in zip(changes, made, strict=True):
        if seen.key != write.key or new.counter <= seen.counter:
            raise ProtocolError(
                f"A {seen.key.table.name} row may only be replaced by itself with a higher counter.",
                remedy="This is a fault in shardbatch; please report it with the log.",
            )
    return made


def deletion(seen: Row) -> Write:
    """The removal of a row."""
    return Write(seen.key, seen, seen.counter, _tokens(1)[0], deletes=True)


def _tokens(count: int) -> list[str]:
    """Texts of 32 characters that no other write has: 96 bits that are drawn once, and a number."""
    drawn = uuid.uuid4().hex[:24]
    return [f"{drawn}{number:08x}" for number in range(count)]


class Writes:
    """Sends conditional writes until their outcome is known, and counts what was sent.

    ``tries`` (4) is how often one write is sent, ``reads`` (4) how often a read is; the waits between are random, up to
    ``backoff`` (0.2 s), doubled each time. Once ``within`` seconds have passed (default: no limit) nothing is sent any
    more.
    """

    def __init__(self, tries: int = 4, backoff: float = 0.2, reads: int = 4, within: float = math.inf) -> None:
        self.tries = tries
        self.reads = reads
        self.backoff = backoff
        self.within = within
        self.sent = 0
        self._lock = threading.Lock()

    def settle(self, write: Write, send: Callable[[Write], bool], look: Callable[[Key], Stored | None]) -> bool:
        """Whether the write was applied. ``send`` says so or raises :class:`Unclear`; ``look`` is strongly consistent.

        :raises StoreError: if the outcome cannot be learned.
        """

        def look_at(places: Sequence[Key]) -> dict[tuple[str, ...], Stored]:
            found = look(places[0])
            return {} if found is None else {places[0].values: found}

        return self.settle_all([write], lambda writes: [send(writes[0])], look_at)[0]

    def settle_all(
        self,
        writes: Sequence[Write],
        send: Callable[[Sequence[Write]], Sequence[bool]],
        look: Callable[[Sequence[Key]], Mapping[tuple[str, ...], Stored]],
    ) -> list[bool]:
        """Whether each of several writes to one table and scope was applied.

        ``send`` answers for each of those that it is given, or raises :class:`Unclear`: then the outcome of all is
        unknown. ``look`` finds the rows that are there, by the values of their keys, and is strongly consistent. A row
        that is gone after an unclear removal counts as removed by it: a removed row keeps no token.

        :raises StoreError: if the outcome of one cannot be learned.
        """
        answers: dict[int, bool] = {}
        doubt: Unclear | None = None
        began, tried = time.monotonic(), 0
        for turn in range(self.tries):
            if self._late(turn, began):
                break
            tried = turn + 1
            self._pause(turn)
            left = [number for number in range(len(writes)) if number not in answers]
            with self._lock:
                self.sent += len(left)
            try:
                applied = send([writes[number] for number in left])
                told = zip(left, applied, strict=True)
                # Step 4: after an unclear call a "no" may be the answer to a second copy of what was applied.
                answers.update((number, done) for number, done in told if done or doubt is None)
            except Unclear as error:
                doubt = error
            left = [number for number in left if number not in answers]
            if left:
                try:
                    stored = look([writes[number].key for number in left])
                except Unclear as error:
                    doubt = error
                    continue
                for number in left:
                    write = writes[number]
                    answer = _judge(write, stored.get(write.key.values))
                    if answer is not None:
                        answers[number] = answer
            if len(answers) == len(writes):
                return [answers[number] for number in range(len(writes))]
        unknown = [write.name for number, write in enumerate(writes) if number not in answers]
        raise StoreError(
            "The outcome of the {}{} is unknown after {} tries: {}.".format(
                unknown[0], f" and of {len(unknown) - 1} others" if unknown[1:] else "", tried, doubt
            ),
            remedy="Check the store and the way to it; the task may be retried, it reads the row again.",
        ) from doubt

    def ask(self, what: str, read: Callable[[], T]) -> T:
        """The answer of a read, sent again while it is unclear.

        :raises StoreError: if none came.
        """
        doubt: Unclear | None = None
        began = time.monotonic()
        for turn in range(self.reads):
            if self._late(turn, began):
                break
            self._pause(turn)
            try:
                return read()
            except Unclear as error:
                doubt = error
        raise StoreError(f"{what} does not answer: {doubt}.") from doubt

    def _late(self, turn: int, began: float) -> bool:
        return turn > 0 and time.monotonic() - began >= self.within

    def _pause(self, turn: int) -> None:
        if turn:
            time.sleep(random.uniform(0.25, 1) * self.backoff * 2 ** (turn - 1))


def _judge(write: Write, stored: Stored | None) -> bool | None:
    """Whether a write was applied, by what stands there now; ``None`` if it was not and still can be."""
    if stored is None and write.deletes:
        return True  # by us or by another: a removed row keeps no token, and it is gone in either case
    if stored is not None and stored.token == write.token:
        return True
    # Counters only rise, and that of a new row was never used for its key: what has moved on does not come back.
    return False if (None if stored is None else stored.counter) != write.before else None
