# SPDX-License-Identifier: Apache-2.0
"""Whether rows stand still: what their owners write meanwhile, on a clock that only sleeping moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Key, Namespace, Row
from shardbatch.run.signs_of_life import Watched, watch
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import FakeTime

SILENCE = 60.0


class World(MemoryStore):
    """A store, a clock, and what happens at which of its seconds, also while the store makes its answer."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.prepare()
        self.time = FakeTime(0)
        self.due: list[tuple[float, Callable[[], object]]] = []
        self.answer_takes = 0.0
        self.rows = {name: Lease(Namespace("etl", "orders"), "", name, "owner", 7, TRIM_HORIZON) for name in names}
        for row in self.rows.values():
            self.create(row)

    def at(self, seconds: Iterable[float], happens: Callable[[], object]) -> None:
        self.due = sorted([*self.due, *((second, happens) for second in seconds)], key=lambda item: item[0])

    def renew(self, name: str) -> None:
        row = MemoryStore.get(self, self.rows[name].key)
        assert isinstance(row, Lease)
        self.replace(row, leases.renew(row, "owner", 0))

    def get(self, key: Key) -> Row | None:
        while self.due and self.due[0][0] * 1000 <= self.time.ms:
            self.due.pop(0)[1]()
        found = super().get(key)
        self.time.ms += int(self.answer_takes * 1000)
        return found

    def still(self, silence: float = SILENCE, **how: object) -> set[str]:
        watched = {name: Watched(row, silence) for name, row in self.rows.items()}
        return watch(self, self.time.clock(), watched, **how)  # type: ignore[arg-type]

    @property
    def now(self) -> float:
        return self.time.ms / 1000


def test_a_row_that_nobody_writes_stands_still_after_its_silence_and_not_before() -> None:
    world = World("a")
    assert world.still() == {"a"}
    assert SILENCE <= world.now < SILENCE + 1


@pytest.mark.parametrize("second", [1.0, 30.0, 59.9])
def test_a_row_that_is_written_once_in_its_silence_does_not(second: float) -> None:
    world = World("a", "b")
    world.at([second], lambda: world.renew("a"))
    assert world.still() == {"b"}


def test_a_row_that_is_gone_does_not_stand_still() -> None:
    world = World("a", "b")
    world.at([30], lambda: world.delete(world.rows["a"]))
    assert world.still() == {"b"}


def test_each_row_has_a_silence_of_its_own() -> None:
    world = World("a", "b")
    watched = {"a": Watched(world.rows["a"], 10.0), "b": Watched(world.rows["b"], 100.0)}
    world.at([50], lambda: world.renew("b"))
    assert watch(world, world.time.clock(), watched) == {"a"}
    assert 50 <= world.now < 56


def test_a_slow_answer_makes_the_silence_longer_and_never_shorter() -> None:
    world = World("a")
    world.answer_takes = 50.0  # what is answered at the end is what stood there at its beginning
    world.at([59], lambda: world.renew("a"))
    assert world.still() == set()


def test_a_row_that_moved_may_be_watched_anew_from_that_look_on() -> None:
    world, seen = World("a"), []
    world.at([30, 80], lambda: world.renew("a"))
    assert world.still(moved=lambda row: seen.append(row) is None) == {"a"}
    assert [row.counter for row in seen] == [8, 9]
    assert 80 + SILENCE <= world.now < 90 + SILENCE


def test_rows_that_move_again_and_again_are_given_up_at_the_limit() -> None:
    world = World("a", "b")
    world.at(range(10, 1000, 10), lambda: world.renew("a"))
    assert world.still(moved=lambda row: True, limit=3 * SILENCE) == {"b"}
    assert 3 * SILENCE <= world.now < 3 * SILENCE + 5


def test_nothing_to_watch_takes_no_time() -> None:
    world = World()
    assert world.still() == set()
    assert world.now == 0


def test_a_write_behind_the_last_look_is_lost_on_neither_side() -> None:
    """The caller takes the row as it was seen, by compare-and-set: it fails, and the owner's write stands."""
    world = World("a")
    assert world.still() == {"a"}
    world.renew("a")
    assert not world.replace(world.rows["a"], leases.take(replace(world.rows["a"], lease_owner=None), "me", None, 1))
