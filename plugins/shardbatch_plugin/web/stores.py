# SPDX-License-Identifier: Apache-2.0
"""Lease stores and staging folders, asked at the same time: one that does not answer keeps no other waiting.

What was read is kept for a moment, for all users; who may see it is asked after it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, Generic, TypeVar

from shardbatch.core.ports import Landing, LeaseStore
from shardbatch.errors import ShardbatchError
from shardbatch.hooks.leases import DynamoDBLeases, Leases, existing_store, store_digest
from shardbatch.hooks.staging import Staging

S = TypeVar("S")
T = TypeVar("T")

#: Seconds for which an answer is waited for, and for which one is that has just not answered: who looks at the page
#: again shall not wait for it each time.
LIMIT_S, SILENT_S = 8.0, 1.0
#: Seconds for which an answer is given again.
FRESH_S = 1.5
#: Questions that one store is asked at a time, and that wait for it at most.
AT_ONCE, MOST_OPEN = 4, 64
#: Requests that wait longer than :data:`SILENT_S` at a time, for all stores: each has one of the 40 threads by which
#: Airflow's API server answers all that is asked of it.
LONG_WAITS = threading.BoundedSemaphore(12)


class NoAnswer(ShardbatchError):
    """A lease store or a staging folder has not answered in time."""


@dataclass(frozen=True)
class Place:
    """A lease store as a DAG or the setting names it, whether its tables may be made there or not."""

    leases: Leases

    @cached_property
    def key(self) -> str:
        """A short digest, which tells this place from others and shows nothing of it."""
        return store_digest(self.leases)

    @property
    def label(self) -> str:
        """What a person calls it. A connection's id, or a table's name: no secret."""
        if isinstance(self.leases, DynamoDBLeases):
            return f"dynamodb://{self.leases.table}"
        return f"sql://{self.leases.conn_id}"


@dataclass
class _Asked:
    future: Future[Any]
    until: float | None = None


class Asker(Generic[S]):
    """Asks one store, a few questions at a time. Who asks what was asked just now, or is still waited for, gets the
    same answer.

    :param name: what people call it.
    :param opened: opens it for one question, and closes it behind it.
    """

    def __init__(self, name: str, opened: Callable[[], AbstractContextManager[S]]) -> None:
        self._name = name
        self._opened = opened
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="shardbatch-page")
        self._asked: dict[Hashable, _Asked] = {}
        self._silent = False
        self._lock = threading.RLock()  # an answer may be there before the question is noted

    def begin(self, question: Hashable, read: Callable[[S], T], fresh_s: float | None = None) -> Future[T]:
        """Begin to ask.

        :param question: names what is read.
        :param read: reads it from the store, which is closed behind it.
        :param fresh_s: seconds for which the answer is given again, default :data:`FRESH_S`; a failure is never.
        """
        with self._lock:
            now = time.monotonic()
            for name in [name for name, asked in self._asked.items() if asked.until is not None and asked.until <= now]:
                del self._asked[name]
            known = self._asked.get(question)
            if known is None and sum(asked.until is None for asked in self._asked.values()) >= MOST_OPEN:
                refused: Future[T] = Future()
                refused.set_exception(self._no_answer())
                return refused
            if known is None:
                known = self._asked[question] = _Asked(self._pool.submit(self._read, read))
                known.future.add_done_callback(lambda done: self._keep(question, done, fresh_s))
        return known.future

    def ask(self, question: Hashable, read: Callable[[S], T], fresh_s: float | None = None) -> T:
        """Ask, and wait for the answer.

        :raises NoAnswer: if it does not come in time.
        :raises ShardbatchError: as the reading does.
        """
        return self.answer(self.begin(question, read, fresh_s), LIMIT_S)

    def answer(self, begun: Future[T], seconds: float) -> T:
        """The answer to what was begun.

        :raises NoAnswer: if it does not come within these seconds.
        :raises ShardbatchError: as the reading does.
        """
        short = max(0.0, min(seconds, SILENT_S))
        ended = bool(wait((begun,), short).done)
        if not ended and seconds > short and not self._silent and LONG_WAITS.acquire(blocking=False):
            try:
                ended = bool(wait((begun,), seconds - short).done)
            finally:
                LONG_WAITS.release()
            self._silent = not ended
        if not ended:
            raise self._no_answer()
        return begun.result()

    def _no_answer(self) -> NoAnswer:
        return NoAnswer(
            f"{self._name} has not answered in time.",
            remedy="See that the API server reaches it, as the workers do. The page asks again by itself.",
        )

    def _read(self, read: Callable[[S], T]) -> T:
        with self._opened() as store:
            return read(store)

    def _keep(self, question: Hashable, done: Future[Any], fresh_s: float | None) -> None:
        with self._lock:
            if done.exception() is not None:
                self._asked.pop(question, None)
                return
            self._silent = False
            if question in self._asked:
                self._asked[question].until = time.monotonic() + (FRESH_S if fresh_s is None else fresh_s)


_askers: dict[str, Asker[Any]] = {}
_askers_lock = threading.Lock()


def store_asker(place: Place) -> Asker[LeaseStore]:
    """The one that asks this lease store, in this process."""
    return _asker(place.key, f"The lease store {place.label}", partial(existing_store, place.leases))


def staging_asker(staging: Staging) -> Asker[Landing]:
    """The one that asks this staging folder, in this process."""
    return _asker(_digest(asdict(staging)), f"The staging folder {staging.uri}", partial(_opened_staging, staging))


def _asker(key: str, name: str, opened: Callable[[], AbstractContextManager[Any]]) -> Asker[Any]:
    with _askers_lock:
        return _askers.setdefault(key, Asker(name, opened))


@contextmanager
def _opened_staging(staging: Staging) -> Iterator[Landing]:
    yield staging.open()


def _digest(value: dict[str, Any]) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
