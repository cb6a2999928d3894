# SPDX-License-Identifier: Apache-2.0
"""The single operators, wired by hand: for tasks that shall not stand in one group. ``StreamBatch`` does all of this.

Five things are not to be forgotten: freeze is a setup task, so that clearing the work opens an attempt, and knows
commit, so that it refuses an attempt that nothing would commit; commit stands after *all* of the work and has the
trigger rule ``none_failed``, so that an empty batch, whose work is skipped, is committed too; all steps name the same
application; a report task after commit fails a run that left a shard out; and every task that works on the batch
leaves an end record. ``SparkSubmitBatchOperator`` does that by itself, another operator needs
``record_end(task, freeze_task="freeze", **APPLICATION)``.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, DeltaDataIntervalTimetable

from shardbatch import (
    ClaimOperator,
    CommitOperator,
    FreezeOperator,
    KinesisStream,
    ReadOperator,
    ReportOperator,
    SparkSubmitBatchOperator,
    SQLLeases,
    Staging,
)

FOLDER = os.environ.get("FLIGHTS_FOLDER", "/tmp/flights")
EVERY = timedelta(seconds=int(os.environ.get("FLIGHTS_EVERY_SECONDS", "900")))
APPLICATION = {
    "app_name": "flights-by-hand",
    "stream": KinesisStream("flights", aws_conn_id="aws_default"),
    "leases": SQLLeases(conn_id="leases_db"),
    "staging": Staging(f"{FOLDER}/staging"),
}

with DAG(
    "flights_by_hand",
    schedule=DeltaDataIntervalTimetable(EVERY),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    claim = ClaimOperator(task_id="claim", skips=["read", "freeze", "by_day", "commit", "report"], **APPLICATION)
    read = ReadOperator.partial(task_id="read", **APPLICATION).expand(entry=claim.output)
    freeze = FreezeOperator(
        task_id="freeze",
        handed=claim.output["batch_id"],
        claim_id=claim.output["claim_id"],
        skips=["by_day"],
        commit_task="commit",
        trigger_rule="none_failed",
        **APPLICATION,
    ).as_setup()
    by_day = SparkSubmitBatchOperator(
        task_id="by_day",
        application=str(Path(__file__).parent / "jobs" / "flights.py"),
        application_args=[f"{FOLDER}/by_hand"],
        conf={"spark.log.level": "WARN"},
        manifest_uri=freeze.output["manifest_uri"],
        manifest_digest=freeze.output["manifest_digest"],
        batch_id=freeze.output["batch_id"],
        attempt=freeze.output["attempt"],
        **APPLICATION,
    )
    commit = CommitOperator(
        task_id="commit",
        freeze_task="freeze",
        work=["by_day"],
        claim_task="claim",
        read_task="read",
        trigger_rule="none_failed",
        **APPLICATION,
    )
    read >> freeze >> by_day >> commit
    # What must fail the run although the batch was committed: a shard that could not be read, a gap.
    ReportOperator(task_id="report", problems=commit.output)
