# SPDX-License-Identifier: Apache-2.0
"""Runs over intervals beside the live application of a rig, and what readers see of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardbatch.control.action import Done
from shardbatch.control.drop import drop
from shardbatch.core.batch import Batch
from shardbatch.core.decision import Decision
from shardbatch.core.interval import Interval
from shardbatch.core.owner import Owner
from shardbatch.core.position import Position
from shardbatch.core.rows import TABLES
from shardbatch.core.start import Work
from shardbatch.run import Claim, Committed, Consumer, Frozen, claim, commit, freeze, land
from tests.support.rig import Rig
from tests.support.verbs import namespace, told


class Backfill:
    """A run over an interval, step by step; ``again`` is the same run after it was cleared."""

    def __init__(self, rig: Rig, span: Interval, run: str, **changes: Any) -> None:
        self.rig = rig
        self.owner: Owner = replace(rig.owner(run), mode="interval")
        self.consumer: Consumer = rig.consumer(scope=self.owner.scope, interval=span, **changes)
        self.made = Frozen()

    def frozen(self) -> Frozen:
        found: Claim = claim(self.consumer, self.owner)
        for group in found.groups:
            land(self.consumer, self.owner, group.group, self.rig.stream.now_ms)
        self.made = freeze(self.consumer, self.owner, found.batch_id)
        return self.made

    def worked(self, roots: Sequence[str] = ("out",)) -> Frozen:
        made = self.frozen()
        self.rig.work(made, roots=roots)
        return made

    def commit(self, **changes: Any) -> Committed:
        consumer = replace(self.consumer, **changes)
        return commit(consumer, self.owner, self.made.batch_id, self.made.attempt, works=[Work("transform")])

    def whole(self, roots: Sequence[str] = ("out",)) -> str:
        self.worked(roots)
        self.commit()
        return self.batch_id

    @property
    def batch_id(self) -> str:
        assert self.made.batch_id is not None
        return self.made.batch_id

    @property
    def row(self) -> Batch:
        row = self.consumer.batch(self.batch_id)
        assert row is not None
        return row


def span_of(rig: Rig) -> Interval:
    """All that arrived now, by the stream's clock."""
    return Interval(rig.stream.now_ms, rig.stream.now_ms + 1)


def latest(rig: Rig, root: str) -> list[Decision]:
    """What a reader goes by: of each batch the highest decision, of each interval then the highest number."""
    told = rig.decisions(root).values()
    highest: dict[Any, int] = {}
    for one in told:
        highest[one.interval] = max(highest.get(one.interval, 0), one.number)
    return [one for one in told if one.interval is None or one.number == highest[one.interval]]


def rows_of(rig: Rig, root: str, found: Sequence[Decision]) -> list[str]:
    places = [
        rig.folder.parent / root / f"batch_id={one.batch_id}" / f"start={start_id}"
        for one in found
        for start_id, _ in one.starts
    ]
    seen = [row for place in places for row in json.loads((place / "records.json").read_text())]
    return sorted(seen, key=Position.parse)


def live(rig: Rig, root: str = "out") -> list[str]:
    return rows_of(rig, root, [one for one in latest(rig, root) if one.interval is None or one.joins])


def of_interval(rig: Rig, span: Interval, root: str = "out") -> list[str]:
    return rows_of(rig, root, [one for one in latest(rig, root) if one.interval == (span.from_ms, span.to_ms)])


def every_row(rig: Rig) -> list[tuple[Any, ...]]:
    """All rows of all scopes, as they stand."""
    rows = [row for table in TABLES for row in rig.store.list(table, namespace(rig), None)]
    return [(row.key.values, row.columns()) for row in rows]


def taken_back(rig: Rig, batch_id: str, **chosen: Any) -> list[Done]:
    return told(drop, rig, batch_id, landing=rig.consumer().landing, **chosen)


class Died(Exception):
    """The process ends here."""


def die(*_: Any) -> None:
    raise Died
