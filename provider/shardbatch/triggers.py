# SPDX-License-Identifier: Apache-2.0
"""The trigger that a claim waits with, so that it holds no worker while it looks on (PROTOCOL T8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class TimePassed(BaseTrigger):
    """Fires when so many seconds have passed on the triggerer's monotonic clock, counted from when it began.

    It never fires early, whatever the clocks of the worker before and the one after say: a triggerer that takes it over
    begins anew.

    :param seconds: the time, 0 or more.
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
