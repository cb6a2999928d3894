# SPDX-License-Identifier: Apache-2.0
"""The asset that stands for an application's committed batches."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset

#: With ``x-`` before it Airflow takes a URI as it stands; else it loads the asset handlers of every provider to ask
#: them, boto3 among them, in each parse and each task.
SCHEME = "x-shardbatch"


def committed_batches(app_name: str, stream_name: str) -> Asset:
    """The asset of which every committed batch with records makes an event.

    A DAG that is scheduled on it should take an event for a call to look, not for data or a count: events that come
    close together may be merged. An event's ``extra`` has the batch's id, counts, lag and some checkpoints.
    """
    address = f"{quote(app_name, safe='')}/{quote(stream_name, safe='')}"
    return Asset(name=f"{app_name}/{stream_name}", uri=f"{SCHEME}://{address}", group="shardbatch")
