# SPDX-License-Identifier: Apache-2.0
"""What the stream says of places, before anything rests on them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shardbatch.core.ports import Page, Source
from shardbatch.core.position import Position
from shardbatch.errors import SourceError, StreamNotFound

#: Shards that are looked at at once.
AT_ONCE = 16

#: A place in a shard.
Place = tuple[str, Position]


@dataclass(frozen=True)
class Seen:
    """What stands behind a place.

    ``first`` is the number of the first record, ``None`` if there is none, or none yet. ``trimmed``: the record at the
    place is no longer there, so what followed it may have expired. ``refused`` is why the service does not take the
    place for one of this shard.
    """

    first: str | None = None
    trimmed: bool = False
    refused: str = ""


def look(source: Source, shard_id: str, place: Position) -> Seen:
    """Ask the stream for what follows a place of a shard: a few calls at most.

    :raises StreamNotFound: if the stream is gone.
    :raises SourceError: if it cannot be asked at present.
    """
    pages = source.read(shard_id, place)
    try:
        return _seen(pages)
    except StreamNotFound:
        raise
    except SourceError as error:
        if error.retryable:
            raise
        return Seen(refused=str(error))
    finally:
        if isinstance(pages, Generator):
            pages.close()


def _seen(pages: Iterator[Page]) -> Seen:
    trimmed = False
    for page in pages:
        trimmed = trimmed or page.checkpoint_gone
        if page.records.num_rows:
            return Seen(page.records.column("sequence_number")[0].as_py(), trimmed)
        if page.at_tip or page.ended:
            break
    return Seen(trimmed=trimmed)


def look_at_all(source: Source, places: Iterable[Place]) -> dict[str, Seen]:
    """As :func:`look` for several shards; what was seen of each."""
    asked = list(places)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = threads.map(lambda item: look(source, *item), asked)
        return {shard_id: seen for (shard_id, _), seen in zip(asked, found, strict=True)}
