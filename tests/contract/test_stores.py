# SPDX-License-Identifier: Apache-2.0
"""What every lease store keeps to, whatever stands behind it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import batch, lease
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key, Namespace
from shardbatch.core.shard import HashRange, Shard
from shardbatch.core.slice import LandedFile, Slice
from shardbatch.errors import ProtocolError, StoreError, StoreNotFound
from tests.contract import stores_backends as backends
from tests.contract.stores_racer import win

CLAIMERS = 30


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgresql", "dynalite", "ministack"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Where the rows stand. Shared by all tests of this module: each has a namespace of its own."""
    made = backends.made(request, tmp_path_factory.mktemp("leases"))
    opened = made.open()
    opened.prepare()
    opened.close()
    return made


@pytest.fixture
def store(backend: Any) -> Iterator[Any]:
    opened = backend.open(page_size=3)
    yield opened
    opened.close()


@pytest.fixture
def other(backend: Any) -> Iterator[Any]:
    opened = backend.open(page_size=3)
    yield opened
    opened.close()


@pytest.fixture
def namespace() -> Namespace:
    return Namespace(f"app-{uuid.uuid4().hex[:12]}", "orders")


@pytest.fixture
def row(store: Any, namespace: Namespace) -> Lease:
    """The row of KV-3: owner w1, count 1."""
    made = dataclasses.replace(fresh(namespace, "shardId-000"), lease_owner="w1")
    assert store.create(made)
    return made


def fresh(namespace: Namespace, shard_id: str, *, scope: str = "", count: int = 1) -> Lease:
    shard = Shard(shard_id, ("p1", "p2"), HashRange(0, 2**128 - 1))
    return lease.add(namespace, scope, shard, TRIM_HORIZON, count, now_ms=7)


def frozen(namespace: Namespace, batch_id: str, owner: str = "w1", *, scope: str = "") -> Batch:
    return Batch(namespace, scope, batch_id, owner, 1, BatchState.FROZEN, attempt=1, records=2**40, created_at_ms=9)


def slice_of(size: int) -> Slice:
    """A slice whose text in the row has at least so many bytes."""
    files = tuple(LandedFile(f"slices/{n:064}", n, n) for n in range(size // 90))
    return Slice("shardId-000", TRIM_HORIZON, after("77"), False, files, records=3)


def losing(moment: str, times: int) -> Callable[[str], None]:
    """A hook that loses so many requests (before) or answers (after)."""
    left = [times]

    def hook(now: str) -> None:
        if now == moment and left[0]:
            left[0] -= 1
            raise TimeoutError("lost by the test")

    return hook


# --- one row ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_row_comes_back_as_it_was_written(store: Any, namespace: Namespace) -> None:
    held = dataclasses.replace(
        fresh(namespace, "s-1", scope="a/b%2Fc/ü%"[:6]), completed=True, millis_behind_latest=2**41
    )
    rows = [held, frozen(namespace, "b-1"), Application(namespace, "arn:1", TRIM_HORIZON, 1, deployments=("d",))]
    for each in rows:
        assert store.get(each.key) is None
        assert store.create(each)
        assert store.get(each.key) == each


def test_a_row_without_an_owner_comes_back(store: Any, namespace: Namespace) -> None:
    void = batch.void(namespace, "", "b-1", 1, 5)
    assert store.create(void)
    assert store.get(void.key) == void


def test_a_row_is_created_once(store: Any, other: Any, row: Lease) -> None:
    # K-18, KV-3: create by w2 -> ALREADY_EXISTS
    assert not other.create(dataclasses.replace(row, lease_owner="w2"))
    assert not store.create(row)
    assert store.get(row.key) == row


def test_a_replace_fits_the_counter_it_saw_and_no_other(store: Any, other: Any, row: Lease) -> None:
    # K-19, K-20, KV-3
    renewed = lease.renew(row, "w1", 8)
    assert store.replace(row, renewed)
    assert not store.replace(row, renewed), "seen has count 1, the row has 2"
    assert not other.replace(row, lease.take(row, "w2", None, 9))
    ahead = dataclasses.replace(renewed, lease_count=3)
    assert not other.replace(ahead, lease.take(ahead, "w2", None, 9)), "seen has count 3, the row has 2"
    assert store.get(row.key) == renewed
    taken = lease.take(renewed, "w2", "g1", 9)
    assert other.replace(renewed, taken)
    assert store.get(row.key) == taken
    assert taken.lease_count == 3


def test_nothing_but_the_counter_is_compared(store: Any, row: Lease) -> None:
    seen = dataclasses.replace(row, lease_owner="someone else", updated_at_ms=0)
    assert store.replace(seen, lease.take(seen, "w2", None, 9))


def test_a_lease_walks_through_its_life(store: Any, row: Lease) -> None:
    # K-21, K-22, KV-3: the former owner changes nothing, the checkpoint moves with the commit
    landed = lease.land(row, "w1", dataclasses.replace(slice_of(0), ended=True), 8)
    stamped = lease.stamp(landed, "w1", "b-1", 9)
    rolled = lease.roll_forward(stamped, "b-1", 10)
    for seen, new in ((row, landed), (landed, stamped), (stamped, rolled)):
        assert store.replace(seen, new)
        assert store.get(row.key) == new
        assert not store.replace(seen, new)
    assert rolled.completed
    assert rolled.checkpoint == after("77")


def test_a_delete_fits_the_counter_it_saw(store: Any, row: Lease) -> None:
    renewed = lease.renew(row, "w1", 8)
    assert store.replace(row, renewed)
    assert not store.delete(row)
    assert store.get(row.key) == renewed
    assert store.delete(renewed)
    assert store.get(row.key) is None
    assert not store.delete(renewed)
    assert not store.replace(renewed, lease.renew(renewed, "w1", 9))


def test_a_row_made_again_does_not_fit_what_was_seen_of_the_old_one(store: Any, row: Lease) -> None:
    # PROTOCOL V15
    zombie = lease.renew(row, "w1", 8)
    assert store.delete(row)
    again = fresh(row.namespace, row.shard_id, count=1_000_001)
    assert store.create(again)
    assert not store.replace(row, zombie)
    assert not store.delete(row)
    assert store.get(row.key) == again


def test_a_counter_must_rise_and_a_row_stay_itself(store: Any, row: Lease) -> None:
    for new in (row, dataclasses.replace(row, lease_count=9, shard_id="another")):
        with pytest.raises(ProtocolError):
            store.replace(row, new)


def test_a_column_of_a_later_version_survives(backend: Any, store: Any, row: Lease) -> None:
    backend.set_unknown(row.key, "later_column", "kept")
    assert store.get(row.key) == row
    assert list(store.list(SHARD_LEASE, row.namespace)) == [row]
    assert store.replace(row, lease.take(row, "w2", None, 8))
    assert backend.unknown(row.key, "later_column") == "kept"


def test_a_column_set_to_nothing_is_nothing(store: Any, row: Lease) -> None:
    assert store.replace(row, lease.release(row, 8))
    assert store.get(row.key).lease_owner is None


def test_a_large_slice_fits(store: Any, row: Lease) -> None:
    landed = lease.land(row, "w1", slice_of(300_000), 8)
    assert len(landed.columns()["pending"]) >= 300_000
    assert store.replace(row, landed)
    assert store.get(row.key) == landed
    assert list(store.list(SHARD_LEASE, row.namespace)) == [landed]


def test_a_slice_too_large_is_refused_and_changes_nothing(store: Any, row: Lease) -> None:
    landed = lease.land(row, "w1", slice_of(600_000), 8)
    refusal = None
    try:
        assert store.replace(row, landed)
    except StoreError as error:
        refusal = str(error)
    assert refusal is None or "KB" in refusal
    assert store.get(row.key) == (landed if refusal is None else row)


def test_a_key_too_long_is_refused_by_name(store: Any, namespace: Namespace) -> None:
    with pytest.raises(StoreError, match="scope"):
        store.create(fresh(namespace, "s", scope="x" * 769))
    longest = fresh(namespace, "s" * 190, scope="x" * 768)
    assert store.create(longest)
    assert list(store.list(SHARD_LEASE, namespace, "x" * 768)) == [longest]


# --- races -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separate", [False, True], ids=["one-store", "six-stores"])
def test_one_of_thirty_claimers_wins_each_round(backend: Any, store: Any, namespace: Namespace, separate: bool) -> None:
    shards = ["s-1", "s-2", "s-3"]
    stores = [backend.open() for _ in range(6)] if separate else [store]
    gate = threading.Barrier(CLAIMERS)

    def claim(number: int, seen: Lease | None, shard: str) -> Lease | None:
        mine = stores[number % len(stores)]
        gate.wait(60)
        if seen is None:
            new = dataclasses.replace(fresh(namespace, shard), lease_owner=f"w{number}")
            return new if mine.create(new) else None
        new = lease.take(seen, f"w{number}", None, number)
        return new if mine.replace(seen, new) else None

    with ThreadPoolExecutor(CLAIMERS) as pool:
        for shard in shards:
            seen: Lease | None = None
            for _ in range(4):
                answers = list(pool.map(claim, range(CLAIMERS), [seen] * CLAIMERS, [shard] * CLAIMERS))
                winners = [answer for answer in answers if answer]
                assert len(winners) == 1
                seen = winners[0]
                assert store.get(seen.key) == seen
    for each in stores:
        each.close()


def test_no_update_is_lost_between_threads(backend: Any, store: Any, row: Lease) -> None:
    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(lambda n: win(store, row.key, f"w{n}", 101), range(8)))
    assert sum(wins) == 100
    assert store.get(row.key).lease_count == 101


def test_no_update_is_lost_between_processes(backend: Any, store: Any, namespace: Namespace) -> None:
    if backend.url is None:
        pytest.skip("lives in one process")
    shards = ["s-1", "s-2"]
    for shard in shards:
        assert store.create(fresh(namespace, shard))
    task = {"url": backend.url, "options": backend.options, "app_name": namespace.app_name,
            "stream_name": namespace.stream_name, "shards": shards, "target": 41}  # fmt: skip
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.contract.stores_racer", json.dumps({**task, "owner": f"w{n}"})],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for n in range(4)
    ]
    won = [json.loads(racer.communicate(timeout=120)[0]) for racer in racers]
    assert [sum(column) for column in zip(*won, strict=True)] == [40, 40]


# --- lost requests and answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["create", "replace", "delete"])
def test_a_lost_request_or_answer_is_made_good(
    backend: Any, store: Any, other: Any, row: Lease, verb: str, moment: str, times: int
) -> None:
    # R44, K-26
    new = fresh(row.namespace, "s-2") if verb == "create" else lease.renew(row, "w1", 8)
    act = {
        "create": lambda: store.create(new),
        "replace": lambda: store.replace(row, new),
        "delete": lambda: store.delete(row),
    }[verb]
    sent = store.writes
    with backend.tap(store, losing(moment, times)):
        assert act()
    assert store.writes > sent
    assert other.get(new.key) == (None if verb == "delete" else new)
    assert not act()


def test_a_write_lost_before_another_one_came_has_lost_the_race(
    backend: Any, store: Any, other: Any, row: Lease
) -> None:
    theirs = lease.take(row, "w2", None, 9)

    def hook(moment: str) -> None:
        if moment == "before" and other.get(row.key) == row:
            assert other.replace(row, theirs)
            raise TimeoutError("lost by the test")

    with backend.tap(store, hook):
        assert not store.replace(row, lease.renew(row, "w1", 8))
    assert store.get(row.key) == theirs


def test_a_create_lost_before_another_one_came_has_lost_the_race(
    backend: Any, store: Any, other: Any, namespace: Namespace
) -> None:
    mine = dataclasses.replace(fresh(namespace, "s-9"), lease_owner="w1")
    theirs = dataclasses.replace(mine, lease_owner="w2")

    def hook(moment: str) -> None:
        if moment == "before" and other.create(theirs):
            raise TimeoutError("lost by the test")

    with backend.tap(store, hook):
        assert not store.create(mine)
    assert store.get(mine.key) == theirs


@pytest.mark.parametrize("verb", ["replace", "delete"])
def test_a_delayed_write_loses_against_what_came_before_it(
    backend: Any, store: Any, other: Any, row: Lease, verb: str
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def hold(moment: str) -> None:
        if moment == "before":
            arrived.set()
            assert go_on.wait(60)

    theirs = lease.take(row, "w2", None, 9)
    with backend.tap(store, hold), ThreadPoolExecutor(1) as pool:
        late = pool.submit(store.replace, row, lease.renew(row, "w1", 8)) if verb == "replace" else pool.submit(
            store.delete, row
        )  # fmt: skip
        assert arrived.wait(60)
        assert other.replace(row, theirs)
        go_on.set()
        assert late.result(60) is False
    assert other.get(row.key) == theirs


def test_an_outcome_that_cannot_be_learned_is_said(backend: Any, store: Any, row: Lease) -> None:
    def hook(now: str) -> None:
        if now == "before":
            raise TimeoutError("never arrives")

    sent = store.writes
    with backend.tap(store, hook), pytest.raises(StoreError, match=r"outcome of the replace .* is unknown"):
        store.replace(row, lease.renew(row, "w1", 8))
    assert 2 <= store.writes - sent <= 10
    assert store.get(row.key) == row


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_list_has_all_pages_in_key_order(store: Any, namespace: Namespace) -> None:
    # K-17; pages of 3 rows
    names = [f"shardId-{n:04}" for n in range(46)] + ["A", "a", "$x", "~z", "ü"]
    rows = [fresh(namespace, name) for name in names]
    for each in reversed(rows):
        assert store.create(each)
    assert [each.shard_id for each in store.list(SHARD_LEASE, namespace)] == sorted(names)
    assert list(store.list(SHARD_LEASE, namespace)) == sorted(rows, key=lambda each: each.shard_id)


def test_a_list_is_filtered_by_columns(store: Any, namespace: Namespace) -> None:
    for n in range(20):
        owner, group = ("w1", f"g{n % 2}") if n % 4 else (None, None)
        made = dataclasses.replace(fresh(namespace, f"s-{n:02}"), lease_owner=owner, read_group=group)
        assert store.create(dataclasses.replace(made, batch_id="b-1" if n == 7 else None))
        assert store.create(frozen(namespace, f"b-{n:02}", f"w{n % 3}"))

    def shards(**equal: str) -> list[int]:
        return [int(each.shard_id[2:]) for each in store.list(SHARD_LEASE, namespace, **equal)]

    assert shards(lease_owner="w1") == [n for n in range(20) if n % 4]
    assert shards(lease_owner="w1", read_group="g0") == [n for n in range(20) if n % 4 == 2]
    assert shards(lease_owner="w2") == []
    assert shards(batch_id="b-1") == [7]
    mine = list(store.list(BATCH, namespace, owner="w1"))
    assert [each.batch_id for each in mine] == [f"b-{n:02}" for n in range(20) if n % 3 == 1]
    decided = dataclasses.replace(mine[0], row_count=2, state=BatchState.COMMITTED)
    assert store.replace(mine[0], decided)
    assert list(store.list(BATCH, namespace, owner="w1", state="COMMITTED")) == [decided]
    assert len(list(store.list(BATCH, namespace, state="FROZEN"))) == 19


def test_a_batch_is_found_by_its_owner_of_now(store: Any, namespace: Namespace) -> None:
    made = frozen(namespace, "b-1", "w1")
    assert store.create(made)
    adopted = batch.adopt(made, "w2")
    assert store.replace(made, adopted)
    assert list(store.list(BATCH, namespace, owner="w1")) == []
    assert list(store.list(BATCH, namespace, owner="w2")) == [adopted]
    assert store.delete(adopted)
    assert list(store.list(BATCH, namespace, owner="w2")) == []


def test_namespaces_and_scopes_never_mix(store: Any) -> None:
    # R54, K-17: what could run into one another if keys were only glued together, or compared without case
    mark = uuid.uuid4().hex[:12]
    pairs = (("a", "s"), ("A", "s"), ("a", "s#w"), ("a#s", "w"), ("a!", "s"))
    spaces = [Namespace(mark + app, stream) for app, stream in pairs]
    scopes = ["", "x", "X", "x#y", "x/y", "x%23y", "x!-y", "!"]
    rows = [
        dataclasses.replace(fresh(space, shard, scope=scope), lease_owner=f"{space}|{scope}|{shard}")
        for space in spaces
        for scope in scopes
        for shard in ("s", "y#s")
    ]
    for each in rows:
        assert store.create(each)
    for space in spaces:
        assert store.create(frozen(space, "b", "w#1"))
        assert store.create(Application(space, str(space), TRIM_HORIZON, 1))
    for space in spaces:
        for scope in scopes:
            mine = [each for each in rows if (each.namespace, each.scope) == (space, scope)]
            assert list(store.list(SHARD_LEASE, space, scope)) == sorted(mine, key=lambda each: each.shard_id)
        assert [each.namespace for each in store.list(BATCH, space, owner="w#1")] == [space]
        assert [each.stream_id for each in store.list(APPLICATION, space)] == [str(space)]
    one = rows[0]
    assert store.replace(one, lease.take(one, "thief", None, 9))
    assert all(store.get(each.key) == each for each in rows[1:])


def test_a_list_goes_on_while_rows_change(store: Any, other: Any, namespace: Namespace) -> None:
    rows = {n: fresh(namespace, f"s-{n:02}") for n in range(40)}
    for each in rows.values():
        assert store.create(each)
    found = []
    for each in store.list(SHARD_LEASE, namespace):
        found.append(each.shard_id)
        number = int(each.shard_id[2:4])
        if number % 10 == 0:
            assert other.delete(rows[number + 5]), "of a page that was not read yet"
        elif number % 10 == 1 and not each.shard_id.endswith("x"):
            assert other.replace(each, lease.take(each, "w2", None, 9))
            assert other.create(fresh(namespace, each.shard_id + "x"))
    assert found == sorted(found)
    stayed = [each.shard_id for number, each in rows.items() if number % 10 != 5]
    assert [each for each in found if not each.endswith("x")] == stayed


# --- tables ----------------------------------------------------------------------------------------------------------


def test_preparing_again_clears_nothing(store: Any, row: Lease) -> None:
    # K-17: initialising is called on every start
    store.prepare()
    assert store.get(row.key) == row


def test_many_prepare_at_once(backend: Any, namespace: Namespace) -> None:
    place = backend.place()
    stores = [backend.open(**place) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: each.prepare(), stores))
    assert stores[3].create(fresh(namespace, "s-1"))
    assert [each.shard_id for each in stores[5].list(SHARD_LEASE, namespace)] == ["s-1"]
    for each in stores:
        each.close()


def test_a_missing_table_is_named(backend: Any, namespace: Namespace) -> None:
    absent = backend.open(create=False, **backend.place())
    key = Key(SHARD_LEASE, namespace, ("", "s"))
    for act in (
        absent.prepare,
        lambda: absent.get(key),
        lambda: list(absent.list(SHARD_LEASE, namespace)),
        lambda: absent.create(fresh(namespace, "s")),
    ):
        with pytest.raises(StoreNotFound, match="table") as told:
            act()
        assert "create=True" in str(told.value)
    absent.close()


def test_a_store_counts_its_writes(store: Any, row: Lease) -> None:
    sent = store.writes
    store.get(row.key)
    list(store.list(SHARD_LEASE, row.namespace))
    assert store.writes == sent
    assert store.replace(row, lease.renew(row, "w1", 8))
    assert not store.create(row)
    assert store.writes == sent + 2
