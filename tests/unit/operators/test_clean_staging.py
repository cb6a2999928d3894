# SPDX-License-Identifier: Apache-2.0
"""Clean-up as a task."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import CleanStagingOperator, Staging
from shardbatch.landing import layout
from shardbatch.stores.sql import SQLStore
from tests.support.actions import GIVEN, batch, run
from tests.unit.cli.rows import NAMESPACE

#: A read that lost its lease wrote it, long ago.
DEAD = f"{layout.slices_folder(NAMESPACE)}/s-free/5-t3-{'0a' * 8}/part-00000.parquet"


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    path = tmp_path / "staging" / DEAD
    path.parent.mkdir(parents=True)
    path.write_bytes(b"12345")
    os.utime(path, (1, 1))
    return Staging(str(tmp_path / "staging"))


@pytest.fixture
def tidy(store: SQLStore) -> SQLStore:
    """All batches are decided, the last one ten days ago."""
    frozen, committed = batch(store, "b2"), batch(store, "b1")
    assert store.delete(frozen)
    then = committed.created_at_ms - 10**11  # years
    aged = replace(committed, created_at_ms=then, committed_at_ms=then, row_count=committed.row_count + 1)
    assert store.replace(committed, aged)
    return store


def rows(answer: dict[str, Any]) -> dict[str, tuple[str, int, int]]:
    return {row["kind"]: (row["result"], row["number"], row["bytes"]) for row in answer["rows"]}


def test_it_previews_and_removes_with_numbers_and_bytes(tidy: SQLStore, staging: Staging, tmp_path: Path) -> None:
    preview = run(CleanStagingOperator(**GIVEN, staging=staging, preview="true"))
    assert rows(preview) == {"archive": ("would retire", 1, 100), "slices": ("would remove", 1, 5)}
    assert (tmp_path / "staging" / DEAD).exists()
    assert rows(run(CleanStagingOperator(**GIVEN, staging=staging))) == {
        "archive": ("retired", 1, 100),
        "slices": ("removed", 1, 5),
    }
    assert not (tmp_path / "staging" / DEAD).exists()
    assert batch(tidy, "b1").retired_ms is not None
    assert run(CleanStagingOperator(**GIVEN, staging=staging))["counts"] == {"already": 1}


@pytest.mark.parametrize(
    ("given", "setting", "retires"),
    [
        (None, "", True),
        (None, "36500", False),
        (timedelta(days=36500), "1", False),
        ("36500", "1", False),
        ("{{ params.gone }}", "1", AirflowFailException),
        ("{{ '' }}", "36500", False),
        (timedelta(0), "36500", True),
        ("0", "36500", True),
    ],
)
def test_how_long_is_that_of_the_task_or_else_the_setting(
    tidy: SQLStore, staging: Staging, monkeypatch: pytest.MonkeyPatch, given: Any, setting: str, retires: Any
) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__ARCHIVE_FOR", setting)
    task = CleanStagingOperator(**GIVEN, staging=staging, archive_for=given, preview=True)
    if retires is AirflowFailException:
        with pytest.raises(AirflowFailException, match="is not a number of days"):
            run(task)
    else:
        assert ("archive" in rows(run(task))) == retires


def test_what_is_left_fails_the_task_and_says_why(store: SQLStore, staging: Staging) -> None:
    with pytest.raises(AirflowFailException, match="b1: its manifest is missing, so no slice is removed"):
        run(CleanStagingOperator(**GIVEN, staging=staging))
