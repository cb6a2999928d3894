# SPDX-License-Identifier: Apache-2.0
"""``@task.pyspark`` in a block: the DAG of docs/launchers.md with the operator of its provider and a real Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from shardbatch.spark import read_committed
from tests.support.launched import Scene
from tests.support.pages import DOCS, blocks, parsed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_each_try_of_a_pyspark_task_writes_a_start_of_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "staging").mkdir()
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STAGING", str(tmp_path / "staging"))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setattr(type(spark), "stop", lambda _: None)  # the operator ends its session, which is all tests' here
    (block,) = [one for one in blocks(DOCS / "launchers.md", "python") if '"orders_pyspark",' in one.text]
    out = str(tmp_path / "out")
    (dag,) = parsed(block, block.text.replace("s3a://lake/orders", out))
    run = Scene(dag, tmp_path)

    run.begin("batch.write").execute()  # of this try the worker is lost
    one = run.begin("batch.write")
    one.execute()
    one.end()
    assert run.commit("batch.write").newly
    assert len(list((tmp_path / "out" / f"batch_id={run.frozen.batch_id}").glob("start=*"))) == 2
    rows = read_committed(spark, out).collect()
    assert sorted(row.json for row in rows) == run.sent
