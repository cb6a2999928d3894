# SPDX-License-Identifier: Apache-2.0
"""The trigger with which a claim waits, so that it holds no worker while it watches rows (PROTOCOL T8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


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
