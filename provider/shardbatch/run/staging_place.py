# SPDX-License-Identifier: Apache-2.0
"""Checks that the staging folder exists, or creates it once. If staging is set to another folder while slices or
batches are in the old one, they are not searched for in the wrong place."""

from __future__ import annotations

from collections.abc import Iterable

from shardbatch.core.batch import Batch
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing
from shardbatch.core.rows import BATCH, SHARD_LEASE
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import StagingMissing, StagingMoved
from shardbatch.run.consumer import Consumer


def require_folder(consumer: Consumer) -> None:
    """Check that the staging folder exists and can be written. It is created for an application that has no rows yet.

    An application with rows has, or had, files there: a missing folder is a missing mount, and an empty folder would
    hide that.

    :raises StagingMissing: if it does not exist and must not be created, or the folder above it does not exist.
    :raises StagingError: if it cannot be written.
    """
    landing = consumer.landing
    try:
        landing.check(consumer.namespace)
    except StagingMissing:
        if _has_rows(consumer):
            raise
        landing.make()
        consumer.say(f"Made the staging folder {landing.uri}: this application has no rows yet.")
        landing.check(consumer.namespace)


def _has_rows(consumer: Consumer) -> bool:
    if consumer.application() is not None:
        return True
    tables = (SHARD_LEASE, BATCH)  # of intervals too, which need no application
    return any(True for table in tables for _ in consumer.store.list(table, consumer.namespace, None))


def require_slices_here(consumer: Consumer, rows: Iterable[Lease]) -> None:
    """Check that the slices that wait on these leases are in this run's staging folder.

    :raises StagingMoved: naming both folders, if one is not.
    """
    place = consumer.landing.outputs.place
    here = place(consumer.landing.uri)
    away = [row for row in rows if row.pending is not None and row.staging is not None and place(row.staging) != here]
    if away:
        raise StagingMoved(
            f"The slices of {shortlist([row.shard_id for row in away])} stand in {away[0].staging}, and staging is "
            f"{consumer.landing.uri} now."
        )


def require_batch_here(consumer: Consumer, batch: Batch) -> None:
    """Check that a batch, whatever its state, is in this run's staging folder.

    :raises StagingMoved: naming both places, if it is not.
    """
    if not stands_in(consumer.landing, batch):
        raise StagingMoved(
            f"Batch {batch.batch_id} stands in {batch.manifest_uri}, and staging is {consumer.landing.uri} now."
        )


def stands_in(landing: Landing, batch: Batch) -> bool:
    """Whether a staging folder is the one in which a batch was frozen; true if that is unknown."""
    place = landing.outputs.place
    here = landing.manifest_uri(batch.namespace, batch.batch_id)
    return not batch.manifest_uri or place(batch.manifest_uri) == place(here)
