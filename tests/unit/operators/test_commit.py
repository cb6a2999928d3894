# SPDX-License-Identifier: Apache-2.0
"""A freeze task that was marked success by hand: commit must not take that for an empty batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import CommitOperator, KinesisStream, SQLLeases, Staging


def test_it_fails_and_says_which_task_to_clear(connection: Callable[..., None], tmp_path: Path) -> None:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    commit = CommitOperator(
        task_id="commit",
        freeze_task="orders.freeze",
        app_name="etl",
        stream=KinesisStream("orders", aws_conn_id=None, region_name="eu-west-1"),
        leases=SQLLeases("leases_db"),
        staging=Staging(str(tmp_path)),
    )
    run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf={}, clear_number=0)
    ti = SimpleNamespace(dag_id="d", run_id="r", xcom_pull=lambda **_: None)
    context: Any = {"ti": ti, "dag_run": run, "params": {}}
    with pytest.raises(AirflowFailException, match=r"orders.freeze left no outputs.*Clear that task"):
        commit.execute(context)
