# SPDX-License-Identifier: Apache-2.0
"""The streams of the server and what may be done to them, without HTTP and without JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable

from shardbatch.local.clock import Clock
from shardbatch.local.failure import ServiceError, in_use, invalid, malformed, not_found
from shardbatch.local.options import Options
from shardbatch.local.shard import Shard
from shardbatch.local.stream import HASH_END, Status, Stream
from shardbatch.local.tokens import Sealer

ON_DEMAND_SHARDS = 4
RECOUNTS_A_DAY = 10
SWITCHES_A_DAY = 2
DAY_MS = 86_400_000


class Engine:
    """All streams, behind one lock. Callers hold :attr:`lock` around each operation."""

    def __init__(self, clock: Clock | None = None, options: Options | None = None) -> None:
        self.clock = clock or Clock()
        self.options = options or Options()
        self.lock = threading.RLock()
        self.sealer = Sealer()
        self._streams: dict[tuple[str, str], Stream] = {}
        self._last_created_ms = 0

    # finding

    def home(self, account: str | None = None, region: str | None = None) -> str:
        """Where streams have their names to themselves: one region of one account. Default: the options'."""
        return f"{account or self.options.account_id} in {region or self.options.region}"

    def find(self, home: str, name: str) -> Stream:
        """The stream of a name and a :meth:`home`, brought to the present.

        :raises ServiceError: ResourceNotFoundException
        """
        stream = self._streams.get((home, name))
        if stream is not None:
            stream.settle(self.clock.now_ms())
            if self._streams.get((home, name)) is stream:
                return stream
        raise not_found(f"no stream {name} of account {home}")

    def find_readable(self, home: str, name: str) -> Stream:
        """As :meth:`find`, and the stream is ACTIVE or UPDATING."""
        stream = self.find(home, name)
        if stream.status in (Status.CREATING, Status.DELETING):
            raise not_found(f"stream {name} of account {home} is {stream.status.value}: no records go in or out")
        return stream

    def find_shard(self, stream: Stream, shard_id: str) -> Shard:
        """A shard that the stream still lists.

        :raises ServiceError: ResourceNotFoundException
        """
        shard = stream.shards.get(shard_id)
        if shard is None:
            raise not_found(f"no shard {shard_id} in stream {stream.name} of account {stream.home}")
        return shard

    def list(self, home: str | None = None) -> list[Stream]:
        """Streams by name; of one :meth:`home`, or all."""
        for stream in list(self._streams.values()):
            stream.settle(self.clock.now_ms())
        return [s for (owner, _), s in sorted(self._streams.items()) if home in (None, owner)]

    # life of a stream

    def create(
        self,
        name: str,
        shard_count: int = 1,
        *,
        account: str | None = None,
        region: str | None = None,
        on_demand: bool = False,
        max_record_bytes: int = 0,
        tags: dict[str, str] | None = None,
    ) -> Stream:
        """Make a stream; it is CREATING for ``Options.create_seconds``.

        :raises ServiceError: ResourceInUseException if the name is taken, LimitExceededException above the shard limit
        """
        account, region = account or self.options.account_id, region or self.options.region
        home = self.home(account, region)
        now_ms = self.clock.now_ms()
        existing = self._streams.get((home, name))
        if existing is not None:
            existing.settle(now_ms)
        if (home, name) in self._streams:
            raise in_use(f"stream {name} of account {home} exists already")
        self._check_shard_limit(home, shard_count)
        self._last_created_ms = max(now_ms, self._last_created_ms + 1)
        stream = Stream(
            account=account,
            home=home,
            name=name,
            arn=f"arn:aws:kinesis:{region}:{account}:stream/{name}",
            created_ms=self._last_created_ms,
            on_demand=on_demand,
            max_record_bytes=max_record_bytes,
            tags=dict(tags or {}),
        )
        self._streams[home, name] = stream

        def finish(at_ms: int) -> None:
            stream.open_first(shard_count, at_ms)
            stream.status = Status.ACTIVE

        self._begin(stream, Status.CREATING, self.options.create_seconds, finish)
        return stream

    def delete(self, stream: Stream) -> None:
        """Remove a stream; it is DELETING for ``Options.delete_seconds``."""

        def finish(_: int) -> None:
            del self._streams[stream.home, stream.name]

        if stream.status is not Status.DELETING:
            self._begin(stream, Status.DELETING, self.options.delete_seconds, finish)

    def clear(self) -> None:
        """Remove every stream at once."""
        self._streams.clear()

    # resharding

    def split(self, stream: Stream, shard_id: str, middle: int) -> None:
        """Close a shard and open two children that meet at ``middle``.

        :raises ServiceError: ResourceInUseException, InvalidArgumentException, LimitExceededException
        """
        shard = self._find_open(stream, shard_id)
        if not shard.hash_start < middle <= shard.hash_end:
            raise invalid(
                f"NewStartingHashKey {middle} does not divide {shard_id}: "
                f"give one above {shard.hash_start} and up to {shard.hash_end}"
            )
        self._check_shard_limit(stream.home, 1)
        self._reshard(stream, lambda at_ms: stream.split(shard, middle, at_ms))

    def merge(self, stream: Stream, shard_id: str, adjacent_id: str) -> None:
        """Close two neighbours and open one child.

        :raises ServiceError: ResourceInUseException, InvalidArgumentException if their ranges do not touch
        """
        shard, adjacent = self._find_open(stream, shard_id), self._find_open(stream, adjacent_id)
        if shard.hash_end + 1 != adjacent.hash_start and adjacent.hash_end + 1 != shard.hash_start:
            raise invalid(f"{shard_id} and {adjacent_id} in stream {stream.name} are not adjacent")
        self._reshard(stream, lambda at_ms: stream.merge(shard, adjacent, at_ms))

    def recount(self, stream: Stream, shard_count: int) -> int:
        """Bring the stream to ``shard_count`` open shards of equal ranges; returns the present count.

        :raises ServiceError: InvalidArgumentException beyond half or double, LimitExceededException above a limit
        """
        self._check_reshardable(stream)
        present = len(stream.open_shards())
        if shard_count > 2 * present or 2 * shard_count < present:
            raise invalid(f"stream {stream.name} has {present} open shards: one call takes it to half or to double")
        self._check_shard_limit(stream.home, shard_count - present)
        now_ms = self.clock.now_ms()
        recent = [at_ms for at_ms in stream.recounts_ms if now_ms - at_ms < DAY_MS]
        if self.options.limits and len(recent) >= RECOUNTS_A_DAY:
            raise ServiceError("LimitExceededException", f"{RECOUNTS_A_DAY} shard count updates in 24 hours are spent")
        stream.recounts_ms = [*recent, now_ms]
        self._reshard(stream, lambda at_ms: stream.recount(shard_count, at_ms))
        return present

    def scale(self, stream: Stream, shard: Shard) -> None:
        """Split a shard of an on-demand stream that is written too fast, while the shard limit permits."""
        middle = (shard.hash_start + shard.hash_end + 1) // 2
        if stream.status is not Status.ACTIVE or middle == shard.hash_start:
            return
        try:
            self._check_shard_limit(stream.home, 1)
        except ServiceError:
            return
        self._reshard(stream, lambda at_ms: stream.split(shard, middle, at_ms))

    def set_mode(self, stream: Stream, *, on_demand: bool) -> None:
        """Change who chooses the shards; the stream is UPDATING as for a reshard.

        :raises ServiceError: ResourceInUseException; with ``Options.limits`` LimitExceededException for the third one
            within 24 hours
        """
        self._check_active(stream)
        now_ms = self.clock.now_ms()
        recent = [at_ms for at_ms in stream.switches_ms if now_ms - at_ms < DAY_MS]
        if self.options.limits and len(recent) >= SWITCHES_A_DAY:
            raise ServiceError("LimitExceededException", f"{SWITCHES_A_DAY} changes of mode in 24 hours are spent")
        stream.switches_ms = [*recent, now_ms]

        def change(_: int) -> None:
            stream.on_demand = on_demand

        self._reshard(stream, change)

    def set_retention(self, stream: Stream, hours: int) -> None:
        """Keep records for ``hours``; what is gone stays gone."""
        self._check_active(stream)
        stream.set_retention(hours, self.clock.now_ms())

    def _find_open(self, stream: Stream, shard_id: str) -> Shard:
        self._check_reshardable(stream)
        shard = self.find_shard(stream, shard_id)
        if shard.closed:
            raise in_use(f"shard {shard_id} in stream {stream.name} was split or merged before")
        return shard

    def _reshard(self, stream: Stream, change: Callable[[int], object]) -> None:
        def finish(at_ms: int) -> None:
            change(at_ms)
            stream.status = Status.ACTIVE

        self._begin(stream, Status.UPDATING, self.options.reshard_seconds, finish)

    def _begin(self, stream: Stream, status: Status, seconds: float, finish: Callable[[int], None]) -> None:
        now_ms = self.clock.now_ms()
        stream.begin(status, now_ms + int(seconds * 1000), finish)
        stream.settle(now_ms)

    def _check_active(self, stream: Stream) -> None:
        if stream.status is not Status.ACTIVE:
            raise in_use(f"stream {stream.name} is {stream.status.value}; wait until it is ACTIVE")

    def _check_reshardable(self, stream: Stream) -> None:
        self._check_active(stream)
        if stream.on_demand:
            raise malformed(f"stream {stream.name} is on-demand: the service chooses its shards")

    def _check_shard_limit(self, home: str, more: int) -> None:
        held = sum(len(stream.open_shards()) for (owner, _), stream in self._streams.items() if owner == home)
        if held + more > self.options.shard_limit:
            raise ServiceError(
                "LimitExceededException",
                f"account {home} may have {self.options.shard_limit} shards, not {held + more}",
            )


def parse_hash_key(name: str, text: str) -> int:
    """A hash key from its decimal text.

    :raises ServiceError: InvalidArgumentException outside 0 to 2^128 - 1
    """
    if not (text.isascii() and text.isdigit()) or (len(text) > 1 and text[0] == "0") or int(text) > HASH_END:
        raise invalid(f"{name} must be a decimal number from 0 to 2^128 - 1, got {text!r}")
    return int(text)
