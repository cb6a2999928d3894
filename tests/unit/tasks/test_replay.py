# SPDX-License-Identifier: Apache-2.0
"""Where a batch's files are looked for, by the command line and by a task."""

from __future__ import annotations

import pytest

from shardbatch import Staging
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.rows import Namespace
from shardbatch.tasks.replay import _staging


@pytest.mark.parametrize(("setting", "conn_id"), [("s3a://lake/staging?aws_conn_id=lake", "lake"), ("/staging", None)])
def test_a_batch_on_s3_is_reached_as_the_deployments_staging_on_s3_is(
    monkeypatch: pytest.MonkeyPatch, setting: str, conn_id: str | None
) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STAGING", setting)
    space = Namespace("etl", "orders")
    row = Batch(
        space,
        "",
        "b-1",
        "o",
        1,
        BatchState.FROZEN,
        manifest_uri="s3://lake/staging/etl/orders/batches/b-1/manifest.json",
    )
    assert _staging(space, row) == Staging("s3://lake/staging", conn_id)
