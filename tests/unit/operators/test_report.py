# SPDX-License-Identifier: Apache-2.0
"""What fails a run after its commit, and what it says; a healthy run has no skipped task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import ReportOperator

SHARDS = {"kind": "shards", "text": "2 shards could not be read: a: refused; b: refused."}
GAP = {"kind": "gap", "text": "Records of 1 shards expired unread; the rest of these shards waits for accept-gap: c."}


def report(problems: Any) -> None:
    ReportOperator(task_id="report", problems=problems).execute({"ti": SimpleNamespace()})


def test_nothing_to_report_is_a_success() -> None:
    report([])


def test_each_problem_is_told_with_what_to_do() -> None:
    with pytest.raises(AirflowFailException) as caught:
        report([SHARDS])
    assert (type(caught.value).__name__, SHARDS["text"] in str(caught.value)) == ("ShardsFailed", True)
    with pytest.raises(AirflowFailException) as caught:
        report([GAP])
    assert type(caught.value).__name__ == "GapFound"
    assert "accept-gap" in str(caught.value)
    with pytest.raises(AirflowFailException) as caught:
        report([SHARDS, GAP])
    for part in (SHARDS["text"], GAP["text"], "The next run tries them again", "accept-gap"):
        assert part in str(caught.value)


def test_a_commit_that_a_person_marked_fails_the_run() -> None:
    with pytest.raises(AirflowFailException, match=r"marked success by hand.*Clear it"):
        report(None)
