# SPDX-License-Identifier: Apache-2.0
"""The work in a plain Python task, without Spark: flights and delays per airport, one file a batch.

A file that is renamed into place is atomic by itself, and its name is the batch's: a retry replaces it. That is what
``Policies(sink="own")`` says. It reads the same stream as ``flights.py``, as an application with leases of its own.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, DeltaDataIntervalTimetable, task

from shardbatch import KinesisStream, Policies, SQLLeases, Staging, StreamBatch

FOLDER = os.environ.get("FLIGHTS_FOLDER", "/tmp/flights")
EVERY = timedelta(seconds=int(os.environ.get("FLIGHTS_EVERY_SECONDS", "900")))


@task
def by_airport(manifest_uri: str, digest: str, folder: str) -> None:
    """Sums of one batch per airport that a flight left from, as a JSON file."""
    import json
    from collections import defaultdict

    from shardbatch import open_batch

    batch = open_batch(manifest_uri, digest=digest)
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"flights": 0, "departures": 0, "delay_minutes": 0})
    for data in batch.to_arrow()["data"]:
        flight = json.loads(data.as_py())
        airport = sums[flight["origin"]]
        airport["flights"] += 1
        if flight["dep_delay"] is not None:
            airport["departures"] += 1
            airport["delay_minutes"] += flight["dep_delay"]
    file = Path(folder) / f"{batch.batch_id}.json"
    file.parent.mkdir(exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(sums, indent=1), "utf-8")
    unfinished.replace(file)


with DAG(
    "flights_in_python",
    schedule=DeltaDataIntervalTimetable(EVERY),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    with StreamBatch(
        "flights",
        app_name="flights-by-airport",
        stream=KinesisStream("flights", aws_conn_id="aws_default"),
        leases=SQLLeases(conn_id="leases_db"),
        staging=Staging(f"{FOLDER}/staging"),
        policies=Policies(sink="own"),
    ) as batch:
        by_airport(batch.manifest_uri, batch.manifest_digest, f"{FOLDER}/by_airport")
