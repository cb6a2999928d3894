# SPDX-License-Identifier: Apache-2.0
"""Shard listings: filters, pages, and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shardbatch.local.engine import Engine
from shardbatch.local.failure import ServiceError, in_use, invalid, not_found
from shardbatch.local.shard import Shard
from shardbatch.local.stream import Status, Stream
from shardbatch.local.tokens import ListToken

MAX_LISTED = 1_000
MAX_DESCRIBED = 100


class FilterType(StrEnum):
    """Which shards a listing shows, as the service names it."""

    AFTER_SHARD_ID = "AFTER_SHARD_ID"
    AT_TRIM_HORIZON = "AT_TRIM_HORIZON"
    FROM_TRIM_HORIZON = "FROM_TRIM_HORIZON"
    AT_LATEST = "AT_LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"
    FROM_TIMESTAMP = "FROM_TIMESTAMP"


@dataclass(frozen=True)
class Selection:
    """What a listing was asked for."""

    kind: FilterType = FilterType.FROM_TRIM_HORIZON
    timestamp_ms: int = 0
    after: str = ""


class Listing:
    """Shard listings of an engine's streams."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def select(self, stream: Stream, selection: Selection) -> list[Shard]:
        """The shards of ``selection`` in the order of their ids."""
        shards = [shard for shard in stream.shards.values() if shard.shard_id > selection.after]
        kind, at_ms = selection.kind, selection.timestamp_ms
        horizon_ms = max(stream.horizon_ms(self._engine.clock.now_ms()), stream.created_ms)
        if kind is FilterType.AT_TIMESTAMP and at_ms < horizon_ms:
            kind = FilterType.AT_TRIM_HORIZON
        if kind is FilterType.AT_LATEST:
            return [shard for shard in shards if not shard.closed]
        if kind is FilterType.AT_TRIM_HORIZON:
            return [shard for shard in shards if not any(parent in stream.shards for parent in shard.parents)]
        if kind is FilterType.AT_TIMESTAMP:
            shards = [shard for shard in shards if shard.opened_ms <= at_ms]
        if kind in (FilterType.AT_TIMESTAMP, FilterType.FROM_TIMESTAMP):
            return [shard for shard in shards if shard.closed_ms is None or shard.closed_ms >= at_ms]
        return shards

    def page(self, stream: Stream, selection: Selection, wanted: int | None) -> tuple[list[Shard], str | None]:
        """One page of a listing and the token of the next.

        :raises ServiceError: ResourceInUseException while the stream is CREATING or DELETING
        """
        if stream.status in (Status.CREATING, Status.DELETING):
            raise in_use(f"stream {stream.name} is {stream.status.value}; its shards are not listed now")
        size = self.page_size(wanted, MAX_LISTED)
        shards = self.select(stream, selection)
        if len(shards) <= size:
            return shards, None
        page = shards[:size]
        token = ListToken(
            stream.home,
            stream.name,
            stream.created_ms,
            page[-1].shard_id,
            selection.kind.value,
            selection.timestamp_ms,
            self._engine.clock.now_ms(),
        )
        return page, self._engine.sealer.seal("listing", token)

    def resume(self, text: str, wanted: int | None) -> tuple[Stream, list[Shard], str | None]:
        """The page that a token stands for.

        :raises ServiceError: InvalidArgumentException, ExpiredNextTokenException, ResourceNotFoundException
        """
        fields = self._engine.sealer.open("listing", text)
        if fields is None:
            raise invalid("NextToken is not one that this server gave out")
        token = ListToken(*fields)  # type: ignore[arg-type]
        age_ms = self._engine.clock.now_ms() - token.issued_ms
        if age_ms > self._engine.options.token_seconds * 1000:
            raise ServiceError("ExpiredNextTokenException", f"NextToken is {age_ms // 1000} s old; list anew")
        stream = self._engine.find(token.home, token.stream)
        if stream.created_ms != token.created_ms:
            raise not_found(f"the stream {stream.name} that NextToken was made for was deleted")
        selection = Selection(FilterType(token.kind), token.timestamp_ms, token.after)
        page, onward = self.page(stream, selection, wanted)
        return stream, page, onward

    def page_size(self, wanted: int | None, most: int) -> int:
        """Shards on a page: what was asked, at most the service's limit and the option ``page_size``."""
        return min(wanted or most, most, self._engine.options.page_size or most)
