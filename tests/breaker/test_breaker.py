# SPDX-License-Identifier: Apache-2.0
"""Random schedules over the real use-cases, planner and stores; `make breaker` hunts for longer."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from shardbatch.core.ports import LeaseStore
from shardbatch.sources.aws.calls import _now
from tests.breaker.machine import Breaker
from tests.breaker.stores import dynamodb, memory, sqlite

EXAMPLES = int(os.environ.get("BREAKER_EXAMPLES", "120"))
STEPS = int(os.environ.get("BREAKER_STEPS", "40"))
#: What is read: a scripted stream of Kinesis' kind, and the stream of a table through its real source; of that one
#: schedule for so many of the other.
SHARES = {"stream": 1, "table": 2}
KINDS = os.environ.get("BREAKER_KINDS", " ".join(SHARES)).split()
#: Making a failing schedule small takes minutes; mutants and long hunts do without. Explaining one traces every line.
SHRUNK = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
PHASES = SHRUNK if os.environ.get("BREAKER_SHRINK", "1") == "1" else (Phase.explicit, Phase.generate)
#: Hypothesis shrinks for five minutes at most and only then says what failed: a time-out before that would hide it.
pytestmark = pytest.mark.timeout(int(os.environ.get("BREAKER_TIMEOUT", "900")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("opened", "share"), [(memory, 1), (sqlite, 8), (dynamodb, 40)], ids=["memory", "sqlite", "dynamodb"]
)
def test_nothing_is_lost_doubled_or_stuck(
    opened: Callable[[], AbstractContextManager[LeaseStore]], share: int, kind: str
) -> None:
    """``share``: one schedule for so many over memory, since these stores take that much longer."""
    with opened() as store:
        run_state_machine_as_test(
            type("Breaker", (Breaker,), {"store": store, "kind": kind}),
            settings=settings(
                max_examples=max(1, EXAMPLES // (share * SHARES[kind])),
                stateful_step_count=STEPS,
                deadline=None,
                phases=PHASES,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    assert _now.caller is None, "a process has left its call to the tests that follow in this thread"
