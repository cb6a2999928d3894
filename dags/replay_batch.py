# SPDX-License-Identifier: Apache-2.0
"""Works on a committed batch again, after the work was mended: its new output replaces the old one.

Trigger it from the page of the DAG and give the id of the batch, as ``airflow shardbatch batches`` shows it. It starts
a run of the batch's own DAG, which reads nothing and moves no checkpoint, and ends as that run ends. If you clear it,
it clears that run instead of starting a second one.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from shardbatch import KinesisStream, ReplayBatchOperator, SQLLeases

with DAG(
    "replay_batch",
    schedule=None,
    doc_md=__doc__,
    params={
        "app_name": Param("flights-by-day", type="string", minLength=1, title="Application"),
        "stream": Param("flights", type="string", minLength=1, title="Stream", description="A Kinesis stream's name."),
        "batch_id": Param(
            type="string",
            minLength=1,
            pattern=r"\S",
            title="Batch",
            description="Its id, such as 20261128t012241178-8ddb39f18ac5bc3b. The run that committed it must be over.",
        ),
        "reason": Param(
            type="string", minLength=1, pattern=r"\S", title="Reason", description="It is kept on the application row."
        ),
    },
):
    ReplayBatchOperator(
        task_id="replay",
        app_name="{{ params.app_name }}",
        stream=KinesisStream("{{ params.stream }}", aws_conn_id="aws_default"),
        leases=SQLLeases(conn_id="leases_db"),
        batch_id="{{ params.batch_id }}",
        reason="{{ params.reason }}",
        wait_for_completion=True,
        poke_interval=5,
    )
