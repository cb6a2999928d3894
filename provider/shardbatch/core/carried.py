# SPDX-License-Identifier: Apache-2.0
"""What an application knows beside the places of its shards, and what goes along when it is copied (PROTOCOL D8).

Without it a copy would stand at the same places, and would not notice what expires unread on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shardbatch.core.application import Application
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, Position
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import Gap


@dataclass(frozen=True)
class Noted:
    """What is noted of a shard beside its place, and holds at that place.

    ``arrival_ms`` is when the record at the place arrived; ``looked_ms`` the last look at the shard's tip, and
    ``at_tip`` whether that look found nothing more; ``committed_ms`` up to when all is committed; ``begins`` the lowest
    place that was ever read from; ``skipped`` what a person passed over and no batch has told yet.
    """

    arrival_ms: int | None = None
    looked_ms: int | None = None
    at_tip: bool = False
    committed_ms: int | None = None
    begins: Position | None = None
    skipped: tuple[Gap, ...] = ()

    @classmethod
    def of(cls, row: Lease) -> Noted:
        """What a lease has noted. The lag of a slice that is pending does not go along, since the slice does not."""
        return cls(
            arrival_ms=row.checkpoint_arrival_ms,
            looked_ms=row.caught_up_ms,
            at_tip=row.left_at_tip and row.pending is None,
            committed_ms=row.committed_up_to_ms,
            begins=row.begins,
            skipped=row.skipped,
        )

    def on(self, row: Lease, *, moved: bool) -> Lease:
        """A new lease at the same place, with all of this.

        :param moved: it is a lease of the same application. Another application has read nothing before its place.
        """
        return replace(
            row,
            checkpoint_arrival_ms=self.arrival_ms,
            caught_up_ms=self.looked_ms,
            millis_behind_latest=0 if self.at_tip else None,
            committed_to=None if self.committed_ms is None else f"{self.committed_ms}@{row.checkpoint}",
            begins=self.begins if moved else row.begins,
            skipped=self.skipped,
        )


@dataclass(frozen=True)
class Carried:
    """What is noted of an application beside its shards.

    ``namespace`` is that of the application it was taken from. ``start`` and ``start_places`` say where a shard begins
    that comes from no other; the times, how long the stream kept its records. Only an application of the same namespace
    gets the intervals: it goes on in the same output roots.
    """

    namespace: Namespace | None = None
    start: Position = TRIM_HORIZON
    start_places: tuple[tuple[str, Position], ...] = ()
    retention_ms: int | None = None
    gone_before_ms: int | None = None
    longest_retention_ms: int | None = None
    shown_intervals: tuple[tuple[int, int], ...] = ()
    intervals: tuple[IntervalOutput, ...] = ()

    @classmethod
    def of(cls, row: Application, intervals: tuple[IntervalOutput, ...]) -> Carried:
        """What the rows of an application have noted."""
        return cls(
            namespace=row.namespace,
            start=row.start_position,
            start_places=row.start_places,
            retention_ms=row.retention_ms,
            gone_before_ms=row.gone_before_ms,
            longest_retention_ms=row.longest_retention_ms,
            shown_intervals=row.shown_intervals,
            intervals=intervals,
        )

    def on(self, row: Application) -> Application:
        """A new application's row, with all of this."""
        shown = self.shown_intervals if self.namespace == row.namespace else ()
        return replace(
            row,
            start_position=self.start,
            start_places=self.start_places,
            retention_ms=self.retention_ms,
            gone_before_ms=self.gone_before_ms,
            longest_retention_ms=self.longest_retention_ms,
            shown_intervals=tuple(sorted({*row.shown_intervals, *shown})),
        )


#: Of positions that say nothing but places.
NOTHING_CARRIED = Carried()
