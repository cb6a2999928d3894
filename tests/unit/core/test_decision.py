# SPDX-License-Identifier: Apache-2.0
"""Decisions: what a marker of an output root tells of a batch."""

from __future__ import annotations

import pytest

from shardbatch.core.decision import Decision

DECISION = Decision(
    "b1", 3, (("s1", 2), ("s2", 3)), "etl/orders", (1, 2), 4, True, 5, 6, 7, ("/out", "s3://lake/rejects")
)


def test_a_decision_survives_json_and_passes_over_later_fields() -> None:
    assert Decision.from_json(DECISION.to_json()) == DECISION
    assert Decision.from_json({**DECISION.to_json(), "folders": [], "later": 1}) == DECISION


def test_a_marker_of_the_first_version_tells_a_live_batch_of_an_unknown_application() -> None:
    told = {"batch_id": "b1", "decided": 1, "starts": [{"start_id": "s1", "attempt": 1}]}
    assert Decision.from_json(told) == Decision("b1", 1, (("s1", 1),))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"batch_id": "b1", "decided": 1},
        {"batch_id": "b1", "decided": "x", "starts": []},
        {"batch_id": "b1", "decided": 1, "starts": [{"start_id": "s1", "attempt": None}]},
        {"batch_id": "b1", "decided": 1, "starts": 7},
    ],
)
def test_what_is_no_decision_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Decision.from_json(wrong)
