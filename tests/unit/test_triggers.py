# SPDX-License-Identifier: Apache-2.0
"""No trigger of a task fires before Airflow can have heard that the process which deferred has ended."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

from shardbatch.control.claimable import Claimable
from shardbatch.control.questions import CommittedUpTo
from shardbatch.hooks.leases import SQLLeases
from shardbatch.triggers import Asking, AskingToClaim, TimePassed

#: What each knows at once: that its time has passed, and of the others that their deadline has.
OVER: dict[str, Any] = {
    "app_name": "etl", "stream": "orders",
    "leases": SQLLeases("nowhere").to_json(), "every": 60.0, "deadline": 0.0,
}  # fmt: skip
KNOW_AT_ONCE = (
    TimePassed(0.0),
    Asking(question=CommittedUpTo(0).to_json(), **OVER),
    AskingToClaim(question=Claimable("airflow", 60_000).to_json(), **OVER),
)


@pytest.mark.parametrize("trigger", KNOW_AT_ONCE, ids=lambda one: type(one).__name__)
def test_what_is_known_at_once_is_told_a_little_later(trigger: BaseTrigger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardbatch.triggers.SETTLED_S", 0.2)

    async def passed() -> float:
        began = time.monotonic()
        await anext(trigger.run())
        return time.monotonic() - began

    assert asyncio.run(asyncio.wait_for(passed(), 30)) >= 0.2
