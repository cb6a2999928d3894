# SPDX-License-Identifier: Apache-2.0
"""Many writes at once are so many single ones: each row has its own condition, and its own answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core import lease
from shardbatch.core.lease import Lease
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.errors import ProtocolError, StoreError
from tests.contract.stores.rows import fresh, losing

#: More than two pages of the suite's stores, the last one not full.
ROWS = 8


def rows_of(namespace: Namespace) -> list[Lease]:
    return [fresh(namespace, f"s-{n}", count=n + 1) for n in reversed(range(ROWS))]


def taken(rows: list[Lease], owner: str = "w1") -> list[tuple[Lease, Lease]]:
    return [(row, lease.take(row, owner, f"g-{row.shard_id}", 9)) for row in rows]


@pytest.fixture
def rows(store: Any, namespace: Namespace) -> list[Lease]:
    made = rows_of(namespace)
    assert list(store.create_many(made)) == [True] * ROWS
    return made


def listed(store: Any, namespace: Namespace) -> list[Lease]:
    return list(store.list(SHARD_LEASE, namespace))


def test_many_rows_are_created_and_replaced_each_as_it_is(store: Any, other: Any, rows: list[Lease]) -> None:
    namespace = rows[0].namespace
    assert listed(other, namespace) == rows[::-1]
    changes = taken(rows)
    assert list(store.replace_many(changes)) == [True] * ROWS
    assert listed(other, namespace) == [new for _, new in changes][::-1]


def test_nothing_to_write_is_written(store: Any) -> None:
    assert list(store.create_many([])) == []
    assert list(store.replace_many([])) == []


def test_a_row_that_is_there_already_does_not_keep_the_others_from_being_created(
    store: Any, other: Any, namespace: Namespace
) -> None:
    made = rows_of(namespace)
    theirs = [replace(row, lease_owner="w2") for row in (made[1], made[2], made[7])]
    assert all(other.create_many(theirs))
    assert list(store.create_many(made)) == [row.shard_id not in {r.shard_id for r in theirs} for row in made]
    assert listed(store, namespace) == sorted([*theirs, made[0], *made[3:7]], key=lambda row: row.shard_id)


def test_each_row_must_have_the_counter_that_was_seen_of_it(store: Any, other: Any, rows: list[Lease]) -> None:
    theirs = taken(rows[::2], "w2")
    assert all(other.replace_many(theirs))
    assert other.delete(rows[1])
    mine = taken(rows)
    assert list(store.replace_many(mine)) == [False, False, False, True, False, True, False, True]
    expected = [new for _, new in theirs] + [mine[n][1] for n in (3, 5, 7)]
    assert listed(store, rows[0].namespace) == sorted(expected, key=lambda row: row.shard_id)


def test_nothing_is_written_where_one_row_would_become_another(store: Any, rows: list[Lease]) -> None:
    changes = taken(rows)
    for wrong in ((rows[1], replace(rows[1], lease_owner="w1")), (rows[1], changes[2][1])):
        with pytest.raises(ProtocolError):
            store.replace_many([wrong, changes[0]])
    assert listed(store, rows[0].namespace) == rows[::-1]


def test_columns_of_a_later_version_survive(backend: Any, store: Any, rows: list[Lease]) -> None:
    backend.set_unknown(rows[2].key, "later_column", "kept")
    assert all(store.replace_many(taken(rows)))
    assert backend.unknown(rows[2].key, "later_column") == "kept"


def test_each_row_counts_as_a_write(store: Any, rows: list[Lease]) -> None:
    sent = store.writes
    store.replace_many(taken(rows))
    assert store.writes == sent + ROWS


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["create", "replace"])
def test_lost_requests_and_answers_are_made_good(
    backend: Any, store: Any, other: Any, namespace: Namespace, verb: str, moment: str, times: int
) -> None:
    # R44, K-26
    made = rows_of(namespace)
    if verb == "replace":
        assert all(store.create_many(made))
    changes = taken(made)
    new = made if verb == "create" else [row for _, row in changes]

    def act() -> list[bool]:
        return list(store.create_many(made) if verb == "create" else store.replace_many(changes))

    with backend.tap(store, losing(moment, times)):
        assert act() == [True] * ROWS
    assert listed(other, namespace) == new[::-1]
    assert act() == [False] * ROWS


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_what_was_lost_before_another_came_has_lost_its_race_and_no_other_has(
    backend: Any, store: Any, other: Any, namespace: Namespace, verb: str
) -> None:
    made = rows_of(namespace)
    if verb == "replace":
        assert all(store.create_many(made))
    theirs = lease.take(made[3], "w2", None, 9)
    one_by_one, came = threading.Lock(), []

    def hook(moment: str) -> None:
        with one_by_one:
            if moment == "before" and not came:
                came.append(other.create(theirs) if verb == "create" else other.replace(made[3], theirs))
                raise TimeoutError("lost by the test")

    with backend.tap(store, hook):
        answers = store.create_many(made) if verb == "create" else store.replace_many(taken(made))
    assert came == [True]
    assert list(answers) == [number != 3 for number in range(ROWS)]
    assert store.get(theirs.key) == theirs


def test_an_outcome_that_cannot_be_learned_is_said_and_what_was_written_stands(
    backend: Any, store: Any, rows: list[Lease]
) -> None:
    sent = threading.Semaphore(2)

    def hook(now: str) -> None:
        if now == "before" and not sent.acquire(blocking=False):
            raise TimeoutError("never arrives")

    changes = taken(rows)
    with backend.tap(store, hook), pytest.raises(StoreError, match=r"outcome of the replace .* unknown"):
        store.replace_many(changes)
    found = listed(store, rows[0].namespace)
    new = {row.shard_id: row for _, row in changes}
    written = [row for row in found if row == new[row.shard_id]]
    assert 0 < len(written) < ROWS
    assert all(row in rows for row in found if row not in written)
    assert sum(store.replace_many(changes)) == ROWS - len(written)


def test_of_claimers_that_race_each_row_has_one_winner(backend: Any, store: Any, rows: list[Lease]) -> None:
    stores = [backend.open(page_size=3) for _ in range(4)]
    gate = threading.Barrier(len(stores))

    def claim(number: int) -> list[bool]:
        order = rows if number % 2 else rows[::-1]
        gate.wait(60)
        answers = dict(zip(order, stores[number].replace_many(taken(order, f"w{number}")), strict=True))
        return [answers[row] for row in rows]

    with ThreadPoolExecutor(len(stores)) as pool:
        answers = list(pool.map(claim, range(len(stores))))
    for number, row in enumerate(rows):
        winners = [f"w{claimer}" for claimer, won in enumerate(answers) if won[number]]
        assert [store.get(row.key).lease_owner] == winners
    for each in stores:
        each.close()


def test_of_creators_that_race_each_row_has_one_winner(backend: Any, store: Any, namespace: Namespace) -> None:
    stores = [backend.open(page_size=3) for _ in range(4)]
    gate = threading.Barrier(len(stores))
    made = rows_of(namespace)

    def create(number: int) -> list[bool]:
        mine = [replace(row, lease_owner=f"w{number}") for row in made]
        order = mine if number % 2 else mine[::-1]
        gate.wait(60)
        answers = list(stores[number].create_many(order))
        return answers if number % 2 else answers[::-1]

    with ThreadPoolExecutor(len(stores)) as pool:
        answers = list(pool.map(create, range(len(stores))))
    for number, row in enumerate(made):
        winners = [f"w{creator}" for creator, won in enumerate(answers) if won[number]]
        assert [store.get(row.key).lease_owner] == winners
    for each in stores:
        each.close()
