# SPDX-License-Identifier: Apache-2.0
"""Triggers: what waits in the triggerer, so that no worker is held. They take literals and carry no record.

``TimePassed`` is the wait of a claim that watches rows (PROTOCOL T8), ``Asking`` that of our sensors.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from shardbatch.errors import ShardbatchError, SourceError, StoreError

if TYPE_CHECKING:
    from shardbatch.control.questions import Answer, Question
    from shardbatch.control.shared_look import Look


#: Seconds after its begin before which no trigger of a task fires.
#:
#: A process that defers ends well, and its executor reports so. If the task runs again before the scheduler has heard
#: it, the report seems to be that of the new process: Airflow 3.3 takes the task for killed, and fails it (its issues
#: 71580 and 72716). So what is known at once is told a little later.
SETTLED_S = 5.0


async def _settled(began: float) -> None:
    """Wait until the process that deferred is known to have ended, as far as time can tell."""
    await asyncio.sleep(max(0.0, began + SETTLED_S - time.monotonic()))


class TimePassed(BaseTrigger):
    """Fires when a number of seconds have passed on the triggerer's monotonic clock since the trigger began.

    It never fires early, whatever the clocks of the workers say, and not before :data:`SETTLED_S`. If another triggerer
    takes it over, the time begins again.

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
        began = time.monotonic()
        await asyncio.sleep(self.seconds)
        await _settled(began)
        yield TriggerEvent(self.seconds)


@dataclass
class _Shared:
    """What all that wait for one application share: their latest look, when it began, and how many they are."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    look: Look | None = None
    began: float = 0.0
    askers: int = 0


class _Looks:
    """The latest look at each application in this process. Those who wait for it take turns, whatever they ask, and a
    look that is young enough serves them all."""

    def __init__(self) -> None:
        self._shared: dict[str, _Shared] = {}

    def join(self, key: str) -> None:
        """One more waits for this application."""
        self._shared.setdefault(key, _Shared()).askers += 1

    def leave(self, key: str) -> None:
        """One waits no longer. With the last one, the look goes."""
        self._shared[key].askers -= 1
        if not self._shared[key].askers:
            del self._shared[key]

    async def answer(self, key: str, asking: Asking, oldest: float) -> Answer:
        """An answer by a look that began since this was called, or at most so many seconds before.

        :raises ShardbatchError: if the look failed.
        """
        from shardbatch.control.shared_look import Look

        since = time.monotonic() - oldest
        shared = self._shared[key]
        async with shared.lock:
            if shared.look is None or shared.began < since:
                shared.look, shared.began = Look(shared.look.rest if shared.look else None), time.monotonic()
            return await sync_to_async(asking.look, thread_sensitive=False)(shared.look)


LOOKS = _Looks()


class Asking(BaseTrigger):
    """Asks the rows of an application a question until the answer is yes, it can never be yes, or a deadline has come.

    All triggers of a triggerer that wait for the same application share each look at the lease store and the stream,
    whatever they ask. They look together, at the multiples of ``every``. While the store or the stream cannot be
    asked, this is logged and asked again.

    :param question: as ``to_json`` of the question gives it.
    :param app_name: the application.
    :param stream: the name of its stream.
    :param leases: as ``to_json`` of ``SQLLeases`` or ``DynamoDBLeases`` gives it.
    :param every: seconds between two looks.
    :param deadline: when to give up, in seconds since the epoch.
    :param source: the stream itself, as ``stream_to_json`` gives it, for questions that look at it; default: they
        cannot.
    """

    def __init__(
        self,
        question: Mapping[str, Any],
        app_name: str,
        stream: str,
        leases: Mapping[str, Any],
        every: float,
        deadline: float,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.question, self.leases = dict(question), dict(leases)
        self.app_name, self.stream = app_name, stream
        self.source = None if source is None else dict(source)
        self.every, self.deadline = every, deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        names = ("question", "app_name", "stream", "leases", "every", "deadline", "source")
        return "shardbatch.triggers.Asking", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask until there is something to say, and say it once."""
        key, began = json.dumps([self.app_name, self.stream, self.leases], sort_keys=True), time.monotonic()
        LOOKS.join(key)
        try:
            outcome = await self._outcome(key)
        finally:
            LOOKS.leave(key)
        await _settled(began)
        yield TriggerEvent(outcome)

    async def _outcome(self, key: str) -> dict[str, Any]:
        why, oldest = "", self.every
        while True:
            over = time.time() >= self.deadline
            try:
                answer = await LOOKS.answer(key, self, oldest=0 if over else oldest)
            except ShardbatchError as error:
                if not error.retryable:
                    return {"outcome": "failed", "why": str(error)}
                why = could_not_ask(error)
                self.log.warning("%s", why)
            else:
                if answer.reached:
                    return {"outcome": "reached", "told": dict(answer.told or {})}
                if answer.never:
                    return {"outcome": "failed", "why": answer.why}
                if answer.then is not None:  # it has to stand among the literals, for another triggerer to go on
                    return {"outcome": "settled", "question": answer.then.to_json(), "why": answer.why}
                if answer.why != why:
                    self.log.info("%s", answer.why)
                why = answer.why
            if over:
                return {"outcome": "timeout", "why": why}
            oldest = self.every / 2
            to_next = self.every - time.monotonic() % self.every  # all that wait as long as this one wake together
            await asyncio.sleep(max(0.0, min(to_next, self.deadline - time.time())))

    def look(self, shared: Look | None = None) -> Answer:
        """Ask once, in a thread of its own.

        :param shared: what others read in the same look.

        :raises ShardbatchError: if it cannot be asked.
        """
        from shardbatch.hooks.leases import leases_from
        from shardbatch.hooks.shardbatch import ShardbatchHook

        hook = ShardbatchHook(app_name=self.app_name, stream=self.stream, leases=leases_from(self.leases))
        return hook.ask(self.asked(), shared, self.source)

    def asked(self) -> Question:
        """The question.

        :raises ConfigurationError: if this version does not know it.
        """
        from shardbatch.control.questions import question_of

        return question_of(self.question)


class AskingToClaim(Asking):
    """Asks whether there is something to claim, for a claim that waits. It fires at its deadline, too.

    It knows nothing of the run, so all runs that wait for one application share what is looked at.

    :param begin: before this it does not look, in seconds since the epoch; default: it looks at once.
    :param asking: what :class:`Asking` takes.
    """

    def __init__(self, *, begin: float = 0.0, **asking: Any) -> None:
        super().__init__(**asking)
        self.begin = begin

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        return "shardbatch.triggers.AskingToClaim", {**super().serialize()[1], "begin": self.begin}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask until there is something to say, and say it once."""
        await asyncio.sleep(max(0.0, min(self.begin, self.deadline) - time.time()))
        async for event in super().run():
            yield event

    def asked(self) -> Question:
        """Whether there is something to claim, by what Airflow says of its runs now."""
        from shardbatch.control.claimable import Claimable
        from shardbatch.tasks.liveness import liveness

        return Claimable(**self.question, liveness=liveness(str(self.question["deployment"])))


def could_not_ask(error: ShardbatchError) -> str:
    """What a wait says of an error that may pass."""
    what = "The lease store or the stream"  # a connection may be that of either
    if isinstance(error, SourceError):
        what = "The stream"
    elif isinstance(error, StoreError):
        what = "The lease store"
    return f"{what} could not be asked: {error}"
