# SPDX-License-Identifier: Apache-2.0
"""Two tries of one task at once, answers that are lost, and what the threads of a read do to each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.control.reset import reset
from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import SYSTEM_CLOCK, Page
from shardbatch.core.position import TRIM_HORIZON, Position, after
from shardbatch.core.slice import Slice
from shardbatch.errors import SourceError, StoreError
from shardbatch.run import land
from shardbatch.run.expiry import ask_kept
from shardbatch.run.hold import Held, Renewal
from shardbatch.run.shard_read import ShardRead, read_shard
from shardbatch.stores.memory import MemoryStore
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import done
from tests.support.waiting import wait_until


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def reading(rig: Rig, held: Held, consumer=None) -> ShardRead:
    me = str(rig.owner("r1"))
    tip_ms, consumer = rig.stream.now_ms + 1, consumer or rig.consumer()
    return ShardRead(consumer, held, me, tip_ms, 1e12, threading.Event(), lambda: ask_kept(consumer))


def whole(read: ShardRead) -> Slice | None:
    """Read a shard with nobody waiting for a turn."""
    pages = read_shard(read)
    while True:
        try:
            next(pages)
        except StopIteration as done:
            landed: Slice | None = done.value
            return landed


def test_a_slice_that_another_try_landed_is_the_answer_also_if_a_renewal_met_it_first(rig: Rig) -> None:
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    consumer, owner = rig.consumer(), rig.owner("r1")
    held = Held(consumer, str(owner), only(rig))
    land(consumer, owner, found.groups[0].group, rig.stream.now_ms + 1)  # the other try
    there = only(rig).pending
    held.renew()
    assert whole(reading(rig, held)) == there
    assert only(rig).pending == there
    assert len(list(rig.folder.rglob("part-*"))) == 1


def test_an_empty_read_does_not_give_back_a_lease_on_which_another_try_landed(rig: Rig) -> None:
    found = rig.claim("r1")
    consumer, owner = rig.consumer(), rig.owner("r1")
    held = Held(consumer, str(owner), only(rig))
    rig.stream.put("a")
    land(consumer, owner, found.groups[0].group, rig.stream.now_ms + 1)
    there = only(rig).pending
    rig.stream.trim(only(rig).shard_id, keep=0)
    held.renew()
    assert whole(reading(rig, held)) == there
    assert only(rig).lease_owner == str(owner)


def test_leases_are_renewed_three_times_in_the_duration_after_which_others_take_them(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []

    class Noting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return super().wait(timeout)

    monkeypatch.setattr(threading, "Event", Noting)
    renewal = Renewal(rig.consumer(options=ClaimOptions(lease_duration=timedelta(minutes=6))))
    with renewal.running():
        pass
    assert 120 in waits
    assert all(wait is None or wait <= 120 for wait in waits)


def test_a_renewal_that_meets_a_lease_just_given_back_renews_the_others(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    rig.claim("r1")
    consumer, me = rig.consumer(), str(rig.owner("r1"))
    first, second = (Held(consumer, me, row) for row in consumer.leases())
    count = second.row.lease_count

    class Late(Held):
        """Its lease is given back between the look at its owner and the write."""

        def write(self, change):
            Held.write(self, lambda row: leases.release(row, 1))
            return Held.write(self, change)

    renewal = Renewal(consumer)
    renewal._interval = 0.01
    renewal.add(Late(consumer, me, first.row))
    renewal.add(second)
    with renewal.running():
        deadline = threading.Event()
        for _ in range(500):
            if second.row.lease_count > count + 1:
                break
            deadline.wait(0.01)
    assert second.row.lease_count > count + 1


def test_a_read_ends_with_an_error_once_its_lease_could_not_be_renewed_for_as_long_as_it_lasts(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    silent = threading.Event()
    silent.set()

    def fault(when: str, write) -> None:
        if silent.is_set():
            raise TimeoutError

    options = ClaimOptions(lease_duration=timedelta(milliseconds=60))
    store = MemoryStore(rig.store.memory, fault=fault)  # type: ignore[attr-defined]
    consumer = rig.consumer(store=store, options=options, clock=SYSTEM_CLOCK)
    held = Held(consumer, str(rig.owner("r1")), only(rig))
    renewal = Renewal(consumer)
    renewal.add(held)
    with renewal.running():
        wait_until(lambda: held.silent_s is not None, 20, "the silence to be noticed")
        with pytest.raises(StoreError, match="no sign of life for"):
            whole(reading(rig, held, consumer))
        assert not list(rig.folder.rglob("part-*"))
        silent.clear()
        wait_until(lambda: held.silent_s is None, 20, "the store to be heard again")
        assert not held.lost


def test_files_are_kept_when_the_slice_was_stored_but_the_answer_was_lost_to_another_owner(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    memory = rig.store.memory  # type: ignore[attr-defined]

    def robbed(when: str, write) -> None:
        """The answer to the landing is lost, and another owner takes the lease before it is read back."""
        if when == "after" and write.row.pending is not None and write.row.lease_owner == str(rig.owner("r1")):
            assert rig.store.replace(only(rig), leases.take(only(rig), "thief", None, 1))
            raise TimeoutError

    consumer = rig.consumer(store=MemoryStore(memory, fault=robbed))
    held = Held(consumer, str(rig.owner("r1")), only(rig))
    assert whole(reading(rig, held, consumer)) is None
    assert held.lost
    pending = only(rig).pending
    assert pending is not None
    assert all((rig.folder / file.path).exists() for file in pending.files)


def test_files_are_kept_when_another_try_renews_before_the_lost_answer_is_read_back(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    memory, me = rig.store.memory, str(rig.owner("r1"))  # type: ignore[attr-defined]

    def renewed(when: str, write) -> None:
        if when == "after" and write.row.pending is not None:
            assert rig.store.replace(only(rig), leases.renew(only(rig), me, 1))
            raise TimeoutError

    consumer = rig.consumer(store=MemoryStore(memory, fault=renewed))
    landed = whole(reading(rig, Held(consumer, me, only(rig)), consumer))
    assert landed is not None
    assert landed == only(rig).pending
    assert all((rig.folder / file.path).exists() for file in landed.files)


def test_files_are_kept_when_the_row_is_gone_before_the_lost_answer_is_read_back(rig: Rig) -> None:
    """As after the commit of an interval, which deletes its side leases."""
    rig.stream.put("a")
    rig.claim("r1")
    stored: list[Lease] = []

    def deleted(when: str, write) -> None:
        if when == "after" and write.row.pending is not None and not stored:
            stored.append(only(rig))
            assert rig.store.delete(only(rig))
            raise TimeoutError

    consumer = rig.consumer(store=MemoryStore(rig.store.memory, fault=deleted))  # type: ignore[attr-defined]
    held = Held(consumer, str(rig.owner("r1")), only(rig))
    assert whole(reading(rig, held, consumer)) is None
    assert held.lost
    (row,) = stored
    assert row.pending is not None
    assert all((rig.folder / file.path).exists() for file in row.pending.files)


class TimedOut(BaseException):
    """As Airflow ends a task whose time is over."""


def test_a_task_that_was_told_to_stop_asks_the_stream_for_no_further_shard(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=20)
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    stop, asked = threading.Event(), []
    read = rig.stream.read

    def broken(shard_id, position):
        asked.append(shard_id)
        if len(asked) == 1:
            raise TimedOut
        stop.wait(10)
        return read(shard_id, position)

    rig.stream.read = broken  # type: ignore[method-assign]
    consumer = rig.consumer(limits=ReadLimits(concurrency=1))
    with pytest.raises(TimedOut):
        land(consumer, rig.owner("r1"), found.groups[0].group, rig.stream.now_ms, stop)
    assert len(asked) <= 2


def test_a_task_that_lost_one_lease_and_a_child_keeps_what_it_landed(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    one, two = rig.stream.shards
    sent = rig.stream.put("a", shard_id=one)
    rig.stream.failing[two] = SourceError("unused")
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    del rig.stream.failing[two]
    child, other = rig.stream.split(one)
    read = rig.stream.read

    def robbed(shard_id, position):
        for page in read(shard_id, position):
            if shard_id != one:
                row = rig.consumer().lease(shard_id)
                assert row is not None
                assert rig.store.replace(row, leases.take(row, "thief", None, 1))
            yield page

    rig.stream.read = robbed  # type: ignore[method-assign]
    (landed,) = rig.land("r1", found)
    assert (landed.lost, landed.shards) == (3, 1)
    assert rig.freeze("r1").record_count == len(sent)
    assert {child, other} <= {row.shard_id for row in rig.consumer().leases()}


@pytest.mark.parametrize("what", ["give_back", "land", "renew"])
def test_a_try_that_read_before_a_reset_writes_nothing_after_it(rig: Rig, what: str) -> None:
    """The run was cleared and claimed again: the owner is the same, the place is not."""
    rig.stream.put("a", "b")
    rig.run("r0")
    rig.claim("r1")
    zombie = Held(rig.consumer(), str(rig.owner("r1")), only(rig))
    rig.over("r1")
    done(reset, rig, shards=[only(rig).shard_id], to=TRIM_HORIZON, liveness=rig.verdict)
    rig.claim("r1")
    before = only(rig)
    if what == "give_back":
        zombie.give_back(rig.time.ms)
    elif what == "renew":
        zombie.renew()
    else:
        read = Slice(before.shard_id, zombie.row.checkpoint, after("900"), ended=False, records=1, last="900")
        assert not zombie.land(read)
    assert zombie.lost
    assert only(rig) == before


def test_a_read_whose_lease_was_lost_before_an_answer_came_is_a_lost_one(rig: Rig) -> None:
    """It would else be told as a shard that does not answer: a machine slept, and another has the shard since."""
    rig.stream.put("a")
    rig.claim("r1")
    held = Held(rig.consumer(), str(rig.owner("r1")), only(rig))

    def refused(shard_id: str, position: Position) -> Iterator[Page]:
        assert rig.store.replace(only(rig), leases.take(only(rig), "thief", None, rig.time.ms))
        held.renew()
        yield Page(rig.stream._batch([]), position, silent=True)

    rig.stream.read = refused  # type: ignore[method-assign]
    assert whole(reading(rig, held)) is None
    assert held.lost
