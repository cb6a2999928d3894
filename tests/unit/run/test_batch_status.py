# SPDX-License-Identifier: Apache-2.0
"""How batches stand: who sees the output of each, and what is counted of those of interval runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core.batch import DROPPED, KEPT, Batch, BatchState
from shardbatch.core.policies import Sink
from shardbatch.core.rows import Namespace
from shardbatch.core.start import Start
from shardbatch.run.batch_status import arrived, batch_status, intervals_status, utc

LIVE = Batch(
    Namespace("etl", "orders"), "", "b1", "me", 5, BatchState.COMMITTED, 2, "2:local-7 transform", records=3, decided=2,
    starts=(Start("s1", 2, "transform", ("out",)),), committed_at_ms=9,
)  # fmt: skip
SPAN: dict[str, Any] = {"scope": "backfill", "from_ms": 0, "to_ms": 3_600_000}


@pytest.mark.parametrize(
    ("changes", "readers"),
    [
        ({}, "live"),
        ({"state": BatchState.FROZEN}, "none"),
        ({"state": BatchState.PARKED}, "none"),
        ({"state": BatchState.VOID}, "none"),
        ({"records": 0}, "none"),
        ({"set_aside": KEPT, "starts": ()}, "none"),
        ({"set_aside": DROPPED, "starts": ()}, "none"),
        ({"sink": Sink.OWN.value, "starts": ()}, "own"),
        ({"starts": ()}, "none"),
        ({**SPAN, "number": 2}, "interval"),
        ({**SPAN, "number": 2, "joins": True}, "live"),
        ({**SPAN, "number": 1}, "replaced"),
        ({**SPAN, "number": 1, "joins": True}, "replaced"),
    ],
)
def test_who_sees_the_output_of_a_batch(changes: dict[str, Any], readers: str) -> None:
    assert batch_status(replace(LIVE, **changes), {(0, 3_600_000): 2}).readers == readers


def test_a_batch_tells_its_application_and_its_interval() -> None:
    status = batch_status(replace(LIVE, **SPAN))
    assert (status.state, status.application, status.decided) == ("COMMITTED", "local-7", 2)
    assert status.interval == "1970-01-01T00:00:00Z/1970-01-01T01:00:00Z"
    assert batch_status(LIVE).interval is None


def test_interval_runs_are_counted_apart_and_what_waits_for_a_person_is_listed() -> None:
    def one(batch_id: str, **changes: Any) -> Batch:
        return replace(LIVE, batch_id=batch_id, **{**SPAN, **changes})

    found = intervals_status(
        [
            one("first", number=1, committed_at_ms=7),
            one("second", number=2, committed_at_ms=8),
            one("frozen", state=BatchState.FROZEN),
            one("parked", state=BatchState.PARKED),
            one("kept", set_aside=KEPT, starts=(), number=3, from_ms=5),
            one("void", state=BatchState.VOID),
        ]
    )
    assert (found.committed_batches, found.seen_batches, found.last_commit_ms) == (3, 1, 9)
    assert [item.batch_id for item in found.unfinished] == ["frozen", "parked"]
    assert [item.batch_id for item in found.set_aside] == ["kept"]
    assert [item.batch_id for item in found.possible_orphans] == ["void"]


def test_instants_are_iso_8601_in_utc() -> None:
    assert utc(1_767_323_045_678) == "2026-01-02T03:04:05.678Z"
    assert utc(1_767_323_045_000) == "2026-01-02T03:04:05Z"
    assert arrived(0, 1_000) == "1970-01-01T00:00:00Z/1970-01-01T00:00:01Z"
    assert arrived(None, None) == ""
