# SPDX-License-Identifier: Apache-2.0
"""What a person does to output roots, done by tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import (
    AdoptRootOperator,
    ForgetRootOperator,
    Staging,
    SumMarkersOperator,
)
from shardbatch.core.decision import Decision
from shardbatch.errors import OutputTaken
from shardbatch.landing.area import StagingArea
from shardbatch.stores.sql import SQLStore
from tests.support.actions import GIVEN, batch, run
from tests.unit.cli.rows import NAMESPACE


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """Where output roots are reached; beside it is one that another application has."""
    (tmp_path / "staging").mkdir()
    (tmp_path / "out").mkdir()
    outputs = StagingArea(str(tmp_path / "staging")).outputs
    outputs.look(str(tmp_path / "out"), (), "etl/orders", shared=False)
    outputs.mark(str(tmp_path / "out"), Decision("b0", 1, app="etl/orders"))
    return Staging(str(tmp_path / "staging"))


def test_a_root_that_is_gone_is_forgotten(store: SQLStore) -> None:
    seen = batch(store, "b1")
    assert store.replace(seen, replace(seen, roots=("/lake/out", "/lake/b1"), row_count=seen.row_count + 1))
    answer = run(ForgetRootOperator(**GIVEN, root="/lake/{{ params.gone }}/"))
    assert [(row["name"], row["result"]) for row in answer["rows"]] == [("b1", "forgot")]
    assert batch(store, "b1").roots == ("/lake/out",)
    assert run(ForgetRootOperator(**GIVEN, root="/lake/b1", batch_id="b1"))["counts"] == {"already": 1}


def test_a_root_is_adopted_and_its_markers_are_summed(store: SQLStore, staging: Staging, tmp_path: Path) -> None:
    outputs, root = StagingArea(str(tmp_path / "staging")).outputs, str(tmp_path / "out")
    preview = run(AdoptRootOperator(**GIVEN, root=root, staging=staging, preview=True))
    assert preview["counts"] == {"would adopt": 1}
    with pytest.raises(OutputTaken):
        outputs.look(root, (), str(NAMESPACE), shared=False)
    assert run(AdoptRootOperator(**GIVEN, root=root, staging=staging))["counts"] == {"adopted": 1}
    outputs.look(root, (), str(NAMESPACE), shared=False)
    assert run(SumMarkersOperator(**GIVEN, root=root, staging=staging))["counts"] == {"summed": 1}


@pytest.mark.parametrize("operator", [AdoptRootOperator, SumMarkersOperator])
def test_a_root_is_reached_through_staging(store: SQLStore, operator: Any) -> None:
    with pytest.raises(AirflowFailException, match="none is given"):
        run(operator(**GIVEN, root="/lake/out"))
