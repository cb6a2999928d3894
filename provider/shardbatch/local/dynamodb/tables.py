# SPDX-License-Identifier: Apache-2.0
"""The tables of the server and their streams, without HTTP and without JSON."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from shardbatch.local.dynamodb.shard import ChangeShard
from shardbatch.local.dynamodb.stream import ChangeStream, View
from shardbatch.local.dynamodb.table import Table
from shardbatch.local.engine import Engine
from shardbatch.local.failure import ServiceError, in_use, malformed, not_found
from shardbatch.local.throttle import admit


class Tables:
    """All tables and streams, on the clock and behind the lock of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._tables: dict[tuple[str, str], Table] = {}
        self._streams: dict[str, ChangeStream] = {}
        self._calls: dict[tuple[str, str], deque[int]] = {}
        self._last_label_ms = 0

    # finding

    def find(self, home: str, name: str) -> Table:
        """The table of a name and a home.

        :raises ServiceError: ResourceNotFoundException
        """
        table = self._tables.get((home, name))
        if table is not None and not table.gone(self.engine.clock.now_ms()):
            return table
        raise not_found(f"Requested resource not found: Table: {name} not found (account {home})")

    def find_ready(self, home: str, name: str) -> Table:
        """As :meth:`find`, and the table takes and gives items now."""
        table = self.find(home, name)
        status = table.status(self.engine.clock.now_ms())
        if status in ("CREATING", "DELETING"):
            raise not_found(f"Requested resource not found: table {name} of account {home} is {status}")
        return table

    def find_stream(self, arn: str) -> ChangeStream:
        """The stream of an ARN, brought to the present.

        :raises ServiceError: ResourceNotFoundException
        """
        stream, now_ms = self._streams.get(arn), self.engine.clock.now_ms()
        if stream is None or stream.gone(now_ms):
            raise not_found(f"Requested resource not found: Stream: {arn} not found")
        stream.settle(now_ms)
        return stream

    def list_tables(self) -> list[Table]:
        """All tables by name."""
        now_ms = self.engine.clock.now_ms()
        return [table for _, table in sorted(self._tables.items()) if not table.gone(now_ms)]

    def list_streams(self, home: str | None = None, table: str | None = None) -> list[ChangeStream]:
        """Streams by ARN, disabled ones too; of one home or all, of one table or all."""
        now_ms = self.engine.clock.now_ms()
        return [
            stream
            for _, stream in sorted(self._streams.items())
            if home in (None, stream.home) and table in (None, stream.table) and not stream.gone(now_ms)
        ]

    # life of a table and of its stream

    def create(
        self,
        name: str,
        key: dict[str, str] | None = None,
        *,
        account: str | None = None,
        region: str | None = None,
        view: View | None = View.NEW_AND_OLD_IMAGES,
        shards: int | None = None,
    ) -> Table:
        """Make a table; it is CREATING for ``Options.create_seconds``.

        :param key: types of its key attributes; default ``{"id": "S"}``
        :param view: what its stream shows; ``None``: no stream
        :param shards: open shards that the stream begins with; default ``Options.table_shards``
        :raises ServiceError: ResourceInUseException if the name is taken
        """
        options = self.engine.options
        account, region = account or options.account_id, region or options.region
        home, now_ms = self.engine.home(account, region), self.engine.clock.now_ms()
        existing = self._tables.get((home, name))
        if existing is not None and not existing.gone(now_ms):
            raise in_use(f"Table already exists: {name} of account {home}")
        arn = f"arn:aws:dynamodb:{region}:{account}:table/{name}"
        table = Table(account, region, home, name, arn, key or {"id": "S"}, now_ms, options)
        self._tables[home, name] = table
        if view is not None:
            self.enable(table, view, shards)
        return table

    def enable(self, table: Table, view: View, shards: int | None = None) -> ChangeStream:
        """Give a table a stream; it is a new one each time.

        :raises ServiceError: ValidationException if it has one
        """
        if table.enabled() is not None:
            raise malformed(f"Table already has an enabled stream: TableName: {table.name}")
        now_ms = self.engine.clock.now_ms()
        self._last_label_ms = max(now_ms, self._last_label_ms + 1)
        label = datetime.fromtimestamp(self._last_label_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        stream = ChangeStream(
            home=table.home,
            region=table.region,
            table=table.name,
            arn=f"{table.arn}/stream/{label}",
            label=label,
            view=view,
            key_schema=table.key_schema(),
            created_ms=now_ms,
            options=self.engine.options,
        )
        stream.open_first(shards or self.engine.options.table_shards or 1, now_ms)
        self._streams[stream.arn] = stream
        table.stream = stream
        return stream

    def disable(self, table: Table) -> None:
        """Close the table's stream; it stays readable for a day.

        :raises ServiceError: ValidationException if there is none
        """
        stream = table.enabled()
        if stream is None:
            raise malformed(f"Table already has a disabled stream: TableName: {table.name}")
        now_ms = self.engine.clock.now_ms()
        stream.settle(now_ms)
        stream.disable(now_ms)

    def delete(self, table: Table) -> None:
        """Remove a table; it is DELETING for ``Options.delete_seconds``. Its stream is disabled.

        :raises ServiceError: ResourceInUseException if that was asked before
        """
        if table.deleted_ms is not None:
            raise in_use(f"table {table.name} is DELETING already")
        if table.enabled() is not None:
            self.disable(table)
        table.deleted_ms = self.engine.clock.now_ms()

    def clear(self) -> None:
        """Remove every table and stream at once."""
        self._tables.clear()
        self._streams.clear()

    # limits

    def check_rate(self, operation: str, home: str, calls_a_second: int) -> None:
        """See that an account does not call too often, if ``Options.limits`` is on.

        :raises ServiceError: ThrottlingException
        """
        if not self.engine.options.limits:
            return
        calls = self._calls.setdefault((operation, home), deque(maxlen=calls_a_second))
        if not admit(calls, self.engine.clock.now_ms()):
            raise ServiceError("ThrottlingException", f"Rate exceeded: {calls_a_second} {operation} a second")

    def check_reader(self, shard: ChangeShard, reader: int) -> None:
        """See that at most two read a shard at a time, if ``Options.limits`` is on.

        :raises ServiceError: LimitExceededException
        """
        if self.engine.options.limits and not shard.admit_reader(reader, self.engine.clock.now_ms()):
            raise ServiceError("LimitExceededException", f"shard {shard.shard_id} has two readers already")
