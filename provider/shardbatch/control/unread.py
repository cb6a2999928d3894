# SPDX-License-Identifier: Apache-2.0
"""Whether there is something to read in a shard: asked by what wakes a DAG, and for a run that waits."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from typing import Any, cast

from shardbatch.core.ports import Clock, Source
from shardbatch.core.position import Position
from shardbatch.errors import SourceError

#: Shards that are asked together.
AT_A_TIME = 8
#: Answers and seconds after which a shard that is still not at its tip has something to read.
MOST_PAGES, MOST_SECONDS = 20, 20.0


def first_unread(source: Source, places: Mapping[str, Position], clock: Clock) -> str | None:
    """One of the shards that has a record or its end behind its place; ``None`` if none has.

    :raises SourceError: if some could not be asked, and none of the others has anything.
    """
    failed: SourceError | None = None
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="shardbatch-unread") as pool:
        asked = {pool.submit(_has_unread, source, name, place, clock): name for name, place in places.items()}
        try:
            for done in as_completed(asked):
                try:
                    if done.result():
                        return asked[done]
                except SourceError as error:  # another shard may have something
                    failed = failed or error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed is not None:
        raise failed
    return None


def _has_unread(source: Source, shard_id: str, place: Position, clock: Clock) -> bool:
    """Whether there is a record or the end behind a place. That the record at the place has expired does not count:
    that of an idle shard does in its time. Nor does it that the place moved, since a source that itself looks for an
    instant passes over what is older.
    """
    began, answered = clock.monotonic(), False
    with closing(cast("Any", source.read(shard_id, place))) as pages:
        for number, page in enumerate(pages, 1):
            if page.records.num_rows or page.ended or page.oddities.dropped:
                return True
            if page.at_tip:
                return False
            answered = answered or not page.silent
            if number >= MOST_PAGES or clock.monotonic() - began > MOST_SECONDS:
                break
    if not answered:
        raise SourceError(
            f"{shard_id} could not be looked at: the stream refused each call, or gave no answer.",
            remedy="It is asked again. See which other readers use up the shard's calls.",
        )
    return True
