# SPDX-License-Identifier: Apache-2.0
"""A scripted stream of a service that says little: no lag, no key ranges, no children in answers, no instants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from shardbatch.core.ports import Capabilities, Page
from shardbatch.core.position import LATEST, TRIM_HORIZON, Kind, Position
from shardbatch.core.shard import Shard
from shardbatch.errors import SourceError
from tests.support.scripted import ScriptedStream


class PlainStream(ScriptedStream):
    """``pages`` counts what was read of it; before each page ``comes`` happens.

    :param arrival_times: whether records say when they arrived.
    :param tip_beside_records: whether the last records of an answer say that they are the last.
    """

    def __init__(
        self, *, shards: int = 1, page_size: int = 3, arrival_times: bool = True, tip_beside_records: bool = False
    ) -> None:
        super().__init__(shards=shards, page_size=page_size)
        self.capabilities = Capabilities(lineage=True, instants=False, arrival_times=arrival_times)
        self.tells_lag = self.names_children = False
        self.tip_beside_records = tip_beside_records
        self.pages = 0
        self.comes: Callable[[], object] = lambda: None

    def _listed(self) -> list[Shard]:
        return [replace(shard, hash_range=None) for shard in super()._listed()]

    def missing(self, listing: Sequence[Shard]) -> str:
        return ""

    def clock_ms(self) -> int | None:
        return None

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        if start != LATEST or shard_id is None:
            return start
        items = self.shards[shard_id].items
        return items[-1].place if items else TRIM_HORIZON

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        if position.kind is Kind.AT_TIMESTAMP:
            raise SourceError("A plain stream cannot be read from an instant.")
        pages = super().read(shard_id, position)
        while True:
            self.comes()
            page = next(pages, None)
            if page is None:
                return
            self.pages += 1
            rows = page.records.num_rows
            if rows and not self.capabilities.arrival_times:
                at = page.records.schema.get_field_index("arrival_time")
                field = page.records.schema.field(at)
                page = replace(page, records=page.records.set_column(at, field, pa.nulls(rows, field.type)))
            if self.tip_beside_records and rows:
                last = self.shards[shard_id].items[-1].place
                page = replace(page, at_tip=page.next == last and not page.ended)
            yield page
