# SPDX-License-Identifier: Apache-2.0
"""One look serves all questions, and each sees what it would have seen alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from shardbatch.control.shared_look import Look, Rest, SharedStore
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key, Namespace
from shardbatch.errors import ProtocolError, StoreError
from shardbatch.stores.memory import MemoryStore

NAMESPACE = Namespace("etl", "orders")
ROW = Key(APPLICATION, NAMESPACE, ())


class World:
    """A store, how often it was opened, and what was read from it."""

    def __init__(self) -> None:
        self.store, self.opened = MemoryStore(), 0
        self.store.prepare()
        assert self.store.create(Application(NAMESPACE, "arn@1", TRIM_HORIZON, 1))
        self.look = Look()

    @contextmanager
    def open(self) -> Iterator[MemoryStore]:
        self.opened += 1
        yield self.store

    def enrol(self, *names: str) -> None:
        for name in names:
            assert self.store.create(Lease(NAMESPACE, "", name, None, 1, TRIM_HORIZON))

    def question(self, *order: str) -> list[object]:
        """Read leases (``l``), the application (``a``) or batches (``b``), in an order."""
        found: list[object] = []
        with closing(SharedStore(self.look.path(), self.open)) as store:
            for what in order:
                if what == "a":
                    row = store.get(ROW)
                    assert isinstance(row, Application)
                    found.append(row.row_count)
                else:
                    table = {"l": SHARD_LEASE, "b": BATCH}[what]
                    found.append([row.key.values[1] for row in store.list(table, NAMESPACE)])
        return found


def test_what_was_read_in_the_same_order_is_not_read_again() -> None:
    world = World()
    world.enrol("s-1")
    assert world.question("a", "l") == [1, ["s-1"]]
    world.enrol("s-2")
    assert world.question("a", "l") == [1, ["s-1"]]
    assert world.opened == 1
    world.look = Look()
    assert world.question("a", "l") == [1, ["s-1", "s-2"]]


def test_a_second_read_of_the_same_is_another_one() -> None:
    world = World()
    world.question("l")
    world.enrol("s-1")
    assert world.question("l", "l") == [[], ["s-1"]], "two looks in a row see two moments (C7)"
    world.enrol("s-2")
    assert world.question("l", "l") == [[], ["s-1"]]


def test_another_order_reads_for_itself() -> None:
    """Whoever reads the leases first must not see an application that was read before them."""
    world = World()
    assert world.question("a", "l") == [1, []]
    world.enrol("s-1")
    seen = world.store.get(ROW)
    assert isinstance(seen, Application)
    assert world.store.replace(seen, seen.acted("later"))
    assert world.question("l", "a") == [["s-1"], 2]
    assert world.question("a", "a") == [1, 2]


def test_all_batches_are_read_by_each_and_nothing_older_behind_them() -> None:
    world = World()
    assert world.question("l", "b", "l") == [[], [], []]
    world.enrol("s-1")
    assert world.question("l", "b", "l") == [[], [], ["s-1"]]


def test_a_read_that_failed_fails_for_all() -> None:
    world = World()

    @contextmanager
    def away() -> Iterator[MemoryStore]:
        world.opened += 1
        raise StoreError("It is away.")
        yield

    world.open = away  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(StoreError, match="away"):
            world.question("a")
    assert world.opened == 1


def test_it_writes_nothing() -> None:
    world = World()
    store, row = SharedStore(world.look.path(), world.open), Application(NAMESPACE, "arn@1", TRIM_HORIZON, 1)
    for write in (
        lambda: store.create(row),
        lambda: store.replace(row, row),
        lambda: store.create_many([row]),
        lambda: store.replace_many([(row, row)]),
        lambda: store.delete(row),
    ):
        with pytest.raises(ProtocolError):
            write()
    assert world.opened == 0


def test_looks_that_find_little_are_followed_by_ever_longer_pauses() -> None:
    rest, now, pauses = Rest(shortest_s=60, longest_s=300), 0.0, []
    for _ in range(5):
        assert rest.over(now)
        rest.found("s-1", now)
        end = next(second for second in range(1000) if rest.over(now + second))
        pauses.append(end)
        now += end
    assert pauses == [60, 120, 240, 300, 300]
    assert rest.note == "s-1"
    rest.found("", now)
    assert rest.over(now), "a look that found all may be followed by another at once"
    rest.found("s-1", now)
    rest.found("s-2", now)
    rest.found("", now)
    assert (rest.over(now + 59), rest.over(now + 60), rest.note) == (False, True, "s-1"), "one pause for one look"
