# SPDX-License-Identifier: Apache-2.0
"""Learning what became of a conditional write whose answer was lost.

Every write carries a random token that the store keeps in the column ``write_token``. After a lost answer the row is
read back: with the own token the write was applied; with another counter the race is lost; unchanged, the same write is
sent again. A delayed copy of it can do no harm, since whichever copy comes first moves the counter.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from shardbatch.core.rows import Row
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

    row: Row
    before: int | None
    token: str
    deletes: bool = False

    @property
    def name(self) -> str:
        """For messages: what is written where."""
        verb = "delete" if self.deletes else "create" if self.before is None else "replace"
        key = self.row.key
        return "{} of the {} row {}".format(verb, key.table.name, "/".join((str(key.namespace), *key.values)))


def creation(row: Row) -> Write:
    """The write of a row that must not be there yet."""
    keys.check(row.key)
    return Write(row, None, uuid.uuid4().hex)


def replacement(seen: Row, new: Row) -> Write:
    """The write of ``new`` over ``seen``.

    :raises ProtocolError: if the two are not the same row, or the counter does not rise.
    """
    if seen.key != new.key or new.counter <= seen.counter:
        raise ProtocolError(
            f"A {seen.key.table.name} row may only be replaced by itself with a higher counter.",
            remedy="This is a fault in shardbatch; please report it with the log.",
        )
    return Write(new, seen.counter, uuid.uuid4().hex)


def deletion(seen: Row) -> Write:
    """The removal of a row."""
    return Write(seen, seen.counter, uuid.uuid4().hex, deletes=True)


class Writes:
    """Sends conditional writes until their outcome is known, and counts what was sent.

    ``tries`` (4) is how often one write is sent, ``reads`` (4) how often a read is; the waits between are random, up to
    ``backoff`` (0.2 s), doubled each time.
    """

    def __init__(self, tries: int = 4, backoff: float = 0.2, reads: int = 4) -> None:
        self.tries = tries
        self.reads = reads
        self.backoff = backoff
        self.sent = 0
        self._lock = threading.Lock()

    def settle(self, write: Write, send: Callable[[Write], bool], look: Callable[[Row], Stored | None]) -> bool:
        """Whether the write was applied. ``send`` says so or raises :class:`Unclear`; ``look`` is strongly consistent.

        A row that is gone after an unclear removal counts as removed by it: a removed row keeps no token.

        :raises StoreError: if the outcome cannot be learned.
        """
        doubt: Unclear | None = None
        for turn in range(self.tries):
            self._pause(turn)
            with self._lock:
                self.sent += 1
            try:
                if send(write):
                    return True
                if doubt is None:
                    return False
            except Unclear as error:
                doubt = error
            try:
                stored = look(write.row)
            except Unclear as error:
                doubt = error
                continue
            if stored is None and write.deletes:
                return True
            if stored is not None and stored.token == write.token:
                return True
            if (None if stored is None else stored.counter) != write.before:
                return False
        raise StoreError(
            f"The outcome of the {write.name} is unknown after {self.tries} tries: {doubt}.",
            remedy="Check the store and the way to it; the task may be retried, it reads the row again.",
        ) from doubt

    def ask(self, what: str, read: Callable[[], T]) -> T:
        """The answer of a read, sent again while it is unclear.

        :raises StoreError: if none came.
        """
        doubt: Unclear | None = None
        for turn in range(self.reads):
            self._pause(turn)
            try:
                return read()
            except Unclear as error:
                doubt = error
        raise StoreError(f"{what} does not answer: {doubt}.") from doubt

    def _pause(self, turn: int) -> None:
        if turn:
            time.sleep(random.uniform(0.25, 1) * self.backoff * 2 ** (turn - 1))
