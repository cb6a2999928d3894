# SPDX-License-Identifier: Apache-2.0
"""Steering tables and their streams: what the service does by itself, at the moment that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shardbatch.local.dynamodb.failure import no_shard
from shardbatch.local.dynamodb.shard import ChangeShard
from shardbatch.local.dynamodb.stream import ChangeStream, View
from shardbatch.local.dynamodb.table import TIME_TO_LIVE, Table
from shardbatch.local.dynamodb.tables import Tables
from shardbatch.local.failure import in_use, not_found

Json = dict[str, Any]


class TableControl:
    """Makes and fills tables, rolls and splits the shards of their streams, trims and disables them, lets items expire.

    A table is named by its name in the default account and, unless ``region`` is told, in the default region. Where a
    method is about a stream, its ARN does as well; a name means the table's latest stream. What cannot be done raises
    :class:`ServiceError`.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def create(
        self,
        table: str,
        key: dict[str, str] | None = None,
        *,
        view: str | None = View.NEW_AND_OLD_IMAGES.value,
        shards: int = 1,
        region: str | None = None,
    ) -> str | None:
        """Make a table; returns the ARN of its stream.

        :param key: types of its key attributes, partition key first; default ``{"id": "S"}``
        :param view: what its stream shows, ``KEYS_ONLY``, ``NEW_IMAGE``, ``OLD_IMAGE`` or ``NEW_AND_OLD_IMAGES``
            (default); ``None``: no stream
        :param shards: open shards that the stream begins with; default 1
        """
        with self._tables.engine.lock:
            made = self._tables.create(
                table, key, region=region, view=None if view is None else View(view), shards=shards
            )
            return None if made.stream is None else made.stream.arn

    def fill(self, table: str, items: Iterable[Json], *, region: str | None = None) -> int:
        """Put items, in DynamoDB's JSON, at a fraction of an SDK's cost; returns how many there were."""
        count = 0
        for item in items:
            with self._tables.engine.lock:
                found = self._table(table, region)
                checked = found.check_item(item)
                found.write(found.key_of(checked), checked, self._tables.engine.clock.now_ms())
            count += 1
        return count

    def roll(self, table: str, shard: str | None = None, *, region: str | None = None) -> list[str]:
        """Close every open shard, or the one given; each gets one child. Returns the children's ids."""
        return self._succeed(ChangeStream.roll, table, shard, region)

    def split(self, table: str, shard: str | None = None, *, region: str | None = None) -> list[str]:
        """Close every open shard, or the one given; each gets two children. Returns the children's ids."""
        return self._succeed(ChangeStream.split, table, shard, region)

    def trim(
        self,
        table: str,
        shard: str | None = None,
        *,
        before: str | None = None,
        before_ms: int | None = None,
        keep: int | None = None,
        forget: bool = False,
        region: str | None = None,
    ) -> int:
        """Drop records as if a day had passed; returns how many went.

        :param shard: one shard only; default all
        :param before: what comes before this sequence number
        :param before_ms: what was written before this time
        :param keep: all but this many of the newest; without any of the three: all
        :param forget: closed shards leave the listing too
        """
        with self._tables.engine.lock:
            stream = self._stream(table, region)
            shards = list(stream.shards.values()) if shard is None else [self._shard(stream, shard)]
            gone = sum(item.drop(before, before_ms, keep) for item in shards)
            if forget:
                stream.forget([item for item in shards if item.closed])
            return gone

    def enable(
        self, table: str, view: str = View.NEW_AND_OLD_IMAGES.value, *, region: str | None = None, shards: int = 1
    ) -> str:
        """Give a table that has none a stream; returns its ARN."""
        with self._tables.engine.lock:
            return self._tables.enable(self._table(table, region), View(view), shards).arn

    def disable(self, table: str, *, region: str | None = None) -> None:
        """Disable the stream of a table: its shards close without children, and it can be read for a day."""
        with self._tables.engine.lock:
            self._tables.disable(self._table(table, region))

    def expire(
        self,
        table: str,
        keys: Sequence[Json] | None = None,
        *,
        attribute: str | None = None,
        region: str | None = None,
    ) -> int:
        """Delete items as the service does when their time to live is over; returns how many went.

        :param keys: keys of the items, in DynamoDB's JSON; default all
        :param attribute: only items of which this attribute, a number of seconds since the epoch, has passed on the
            server's clock
        """
        with self._tables.engine.lock:
            found = self._table(table, region)
            now_ms = self._tables.engine.clock.now_ms()
            wanted = found.keys() if keys is None else [found.check_key(key) for key in keys]
            over = [key for key in wanted if _over(found.get(key), attribute, now_ms)]
            for key in over:
                found.write(key, None, now_ms, TIME_TO_LIVE)
            return len(over)

    def show(self) -> list[Json]:
        """All tables, and all streams with their shards and record counts."""
        with self._tables.engine.lock:
            now_ms = self._tables.engine.clock.now_ms()
            return [
                {
                    **table.describe(now_ms),
                    "Streams": [
                        self._show_stream(stream.arn, now_ms)
                        for stream in self._tables.list_streams(table.home, table.name)
                    ],
                }
                for table in self._tables.list_tables()
            ]

    def _show_stream(self, arn: str, now_ms: int) -> Json:
        stream = self._tables.find_stream(arn)
        shards = [
            {
                **shard.describe(),
                "Closed": shard.closed,
                "Records": shard.next_count - shard.first_count,
                "Trimmed": shard.first_count - 1,
            }
            for shard in stream.shards.values()
        ]
        return {**stream.describe(now_ms), "Shards": shards}

    def _succeed(
        self,
        how: Callable[[ChangeStream, list[ChangeShard], int], list[ChangeShard]],
        table: str,
        shard: str | None,
        region: str | None,
    ) -> list[str]:
        with self._tables.engine.lock:
            stream = self._stream(table, region)
            parents = stream.open_shards() if shard is None else [self._shard(stream, shard)]
            for parent in parents:
                if parent.closed:
                    raise in_use(f"shard {parent.shard_id} of {stream.arn} is closed")
            return [child.shard_id for child in how(stream, parents, self._tables.engine.clock.now_ms())]

    def _table(self, name: str, region: str | None) -> Table:
        return self._tables.find(self._tables.engine.home(region=region), name)

    def _stream(self, table: str, region: str | None) -> ChangeStream:
        if table.startswith("arn:"):
            return self._tables.find_stream(table)
        stream = self._table(table, region).stream
        if stream is None:
            raise not_found(f"table {table} has no stream")
        return self._tables.find_stream(stream.arn)

    @staticmethod
    def _shard(stream: ChangeStream, shard_id: str) -> ChangeShard:
        shard = stream.shards.get(shard_id)
        if shard is None:
            raise no_shard()
        return shard


def _over(item: Json | None, attribute: str | None, now_ms: int) -> bool:
    if item is None or attribute is None:
        return item is not None
    end = item.get(attribute, {}).get("N")
    return end is not None and float(end) * 1000 <= now_ms
