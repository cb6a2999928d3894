# SPDX-License-Identifier: Apache-2.0
"""The staging folder is there, or is made once. It may be set to another while slices or batches stand in the old one:
nothing is looked for where it is not."""

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
    """See that the staging folder is there and can be written; it is made for an application that has no rows yet.

    One that has rows has files there, or had: its folder is a mount that is missing, and an empty one would hide that.

    :raises StagingMissing: if it is not there and must not be made, or the folder above it is not there either.
    :raises StagingError: if it cannot be written.
    """
    landing = consumer.landing
    try:
        landing.check(consumer.namespace)
    except StagingMissing:
        if _has_rows(consumer):
            raise
        landing.make()
        consumer.say("Made the staging folder {}: this application has no rows yet.".format(landing.uri))
        landing.check(consumer.namespace)


def _has_rows(consumer: Consumer) -> bool:
    if consumer.application() is not None:
        return True
    tables = (SHARD_LEASE, BATCH)  # of intervals too, which need no application
    return any(True for table in tables for _ in consumer.store.list(table, consumer.namespace, None))


def require_slices_here(consumer: Consumer, rows: Iterable[Lease]) -> None:
    """See that the slices which wait on these leases stand in this run's staging folder.

    :raises StagingMoved: naming both folders, if one does not.
    """
    place = consumer.landing.outputs.place
    here = place(consumer.landing.uri)
    away = [row for row in rows if row.pending is not None and row.staging is not None and place(row.staging) != here]
    if away:
        raise StagingMoved(
            "The slices of {} stand in {}, and staging is {} now.".format(
                shortlist([row.shard_id for row in away]), away[0].staging, consumer.landing.uri
            )
        )


def require_batch_here(consumer: Consumer, batch: Batch) -> None:
    """See that a batch, whatever its state, stands in this run's staging folder.

    :raises StagingMoved: naming both places, if it does not.
    """
    if not stands_in(consumer.landing, batch):
        raise StagingMoved(
            "Batch {} stands in {}, and staging is {} now.".format(
                batch.batch_id, batch.manifest_uri, consumer.landing.uri
            )
        )


def stands_in(landing: Landing, batch: Batch) -> bool:
    """Whether a staging folder is the one in which a batch was frozen; also if nobody knows."""
    place = landing.outputs.place
    here = landing.manifest_uri(batch.namespace, batch.batch_id)
    return not batch.manifest_uri or place(batch.manifest_uri) == place(here)
