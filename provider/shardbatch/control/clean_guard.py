# SPDX-License-Identifier: Apache-2.0
"""Whether the rows that a clean-up goes by are those of the runs that filled the staging folder (PROTOCOL A10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from shardbatch.control.action import STAGING
from shardbatch.core.batch import Batch
from shardbatch.core.cleaning import BatchFolder, CleanedLanding, SliceFolder
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing
from shardbatch.core.rows import Namespace
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import ConfigurationError


def cleaned(landing: Landing | None) -> CleanedLanding:
    """The staging area, from which files can be removed.

    :raises ConfigurationError: if none is given, or its class cannot remove any.
    """
    if landing is None:
        raise ConfigurationError("Clean-up removes files of the staging folder, and none is given.", remedy=STAGING)
    if not hasattr(landing, "cleaner"):
        raise ConfigurationError(
            f"The staging area {landing.uri} cannot be cleaned.",
            remedy="Its class lacks a cleaner (shardbatch.core.cleaning.Cleaner); remove old files yourself.",
        )
    return cast(CleanedLanding, landing)


def require_own_rows(
    landing: CleanedLanding,
    namespace: Namespace,
    documents: Iterable[BatchFolder],
    slices: Sequence[SliceFolder],
    leases: Sequence[Lease],
    batches: Sequence[Batch],
) -> None:
    """Check that no folder shows rows that ought to be there and are not.

    It is sure only if the folders were listed before the leases were read, and these before the batches.

    :raises ConfigurationError: naming the batches, if a row is missing.
    """
    known = {batch.batch_id for batch in batches} | {lease.batch_id for lease in leases}
    strange = [folder.batch_id for folder in documents if folder.manifest and folder.batch_id not in known]
    # Another clean-up may have removed documents and row meanwhile.
    contents = landing.cleaner.manifests(namespace, strange)
    strange = [batch_id for batch_id in strange if contents[batch_id] is not None]
    if strange:
        raise ConfigurationError(
            f"{landing.uri} has {len(strange)} batches of {namespace} of which the lease store has neither a row nor a "
            f"stamp: {shortlist(strange)}. So it is not the store of the runs that wrote there, or an older copy of "
            "it, and nothing was removed.",
            remedy="Give their store (--leases) and their folder (--staging). If rows were lost, move these batches' "
            "folders away first: what they name is removed then.",
        )
    if slices and not leases and not batches:
        raise ConfigurationError(
            f"{landing.uri} has slices of {namespace}, and the lease store has neither leases nor batches of it, so "
            "nothing was removed.",
            remedy="Give the store of the runs that wrote there (--leases), or wait for the next run's claim.",
        )
