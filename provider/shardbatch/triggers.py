# SPDX-License-Identifier: Apache-2.0
"""Triggers: what waits in the triggerer, so that no worker is held. They take literals and carry no record.

``TimePassed`` is the wait of a claim that watches rows (PROTOCOL T8), ``Asking`` that of our sensors.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from shardbatch.errors import ShardbatchError

if TYPE_CHECKING:
    from shardbatch.control.questions import Answer


class TimePassed(BaseTrigger):
    """Fires when a number of seconds have passed on the triggerer's monotonic clock since the trigger began.

    It never fires early, whatever the clocks of the workers say. If another triggerer takes it over, the time begins
    again.

    :param seconds: the time to wait, 0 or more.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        return "shardbatch.triggers.TimePassed", {"seconds": self.seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once."""
        await asyncio.sleep(self.seconds)
        yield TriggerEvent(self.seconds)


class _Looks:
    """The latest answer to each question in this process: those who ask the same take turns, and an answer that is
    young enough serves them all."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._found: dict[str, tuple[float, Answer | ShardbatchError]] = {}
        self._askers: dict[str, int] = {}

    def join(self, key: str) -> None:
        """One more asks this."""
        self._askers[key] = self._askers.get(key, 0) + 1

    def leave(self, key: str) -> None:
        """One asks no longer. With the last one, the answer goes."""
        self._askers[key] -= 1
        if not self._askers[key]:
            for kept in (self._askers, self._found, self._locks):
                kept.pop(key, None)

    async def answer(self, key: str, asking: Asking, oldest: float) -> Answer:
        """An answer, or failure, of a look that began since this was called, or at most so many seconds before.

        :raises ShardbatchError: if the look failed.
        """
        since = time.monotonic() - oldest
        async with self._locks.setdefault(key, asyncio.Lock()):
            at, found = self._found.get(key, (0.0, None))
            if found is None or at < since:
                at = time.monotonic()
                try:
                    found = await sync_to_async(asking.look, thread_sensitive=False)()
                except ShardbatchError as error:  # the others shall not each wait for a store that is away
                    found = error
                self._found[key] = at, found
        if isinstance(found, ShardbatchError):
            raise found
        return found


LOOKS = _Looks()


class Asking(BaseTrigger):
    """Asks the rows of an application a question until the answer is yes, it can never be yes, or a deadline has come.

    All triggers of a triggerer that ask the same share each look at the lease store. While the store cannot be asked,
    this is logged and asked again.

    :param question: as ``to_json`` of the question gives it.
    :param app_name: the application.
    :param stream: the name of its stream.
    :param leases: as ``to_json`` of ``SQLLeases`` or ``DynamoDBLeases`` gives it.
    :param every: seconds between two looks.
    :param deadline: when to give up, in seconds since the epoch.
    """

    def __init__(
        self,
        question: Mapping[str, Any],
        app_name: str,
        stream: str,
        leases: Mapping[str, Any],
        every: float,
        deadline: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.question, self.leases = dict(question), dict(leases)
        self.app_name, self.stream = app_name, stream
        self.every, self.deadline = every, deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        names = ("question", "app_name", "stream", "leases", "every", "deadline")
        return "shardbatch.triggers.Asking", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask until there is something to say, and say it once."""
        key = json.dumps([self.question, self.app_name, self.stream, self.leases], sort_keys=True)
        LOOKS.join(key)
        try:
            yield TriggerEvent(await self._outcome(key))
        finally:
            LOOKS.leave(key)

    async def _outcome(self, key: str) -> dict[str, Any]:
        why = ""
        while True:
            over = time.time() >= self.deadline
            try:
                answer = await LOOKS.answer(key, self, oldest=0 if over else self.every / 2)
            except ShardbatchError as error:
                if not error.retryable:
                    return {"outcome": "failed", "why": str(error)}
                why = f"The lease store could not be asked: {error}"
                self.log.warning("%s", why)
            else:
                if answer.reached:
                    return {"outcome": "reached", "told": dict(answer.told or {})}
                if answer.never:
                    return {"outcome": "failed", "why": answer.why}
                if answer.why != why:
                    self.log.info("%s", answer.why)
                why = answer.why
            if over:
                return {"outcome": "timeout", "why": why}
            await asyncio.sleep(max(0.0, min(self.every, self.deadline - time.time())))

    def look(self) -> Answer:
        """Ask once, in a thread of its own.

        :raises ShardbatchError: if it cannot be asked.
        """
        from shardbatch.control.questions import question_of
        from shardbatch.hooks.leases import leases_from
        from shardbatch.hooks.shardbatch import ShardbatchHook

        hook = ShardbatchHook(app_name=self.app_name, stream=self.stream, leases=leases_from(self.leases))
        return hook.ask(question_of(self.question))
