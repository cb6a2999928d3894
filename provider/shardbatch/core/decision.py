# SPDX-License-Identifier: Apache-2.0
"""What an output root tells of a batch: one decision, which starts count there and which batch they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Decision:
    """One decision of a batch, as one output root tells it.

    :param batch_id: the batch.
    :param decided: the number of the decision; of several of one batch the highest counts.
    :param starts: every start that wrote below this root, with its attempt; none: readers see none of the batch.
    :param app: the application, ``app_name/stream_name``; empty in a marker of version 0.1.0.
    :param interval: arrival times in milliseconds, ``(from, to)``, ``to`` not included, of an interval run's batch;
        ``None``: of the live application.
    :param number: of an interval's decisions; readers take those of the highest of each application and interval.
    :param joins: whether live readers see this interval's records too.
    :param min_arrival_ms: when the first of its records arrived, ``None`` if unknown; and
    :param max_arrival_ms: the last.
    :param committed_ms: when the batch was decided first; ``None`` in a marker of version 0.1.0.
    :param roots: all output roots of this decision, so that a reader of several notices one that is not told yet.
    """

    batch_id: str
    decided: int
    starts: tuple[tuple[str, int], ...] = ()
    app: str = ""
    interval: tuple[int, int] | None = None
    number: int = 0
    joins: bool = False
    min_arrival_ms: int | None = None
    max_arrival_ms: int | None = None
    committed_ms: int | None = None
    roots: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, in the form of a marker; the writer of the marker adds ``folders``."""
        return {
            "batch_id": self.batch_id,
            "decided": self.decided,
            "starts": [{"start_id": start_id, "attempt": attempt} for start_id, attempt in self.starts],
            "app": self.app,
            "interval": list(self.interval) if self.interval else None,
            "number": self.number,
            "joins": self.joins,
            "min_arrival_ms": self.min_arrival_ms,
            "max_arrival_ms": self.max_arrival_ms,
            "committed_ms": self.committed_ms,
            "roots": list(self.roots),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Decision:
        """Back from plain JSON, also of version 0.1.0; what a later version added is passed over.

        :raises KeyError, TypeError, ValueError: if it is not a decision.
        """
        interval = value.get("interval")
        return cls(
            batch_id=value["batch_id"],
            decided=int(value["decided"]),
            starts=tuple((start["start_id"], int(start["attempt"])) for start in value["starts"]),
            app=value.get("app") or "",
            interval=(int(interval[0]), int(interval[1])) if interval else None,
            number=int(value.get("number") or 0),
            joins=bool(value.get("joins")),
            min_arrival_ms=value.get("min_arrival_ms"),
            max_arrival_ms=value.get("max_arrival_ms"),
            committed_ms=value.get("committed_ms"),
            roots=tuple(value.get("roots") or ()),
        )
