# SPDX-License-Identifier: Apache-2.0
"""StreamWatcher: wakes a DAG when the stream that it reads has something for its application."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from shardbatch.core.wake import WakeUp, may_wake, woken
from shardbatch.errors import ShardbatchError, StoreNotFound
from shardbatch.masking import masked

if TYPE_CHECKING:
    from shardbatch.control.wake import Look

#: The longest pause between two looks that fail, in seconds, unless ``every`` is longer.
LONGEST_PAUSE_S = 300.0
#: More doublings than that ever needs.
MOST_DOUBLINGS = 10
#: How often the state store is told at least that the watcher is alive, in seconds.
SIGN_OF_LIFE_S = 300.0
#: Keys of the asset's state store: the last wake-up, and what the watcher last saw.
WAKE_UP, WATCHER = "wake_up", "watcher"


@dataclass
class _Poll:
    """What the watchers of one application in this process share: turns, the last look, and the last wake-up."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    looked: float | None = None
    wake_up: WakeUp | None = None
    said: str = ""
    told: float | None = None
    failures: int = 0
    failing_since: float | None = None


POLLS: dict[str, _Poll] = {}


class StreamWatcher(BaseEventTrigger):
    """Makes an asset event when a run of an application would find something to do, and no run is at work.

    It is the trigger of the asset that ``stream_asset`` makes. An event has no record and no position: the run that it
    wakes reads from the application's checkpoints.

    Once an event is out, the next one waits until a checkpoint has moved. If none does in ``back_off`` seconds, the
    event counts as lost and is made up for; each further one that leads to nothing waits twice as long, an hour at
    most. The last event stands in the asset's state store.

    It never ends by itself, whatever fails. What a person has to mend wakes a run too, which fails by it where people
    see it; so does a failure that lasts for ``back_off`` seconds.

    :param app_name: the application.
    :param stream_name: the name of its stream, for logs and events.
    :param stream: as ``stream_to_json`` gives it.
    :param leases: as ``to_json`` of ``SQLLeases`` or ``DynamoDBLeases`` gives it.
    :param every: seconds between two looks.
    :param back_off: seconds after which a wake-up that led to nothing is made up for.
    """

    def __init__(
        self,
        app_name: str,
        stream_name: str,
        stream: Mapping[str, Any],
        leases: Mapping[str, Any],
        every: float,
        back_off: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.app_name, self.stream_name = app_name, stream_name
        self.stream, self.leases = dict(stream), dict(leases)
        self.every, self.back_off = every, back_off
        self.who = f"{app_name}/{stream_name}"

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        names = ("app_name", "stream_name", "stream", "leases", "every", "back_off")
        return "shardbatch.stream_watcher.StreamWatcher", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, and make an event whenever a run is wanted, until Airflow ends it."""
        key = json.dumps([self.app_name, self.stream, self.leases], sort_keys=True)
        poll = POLLS.setdefault(key, _Poll())
        poll.users += 1
        try:
            while True:
                why = await self._turn(poll)
                if why is not None:
                    yield TriggerEvent({"application": self.who, "why": why, "at": _text(time.time())})
                longest = max(self.every, LONGEST_PAUSE_S)
                await asyncio.sleep(min(longest, self.every * 2 ** min(poll.failures, MOST_DOUBLINGS)))
        finally:
            poll.users -= 1
            if not poll.users:
                POLLS.pop(key, None)

    async def _turn(self, poll: _Poll) -> str | None:
        """One look, unless another watcher has just looked: why a run is woken, or ``None``."""
        async with poll.lock:
            if poll.looked is not None and time.monotonic() - poll.looked < self.every / 2:
                return None
            try:
                return await self._look(poll)
            except Exception:  # Airflow would start a trigger that raises again and again, every 2 seconds
                poll.failures += 1
                self.log.exception("The watcher of %s has a fault. It goes on.", self.who)
                return None
            finally:
                poll.looked = time.monotonic()

    async def _look(self, poll: _Poll) -> str | None:
        last = await self._last(poll)
        try:
            found = await sync_to_async(self.look, thread_sensitive=False)(last)
            poll.failures, poll.failing_since = 0, None
        except Exception as error:  # noqa: BLE001 - told by the log, the state store and, if it stays, a red run
            found = self._failed(poll, error, last)
        await self._tell(poll, found)
        if not found.due:
            return None
        poll.wake_up = woken(last, found.places, _now_ms(), to_look=found.to_look)
        await self._keep(WAKE_UP, {**poll.wake_up.to_json(), "at": _text(time.time()), "why": found.why})
        return found.why

    def _failed(self, poll: _Poll, error: Exception, last: WakeUp | None) -> Look:
        """What follows from a failure: a run shall fail by what a person has to mend, or by what lasts."""
        from shardbatch.control.wake import Look

        poll.failures += 1
        if poll.failing_since is None:
            poll.failing_since = time.monotonic()
        lasts = time.monotonic() - poll.failing_since >= self.back_off
        final = isinstance(error, ShardbatchError) and not error.retryable
        text = str(error) if isinstance(error, ShardbatchError) else f"{type(error).__name__}: {masked(str(error))}"
        places = "" if last is None else last.places
        due = (lasts or final) and self._may_wake(last, places)
        return Look(due, f"The stream could not be looked at. {text}", places)

    def _may_wake(self, last: WakeUp | None, places: str, *, to_look: bool = False) -> bool:
        return may_wake(last, places, _now_ms(), int(self.back_off * 1000), to_look=to_look)

    def look(self, last: WakeUp | None) -> Look:
        """Look once, in a thread of its own.

        :param last: the last wake-up.
        :raises ShardbatchError: if the rows or the stream cannot be asked.
        """
        from shardbatch.control.wake import look
        from shardbatch.hooks.lazy_source import LazySource
        from shardbatch.hooks.leases import existing_store, leases_from
        from shardbatch.hooks.names import namespace_of
        from shardbatch.hooks.settings import deployment_id
        from shardbatch.hooks.stream_literals import stream_from
        from shardbatch.run.consumer import Rows
        from shardbatch.tasks.liveness import liveness

        stream, leases = stream_from(self.stream), leases_from(self.leases)
        namespace = namespace_of(self.app_name, stream.stream_name)
        ask = partial(look, liveness=liveness(deployment_id(leases)), may_wake=partial(self._may_wake, last))
        with closing(LazySource(stream.stream_name, partial(stream.open, self.app_name))) as source:
            try:
                with existing_store(leases) as store:
                    return ask(Rows(namespace=namespace, store=store), source)
            except StoreNotFound:
                return ask(None, source)

    # ------------------------------------------------------------------ what outlives this process

    async def _last(self, poll: _Poll) -> WakeUp | None:
        """The last wake-up: that of the state store, unless this process knows a later one."""
        kept = WakeUp.from_json(await self._kept(WAKE_UP))
        known = [one for one in (kept, poll.wake_up) if one is not None]
        return max(known, key=lambda one: one.at_ms, default=None)

    async def _tell(self, poll: _Poll, found: Look) -> None:
        """Log what is new, and leave a sign of life in the state store now and then."""
        now, new = time.monotonic(), found.why != poll.said
        if new or found.due:
            log = self.log.warning if poll.failures else self.log.info
            log("%s: %s%s", self.who, found.why, " A run is woken." if found.due else "")
        if new or poll.told is None or now - poll.told >= SIGN_OF_LIFE_S:
            poll.said, poll.told = found.why, now
            await self._keep(WATCHER, {"looked": _text(time.time()), "found": found.why, "failures": poll.failures})

    async def _kept(self, key: str) -> Any:
        if self.asset_state_store is None:
            return None
        try:
            return await sync_to_async(self.asset_state_store.get, thread_sensitive=False)(key)
        except Exception as error:  # noqa: BLE001 - then this process's memory counts
            self.log.warning("The asset's state store could not be read: %s", masked(str(error)))
            return None

    async def _keep(self, key: str, value: dict[str, Any]) -> None:
        if self.asset_state_store is None:
            return
        try:
            await sync_to_async(self.asset_state_store.set, thread_sensitive=False)(key, value)
        except Exception as error:  # noqa: BLE001 - then this process's memory counts
            self.log.warning("The asset's state store could not be written: %s", masked(str(error)))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
