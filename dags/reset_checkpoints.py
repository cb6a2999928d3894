# SPDX-License-Identifier: Apache-2.0
"""Moves the checkpoints of an application, after a person has seen what that does and has approved it.

Trigger it from the page of the DAG and fill in the form. The run first shows what the reset would do to each shard,
and waits: open *Required Actions* of the run, read it, and approve or reject it. If you reject it, nothing is changed
and the run succeeds. Without an answer within a day, nothing is changed and the run fails. If you approve it, the reset
begins at once. What has an owner at work is left as it was, unless you force it; then nothing is reset and the run
fails.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param

from shardbatch import KinesisStream, ResetOperator, SQLLeases, Staging

FOLDER = os.environ.get("FLIGHTS_FOLDER", "/tmp/flights")
RESET = {
    "app_name": "{{ params.app_name }}",
    "stream": KinesisStream("{{ params.stream }}", aws_conn_id="aws_default"),
    "leases": SQLLeases(conn_id="leases_db"),
    "staging": Staging(f"{FOLDER}/staging"),
    "to": "{{ params.to }}",
    "shards": "{{ (params.shards or []) | join(',') }}",
    "every": "{{ not params.shards }}",
    "force": "{{ params.force }}",
    "reason": "{{ params.reason }}",
}
#: What the person reads who approves; a reset of many shards is shown whole in the log of `preview`. The reason stands
#: indented, which shows it as it was written: it could else look like a line of the preview.
SHOWN = """
{% set found = ti.xcom_pull(task_ids='preview') %}
{{ params.reason | indent(4, true, true) }}

{% for row in found.rows %}
* **{{ row.kind }} {{ row.name }}**: {{ row.result }}. {{ row.effect or row.why }}
{% endfor %}

In all: {{ found.counts }}. The log of the task `preview` has a line for each.
"""

with DAG(
    "reset_checkpoints",
    schedule=None,
    doc_md=__doc__,
    params={
        "app_name": Param("flights-by-day", type="string", minLength=1, title="Application"),
        "stream": Param("flights", type="string", minLength=1, title="Stream", description="A Kinesis stream's name."),
        "to": Param(
            type="string",
            minLength=1,
            title="Position",
            description="TRIM_HORIZON, an instant like 2026-11-28T00:00:00+00:00, or for one shard a checkpoint.",
        ),
        "shards": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "minLength": 1},
            title="Shards",
            description="One a line; their descendants go with them. Empty: all shards.",
        ),
        "force": Param(
            default=False,
            type="boolean",
            title="Force",
            description="Also what an owner is, or may be, at work on; that run then fails.",
        ),
        "reason": Param(
            type="string", minLength=1, pattern=r"\S", title="Reason", description="It is kept on the rows."
        ),
    },
):
    preview = ResetOperator(task_id="preview", preview=True, **RESET)
    approve = ApprovalOperator(
        task_id="approve",
        subject="Reset {{ params.app_name }} on {{ params.stream }} to {{ params.to }}?",
        body=SHOWN,
        response_timeout=timedelta(days=1),
    )
    preview >> approve >> ResetOperator(task_id="reset", **RESET)
