# SPDX-License-Identifier: Apache-2.0
"""What readers must see (PROTOCOL I): of every batch, in each root, wholly what one decision says, and never an older.

Beside the output roots stands the ``truth``: what each decision of each batch takes, made from what applications did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.decision import Decision
from shardbatch.core.lease import Lease
from shardbatch.core.start import Start

if TYPE_CHECKING:
    from tests.breaker.books import Books
    from tests.breaker.process import Process
    from tests.breaker.world import World

Interval = tuple[int, int]


class ReaderLaws:
    """``truth`` has the starts that each decision takes, by batch and ``decided``; ``first`` the roots that the first
    decision of a batch is told in; ``shown`` what was seen of each batch in each root, ``numbers`` of each interval."""

    def __init__(self, world: World, books: Books) -> None:
        self._world, self._books, self._roots = world, books, world.landing.outputs
        self.truth: dict[str, dict[int, frozenset[Start]]] = {}
        self.first: dict[str, frozenset[str]] = {}
        self.shown: dict[tuple[str, str], int] = {}
        self.numbers: dict[tuple[str, Interval], int] = {}

    # decisions

    def decided(self, name: str, process: Process, old: Batch | None, new: Batch) -> None:
        """Judge a decision by the row before and after."""
        known = self.truth.setdefault(new.batch_id, {})
        starts, places = frozenset(new.starts), self._places(new.roots)
        before = old if old is not None and old.state is BatchState.COMMITTED else None
        if before is not None and before.decided == new.decided:
            assert (set(before.starts), before.roots) == (starts, new.roots), f"{name}: one number has two decisions"
            return
        if process.task == "commit":
            self._chosen(name, process, old, new)
        else:
            assert not starts, f"{name}: a person decides for output"
        assert len(starts) == len(new.starts), f"{name}: a start stands there twice"
        assert len(places) == len(new.roots), f"{name}: a root stands there twice"
        assert places >= self._places(root for start in starts for root in start.outputs), f"{name}: a root is missing"
        if before is not None:
            assert places >= self._places(before.roots), f"{name}: a root is forgotten"
            assert before.number in (0, new.number), f"{name}: its number changes"
        if new.interval is not None and new.starts and not (before and before.number):
            others = [b.number for b in self._books.decided.values() if b.interval == new.interval]
            assert new.number > 0, f"{name}: nobody drew its number"
            assert new.number not in others, f"{name}: another has its number"
        known[new.decided] = starts
        self.first.setdefault(new.batch_id, places)

    def _chosen(self, name: str, process: Process, old: Batch | None, new: Batch) -> None:
        assert process.bound is not None or not new.records, f"{name}: nobody asked for the works"
        wanted = process.wanted.get(old.row_count if old else 0) if new.records else frozenset()
        assert wanted is not None, f"{name}: takes {_named(new.starts)}, and must not decide"
        assert wanted == set(new.starts), f"{name}: takes {_named(new.starts)}, not {_named(wanted)}"
        if not new.records:
            return
        unseen = self._places(new.roots) - process.looked
        assert not unseen, f"{name}: nobody looked at {unseen} before"
        if old is not None and old.set_aside is not None and new.sink == "starts":
            assert any(start.attempt > old.decided for start in new.starts), (
                f"{name}: it was set aside after its starts"
            )

    def _places(self, roots: Iterable[str]) -> frozenset[str]:
        return frozenset(map(self._roots.place, roots))

    def said(self, starts: Iterable[Start], place: str) -> tuple[tuple[str, int], ...]:
        """What a decision says in one root."""
        return tuple(sorted((s.start_id, s.attempt) for s in starts if place in self._places(s.outputs)))

    # readers

    def look(self) -> None:
        """Judge what readers see now."""
        for place in self._roots.markers:
            told = self._roots.highest(place)
            for batch_id, decision in told.items():
                self._one(place, batch_id, decision)
            self._intervals(place, told)
        stamps = {row.batch_id for row in self._world.rows.values() if isinstance(row, Lease)}
        for batch_id, places in self.first.items():
            for place in () if batch_id in stamps else places:
                assert (place, batch_id) in self.shown, f"leases of {batch_id} before the marker in {place}"

    def _one(self, place: str, batch_id: str, decision: Decision) -> None:
        what = f"{place} shows of batch {batch_id} {decision.starts}"
        known = self.truth.get(batch_id, {})
        assert decision.decided in known, f"{what} before the decision {decision.decided}"
        assert decision.starts == self.said(known[decision.decided], place), f"{what}, not what was decided"
        before = self.shown.get((place, batch_id), 0)
        assert decision.decided >= before, f"{what}, and showed decision {before} before"
        if decision.decided == before:
            return
        self.shown[place, batch_id] = decision.decided
        rows = self._world.records(batch_id)
        for start_id, _ in decision.starts:
            seen = self._world.landing.written.get((place, start_id), [])
            writes = sum(self._roots.place(root) == place for root in self._start(batch_id, start_id).outputs)
            assert sorted(seen) == sorted(rows * writes), f"{what}, and it is not the whole batch"

    def _start(self, batch_id: str, start_id: str) -> Start:
        return self._world.landing.ended_starts[start_id]

    def _intervals(self, place: str, told: dict[str, Decision]) -> None:
        """Of the runs over one interval readers see the last, and none that came before it again."""
        last = last_of(told)
        for interval, decision in last.items():
            before = self.numbers.get((place, interval), 0)
            assert decision.number >= before, f"{place} shows an older run over {interval} again"
            self.numbers[place, interval] = decision.number
        seen: dict[str, str] = {}
        joined = [decision for decision in last.values() if decision.joins and decision.starts]
        for decision in joined:
            live = [d for d in told.values() if d.interval is None and d.starts]
            for other in [*live, *joined]:
                if other is not decision:
                    seen.update((row, other.batch_id) for row in self._world.records(other.batch_id))
            both = [row for row in self._world.records(decision.batch_id) if row in seen]
            assert not both, f"{place} shows {both} of {decision.batch_id} twice"

    # answers

    def green(self, batch: Batch) -> None:
        """After a commit that went well, and with nothing newer, all roots show the newest decision."""
        places = set(self._roots.markers) | self._places(batch.roots)
        for place in places:
            told = self._roots.highest(place)
            right = self.said(batch.starts, place)
            shown = told[batch.batch_id].starts if batch.batch_id in told else ()
            assert shown == right, f"{place} shows {shown} of batch {batch.batch_id}, decided is {right}"
            if batch.interval is not None and self._newest(batch):
                last = last_of(told).get(batch.interval)
                assert (last.starts if last else ()) == right, f"{place} does not show {batch.batch_id} of its interval"

    def _newest(self, batch: Batch) -> bool:
        others = [b.number for b in self._books.decided.values() if b.interval == batch.interval]
        return batch.number == max(others)


def last_of(told: dict[str, Decision]) -> dict[Interval, Decision]:
    """Of each interval the decision with the highest number."""
    found: dict[Interval, Decision] = {}
    for decision in told.values():
        if decision.interval is not None:
            held = found.get(decision.interval)
            if held is None or decision.number > held.number:
                found[decision.interval] = decision
    return found


def _named(starts: Iterable[Start]) -> list[str]:
    return sorted(start.start_id for start in starts)
