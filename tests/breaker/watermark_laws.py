# SPDX-License-Identifier: Apache-2.0
"""What a watermark may promise (PROTOCOL C): at every step, the highest since the last reset, of every record that is
or will be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.watermark import watermark
from tests.breaker.losses import is_replaced, must_be_told
from tests.breaker.stream import Sent

if TYPE_CHECKING:
    from tests.breaker.books import Books
    from tests.breaker.world import World


class WatermarkLaws:
    """``high`` is the highest watermark since the last reset, ``resets`` the reset that it is told after."""

    def __init__(self, world: World, books: Books) -> None:
        self._world, self._books = world, books
        self.high: int | None = None
        self.resets = 0

    def look(self) -> None:
        """Judge the rows as they stand now."""
        world = self._world
        application = next((row for row in world.rows.values() if isinstance(row, Application)), None)
        if application is None:
            return
        if application.reset_count != self.resets:
            self.high, self.resets = None, application.reset_count
        leases = [row for row in world.rows.values() if isinstance(row, Lease) and not row.scope]
        found = watermark(application, leases)
        if found.ms is not None:
            self.high = max(self.high or 0, found.ms)
        if self.high is None:
            return
        waiting = {row.shard_id: row.skipped for row in leases}
        for name, sent in world.stream.sent.items():
            if sent.arrival_ms < self.high and ("", name) not in self._books.records:
                open_ = not sent.expired or not self._told(name, sent, waiting.get(sent.shard_id, ()))
                assert not (open_ and self._due(sent)), (
                    f"the watermark is {self.high}, and record {name} of {sent.arrival_ms} is not committed; {found}"
                )

    def _due(self, sent: Sent) -> bool:
        """Whether a record has to be committed at all."""
        early = sent.arrival_ms < self._world.begin_ms() and sent.shard_id not in self._books.targets
        return not early and not is_replaced(self._world, sent.shard_id) and self._books.wanted(sent)

    def _told(self, name: str, sent: Sent, waiting: object) -> bool:
        """Whether an expired record is in a gap, was committed before a reset, or may be older than its row; or was
        trimmed before its time where no gap is promised."""
        if sent.early and not must_be_told(self._world, sent):
            return True
        old = sent.arrival_ms < self._books.enrolled_ms.get(sent.shard_id, self._world.time.ms)
        return old or name in self._books.before or self._books.covered(sent, waiting)  # type: ignore[arg-type]
