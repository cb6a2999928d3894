# SPDX-License-Identifier: Apache-2.0
"""How urgent an application is: the worst of what is wrong counts, and a list begins with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.overview import Overview
from shardbatch.control.urgency import Urgency, order, urgency_of

NOW, DAY = 1_800_000_000_000, 86_400_000
CALM = Overview(
    retention_ms=DAY, behind_ms=0, expires_from_ms=NOW + DAY, lost_shards=0, watermark_ms=NOW, complete_from_ms=None,
    last_commit_ms=NOW, unfinished=0, parked=0, set_aside=0, gaps=0, open_shards=1, held_shards=0, waiting=(),
    owners=(), removed=None, importing=None, claimed_by=(),
)  # fmt: skip

CASES: dict[str, tuple[dict[str, Any], Urgency, str]] = {
    "lost": ({"lost_shards": 2, "expires_from_ms": NOW - 1, "parked": 1}, Urgency.LOST, "of 2 shards may have expired"),
    "under 15 %": ({"expires_from_ms": NOW + DAY * 149 // 1000}, Urgency.SOON, "begin to expire in 3 hours"),
    "a gap": ({"gaps": 1, "parked": 1}, Urgency.SOON, "A gap of 1 shard waits"),
    "an import": ({"importing": "by ann"}, Urgency.HELD_UP, "by ann"),
    "parked": ({"parked": 2, "unfinished": 2}, Urgency.HELD_UP, "2 batches are parked"),
    "under half": ({"expires_from_ms": NOW + DAY * 49 // 100}, Urgency.HELD_UP, "Less than half"),
    "idle": ({"waiting": (("b1", "run"),), "unfinished": 1}, Urgency.WAITING, "1 batch waits"),
    "aside": ({"set_aside": 1}, Urgency.NOTED, "1 batch is set aside"),
    "removed": ({"removed": "by bob", "lost_shards": 1}, Urgency.CALM, "by bob"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_worst_counts_and_has_a_remedy(case: str) -> None:
    changes, urgency, text = CASES[case]
    found, problem = urgency_of(replace(CALM, **changes), NOW)
    assert found is urgency
    assert problem is not None
    assert text in problem.text
    assert problem.remedy.endswith(".")


def test_nothing_is_wrong_with_half_of_the_retention_left_or_while_a_run_works() -> None:
    assert urgency_of(CALM, NOW) == (Urgency.CALM, None)
    assert urgency_of(replace(CALM, expires_from_ms=NOW + DAY // 2), NOW) == (Urgency.CALM, None)
    at_work = replace(CALM, waiting=(("b1", "run"),), unfinished=1)
    assert urgency_of(at_work, NOW, {"run"}) == (Urgency.CALM, None)
    assert urgency_of(replace(CALM, expires_from_ms=None, retention_ms=None), NOW) == (Urgency.CALM, None)


def test_the_most_urgent_comes_first_then_what_is_lost_first_then_what_is_furthest_behind() -> None:
    keys = [
        order(5, 9, 1, "z"),
        order(3, 5, 1, "y"),
        order(3, 7, 9, "x"),
        order(3, 7, 1, "w"),
        order(3, 7, None, "a"),
        order(3, None, 99, "a"),
        order(0, 1, 1, "a"),
        order(0, 1, 1, "b"),
    ]
    assert sorted([*keys[4:], *keys[:4]]) == keys
