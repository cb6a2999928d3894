# SPDX-License-Identifier: Apache-2.0
"""Writes whose answers do not come, told by what stands in the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from shardbatch.core import lease
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Key, Namespace
from shardbatch.core.shard import Shard
from shardbatch.errors import StoreError
from shardbatch.stores.outcome import Stored, Unclear, Write, Writes, replacements


def row(shard_id: str) -> Lease:
    return lease.add(Namespace("app", "stream"), "", Shard(shard_id), TRIM_HORIZON, 1, now_ms=7)


class Wire:
    """Rows behind a wire. Of each delivery it says what is applied before the answer, and what is lost with it."""

    def __init__(self, rows: Sequence[Lease], *deliveries: str) -> None:
        self.rows = {held.key.values: Stored(held.counter, "of another") for held in rows}
        self.deliveries = list(deliveries)
        self.under_way: list[Write] = []

    def send(self, writes: Sequence[Write]) -> list[bool]:
        delivery = self.deliveries.pop(0)
        self._arrive(self.under_way)
        self.under_way = list(writes) if delivery == "late" else []
        if delivery in ("late", "lost"):
            raise Unclear(delivery)
        applied = self._arrive(writes)
        if delivery == "unanswered":
            raise Unclear(delivery)
        return applied

    def _arrive(self, writes: Sequence[Write]) -> list[bool]:
        fits = [self.rows[write.key.values].counter == write.before for write in writes]
        for write, fit in zip(writes, fits, strict=True):
            if fit:
                self.rows[write.key.values] = Stored(write.row.counter, write.token)
        return fits

    def look(self, places: Sequence[Key]) -> Mapping[tuple[str, ...], Stored]:
        return {key.values: self.rows[key.values] for key in places}


def settled(wire: Wire, rows: Sequence[Lease]) -> list[bool]:
    changes = replacements([(held, lease.renew(held, "w1", 8)) for held in rows])
    return Writes(backoff=0).settle_all(changes, wire.send, wire.look)


@pytest.fixture
def rows() -> list[Lease]:
    return [lease.take(row(name), "w1", None, 7) for name in ("s-1", "s-2")]


@pytest.mark.parametrize(
    "deliveries",
    [
        pytest.param(("answered",), id="answered"),
        pytest.param(("unanswered",), id="answer lost"),
        pytest.param(("lost", "answered"), id="request lost"),
        pytest.param(("late", "answered"), id="applied when its second copy came"),
    ],
)
def test_what_was_applied_once_was_applied(rows: list[Lease], deliveries: tuple[str, ...]) -> None:
    # R44, K-26
    wire = Wire(rows, *deliveries)
    assert settled(wire, rows) == [True, True]


@pytest.mark.parametrize("deliveries", [("answered",), ("unanswered",), ("lost",), ("late", "answered")])
def test_a_row_that_another_one_changed_is_lost_and_the_others_are_not(
    rows: list[Lease], deliveries: tuple[str, ...]
) -> None:
    wire = Wire([lease.renew(rows[0], "w1", 8), rows[1]], *deliveries, "answered")
    assert settled(wire, rows) == [False, True]


def test_nothing_is_sent_again_once_its_time_is_over(rows: list[Lease]) -> None:
    wire = Wire(rows, "lost", "lost", "answered")
    writes = Writes(backoff=0, within=0)
    with pytest.raises(StoreError, match="unknown after 1 tries"):
        writes.settle_all(replacements([(held, lease.renew(held, "w1", 8)) for held in rows]), wire.send, unanswered)
    asked: list[int] = []

    def read() -> None:
        asked.append(1)
        raise Unclear("silence")

    with pytest.raises(StoreError, match="does not answer"):
        writes.ask("The store", read)
    assert (wire.deliveries, asked) == (["lost", "answered"], [1])


def unanswered(places: Sequence[Key]) -> Mapping[tuple[str, ...], Stored]:
    raise Unclear("silence")


def test_an_outcome_that_cannot_be_learned_names_the_row_and_how_many_more(rows: list[Lease]) -> None:
    wire = Wire(rows, *["lost"] * 4)
    with pytest.raises(StoreError, match=r"replace of the shard_lease row .*/s-1 and of 1 others is unknown"):
        settled(wire, rows)
