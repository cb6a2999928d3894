# SPDX-License-Identifier: Apache-2.0
"""Everything on AWS: leases in DynamoDB, slices and results in S3. The role or keys stand in ``aws_default`` alone.

The work is a Python task to need no cluster; an EMR, Glue or Databricks operator stands in its place just as well and
takes ``batch.args`` in a templated field, the arguments from which ``shardbatch.spark.open_batch`` finds its batch.
Writing one S3 object is atomic, and the object's name is the batch's, hence ``Policies(sink="own")``.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, DeltaDataIntervalTimetable, task

from shardbatch import (
    ClaimOptions,
    DynamoDBLeases,
    KinesisStream,
    Policies,
    ReadLimits,
    Staging,
    StreamBatch,
    batch_params,
)

BUCKET = os.environ.get("FLIGHTS_BUCKET", "flights")
EVERY = timedelta(seconds=int(os.environ.get("FLIGHTS_EVERY_SECONDS", "900")))


@task
def by_month(manifest_uri: str, digest: str, bucket: str) -> None:
    """Flights of one batch per carrier and month, as a JSON object in S3."""
    import json
    from collections import Counter

    from airflow.providers.amazon.aws.hooks.s3 import S3Hook

    from shardbatch import open_batch
    from shardbatch.hooks.staging import s3_file_system

    batch = open_batch(manifest_uri, s3_file_system("aws_default", None), digest=digest)
    counts: Counter[str] = Counter()
    for data in batch.to_arrow()["data"]:
        flight = json.loads(data.as_py())
        counts[f"{flight['carrier']} {flight['year']}-{flight['month']:02d}"] += 1
    S3Hook("aws_default").load_string(json.dumps(counts), f"by_month/{batch.batch_id}.json", bucket, replace=True)


with DAG(
    "flights_on_aws",
    schedule=DeltaDataIntervalTimetable(EVERY),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=2,
    params=batch_params("flights"),
):
    with StreamBatch(
        "flights",
        app_name="flights-by-month",
        stream=KinesisStream("flights", aws_conn_id="aws_default"),
        leases=DynamoDBLeases("shard_leases", aws_conn_id="aws_default"),
        staging=Staging(f"s3://{BUCKET}/staging", aws_conn_id="aws_default"),
        limits=ReadLimits(duration=timedelta(minutes=10)),
        claim=ClaimOptions(read_tasks=4),
        policies=Policies(sink="own"),
        task_args={"read": {"execution_timeout": timedelta(minutes=30)}},
    ) as batch:
        by_month(batch.manifest_uri, batch.manifest_digest, BUCKET)
