# SPDX-License-Identifier: Apache-2.0
"""The end of a work's try: it records which starts its application left, and a commit needs only this record."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shardbatch.core.ports import Landing
from shardbatch.core.rows import Namespace
from shardbatch.core.start import EndRecord, resolve
from shardbatch.errors import ConfigurationError


@dataclass(frozen=True)
class Ended:
    """A try of a work that has succeeded.

    :param token: what it passed to its application; empty if nothing.
    :param unique: distinguishes its record from that of any other try.
    :param sure: whether its application certainly got the token.
    :param only: whether this is the only task of the block that may get the batch: then starts that do not know for
        which task they work are its own.
    """

    batch_id: str
    attempt: int
    work: str
    try_number: int
    token: str
    unique: str
    only: bool = False
    sure: bool = False


def leave_end_record(landing: Landing, namespace: Namespace, ended: Ended) -> EndRecord:
    """Record which starts the application of a try left, and return the record.

    It is the last act of the try. Output of any other start does not count. If the application left a start unfinished,
    that is an error of the task, which can be tried again.

    :raises StartUnfinished: if the application entered a block that it did not leave well.
    :raises ConfigurationError: if starts do not say for which task of the block they work, and there are several.
    :raises StagingError: if staging cannot be read or written.
    """
    batch_id, attempt = ended.batch_id, ended.attempt
    begun, done = landing.starts_of(namespace, batch_id, ended.work, attempt)
    if not begun:
        begun, done = landing.starts_of(namespace, batch_id, "", attempt)
        if begun and not ended.only:
            raise ConfigurationError(
                f"An application of batch {batch_id} did not say for which task of the block it works.",
                remedy=f"Pass it batch.args or batch.environment, or say open_batch(work='{ended.work}').",
            )
    starts = resolve(ended.work, attempt, ended.token, begun, done, sure=ended.sure)
    own = tuple(replace(start, work=ended.work) for start in starts)
    record = EndRecord(ended.work, attempt, ended.try_number, ended.token, own)
    landing.leave_end(namespace, batch_id, record, ended.unique)
    return record
