# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.02


def wait_until(predicate: Callable[[], T], timeout: float, what: str) -> T:
    """Asks again until the answer is true, and returns it.

    :param predicate: asked at least once; what it raises is raised here.
    :param timeout: seconds after which to give up.
    :param what: what is waited for, as it shall stand in the error: "the stream to be active".
    :raises AssertionError: with `what` and the last answer, when the time is over.
    """
    deadline = time.monotonic() + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}; the last answer was {answer!r}")
        time.sleep(PAUSE)
