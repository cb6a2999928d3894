# SPDX-License-Identifier: Apache-2.0
"""The asset that stands for an application's committed batches."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset

#: With ``x-`` before it Airflow takes a URI as it stands; else it loads the asset handlers of every provider to ask
#: them, boto3 among them, in each parse and each task.
SCHEME = "x-shardbatch"


def committed_batches(app_name: str, stream_name: str) -> Asset:
    """The asset of an application: every newly committed batch with records makes an event of it.

    A DAG that is scheduled on the asset should treat an event as a signal to look, not as data or a count, because
    Airflow may merge events that come close together. An event's ``extra`` has the batch's id, counts, lag and some
    checkpoints.
    """
    address = f"{quote(app_name, safe='')}/{quote(stream_name, safe='')}"
    return Asset(name=f"{app_name}/{stream_name}", uri=f"{SCHEME}://{address}", group="shardbatch")
