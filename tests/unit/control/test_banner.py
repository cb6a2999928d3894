# SPDX-License-Identifier: Apache-2.0
"""The one line about a run: what failed it first, in the words of its error, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.control.banner import Failed, TaskError, banner
from shardbatch.core.batch import BatchState
from tests.unit.cli.rows import frozen_batch

ERROR = TaskError("StagingMissing", "The staging folder is gone.", "Make it.")
BATCH = {"orders": frozen_batch()}
PARKED = {"orders": replace(frozen_batch(state=BatchState.PARKED), note="ann parked: its sink is away")}


def test_it_is_about_what_failed_first_in_the_words_of_its_error_and_counts_the_rest() -> None:
    found = banner(
        [
            Failed("after", ended_ms=30),
            Failed("orders.work", ended_ms=20, group_id="orders"),
            Failed("orders.read", map_index=3, ended_ms=10, group_id="orders", error=ERROR),
            Failed("orders.read", map_index=4, ended_ms=10, group_id="orders", error=ERROR),
            Failed("unknown"),
        ],
        BATCH,
    )
    assert found is not None
    assert (found.level, found.task_id, found.remedy) == ("error", "orders.read", "Make it.")
    assert found.text == (
        "Task orders.read [3] failed: StagingMissing: The staging folder is gone. 3 more tasks failed."
    )


def test_the_task_that_is_looked_at_comes_first_if_it_failed_itself() -> None:
    failed = [Failed("orders.claim", ended_ms=1, group_id="orders", error=ERROR), Failed("after", ended_ms=2)]
    assert [getattr(banner(failed, {}, task_id=name), "task_id", None) for name in ("after", "orders.freeze", "")] == [
        *("after", "orders.claim", "orders.claim"),
    ]


@pytest.mark.parametrize(
    ("one", "says", "remedy"),
    [
        (Failed("orders.work", group_id="orders"), "an error of the work itself. Batch b2 waits for it.", "Mend"),
        (Failed("orders.freeze", group_id="orders"), "left no error", "See its log"),
        (Failed("after"), "is not a task of a batch", "Its log says why."),
    ],
)
def test_a_task_that_left_no_error_is_told_by_what_it_is(one: Failed, says: str, remedy: str) -> None:
    found = banner([one], BATCH)
    assert found is not None
    assert says in found.text
    assert remedy in found.remedy


def test_what_is_tried_again_is_a_warning_and_comes_behind_every_failure() -> None:
    again = Failed("orders.claim", ended_ms=1, group_id="orders", again=True, error=ERROR)
    found = banner([again], {})
    assert found is not None
    assert (found.level, found.text) == (
        "warning",
        "Task orders.claim is tried again: StagingMissing: The staging folder is gone.",
    )
    failed = banner([again, Failed("after", ended_ms=2)], {})
    assert failed is not None
    assert (failed.level, failed.task_id) == ("error", "after")
    assert "more" not in failed.text


def test_without_a_failure_a_parked_batch_waits_for_a_person_and_then_what_others_hold() -> None:
    held = "Another run holds all shards."
    parked = banner([], PARKED, nothing_claimed=held)
    assert parked is not None
    assert (parked.level, parked.text) == ("warning", "Batch b2 is parked: ann parked: its sink is away.")
    assert "unpark" in parked.remedy
    waits = banner([], BATCH, nothing_claimed=held)
    assert waits is not None
    assert (waits.level, waits.text) == ("warning", held)
    assert banner([], BATCH) is None
