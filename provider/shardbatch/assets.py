# SPDX-License-Identifier: Apache-2.0
"""The asset that stands for an application's committed batches."""

from __future__ import annotations

from airflow.sdk import Asset

from shardbatch.hooks.names import asset_uri


def committed_batches(app_name: str, stream_name: str) -> Asset:
    """The asset of an application: every newly committed batch with records makes an event of it.

    A DAG that is scheduled on the asset should treat an event as a signal to look, not as data or a count, because
    Airflow may merge events that come close together. An event's ``extra`` has the batch's id, counts, lag and some
    checkpoints.
    """
    return Asset(name=f"{app_name}/{stream_name}", uri=asset_uri(app_name, stream_name), group="shardbatch")
