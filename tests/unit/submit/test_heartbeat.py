# SPDX-License-Identifier: Apache-2.0
"""Signs of life of an attempt (PROTOCOL B7) against a real store in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState, Recorded
from shardbatch.core.owner import Owner
from shardbatch.core.rows import BATCH, Key, Namespace
from shardbatch.errors import BatchParked, LeaseLost
from shardbatch.run import Rows
from shardbatch.stores.memory import MemoryStore
from shardbatch.submit.attempt import Attempt, EarlierApplication, Heartbeat

NAMESPACE = Namespace("etl", "orders")
ME = Owner("here", "dag", "run1", "orders")
QUICK = timedelta(milliseconds=20)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.prepare()
    store.create(Batch(NAMESPACE, "", "b1", str(ME), 5, BatchState.FROZEN, attempt=1))
    return store


def row(store: MemoryStore) -> Batch:
    return cast("Batch", store.get(Key(BATCH, NAMESPACE, ("", "b1"))))


def attempt(store: MemoryStore, owner: Owner = ME, number: int = 1, work: str = "") -> Attempt:
    return Attempt(Rows(namespace=NAMESPACE, store=store), owner, "b1", number, work)


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.005)


def change(store: MemoryStore, transition: Callable[[Batch], Batch]) -> None:
    while True:
        seen = row(store)
        if store.replace(seen, transition(seen)):
            return


def test_the_first_sign_of_life_is_written_before_anything_is_submitted(store: MemoryStore) -> None:
    with Heartbeat(attempt(store), every=timedelta(hours=1), application=lambda: None, stop=lambda: None):
        found = row(store)
    assert found.attempt_seen_ms is not None
    number, name = found.spark_application
    assert (number, (name or "").partition(":")[0]) == (1, "task")


def test_the_applications_id_is_recorded_as_soon_as_it_is_known(store: MemoryStore) -> None:
    known: list[str] = []
    every = timedelta(hours=1)
    with Heartbeat(attempt(store), every=every, application=lambda: known[0] if known else None, stop=lambda: None):
        known.append("yarn:application_1_2")
        until(lambda: row(store).spark_application == (1, "yarn:application_1_2"))


def test_it_goes_on_beating_while_the_application_runs(store: MemoryStore) -> None:
    with Heartbeat(attempt(store), every=QUICK, application=lambda: "yarn:a", stop=lambda: None):
        before = row(store).row_count
        until(lambda: row(store).row_count >= before + 3)
    after = row(store).row_count
    threading.Event().wait(0.1)
    assert row(store).row_count == after


@pytest.mark.parametrize(
    ("robbery", "error", "told"),
    [
        (lambda batch: batches.adopt(batch, "another/owner"), LeaseLost, "belongs to another/owner.*other owner"),
        (lambda batch: batches.open_attempt(batch, 1), LeaseLost, "not the latest: 2 was opened.*newer attempt"),
        (lambda batch: batches.discard(batch, "ann reset"), LeaseLost, "given up: ann reset.*the next run freezes"),
        (lambda batch: batches.park(batch, "ann parked"), BatchParked, "parked: ann parked.*unpark --batch"),
    ],
    ids=["adopted", "newer attempt", "discarded", "parked"],
)
def test_a_lost_batch_ends_the_application_and_is_told(
    store: MemoryStore, robbery: Any, error: type[Exception], told: str
) -> None:
    stopped = threading.Event()
    heartbeat = Heartbeat(attempt(store), every=QUICK, application=lambda: "yarn:a", stop=stopped.set)
    with heartbeat:
        change(store, robbery)
        assert stopped.wait(10)
    with pytest.raises(error, match=told):
        heartbeat.raise_if_lost()


def test_a_stop_that_fails_is_tried_again_and_does_not_hang_the_task(store: MemoryStore) -> None:
    tried = threading.Event()

    def stop() -> None:
        tried.set()
        raise OSError("no such cluster")

    with Heartbeat(attempt(store), every=QUICK, application=lambda: "yarn:a", stop=stop):
        change(store, lambda batch: batches.adopt(batch, "another/owner"))
        assert tried.wait(10)


def test_a_store_that_is_away_for_a_while_costs_nothing(store: MemoryStore) -> None:
    stopped = threading.Event()
    refused = 0

    def away(when: str, _: Any) -> None:
        nonlocal refused
        if when == "before" and refused < 12:
            refused += 1
            raise TimeoutError("the store is away")

    heartbeat = Heartbeat(attempt(store), every=QUICK, application=lambda: "yarn:a", stop=stopped.set)
    with heartbeat:
        store.fault = away
        until(lambda: refused >= 12)
        before = row(store).row_count
        until(lambda: row(store).row_count > before)
    heartbeat.raise_if_lost()
    assert not stopped.is_set()


def test_work_that_lost_its_batch_before_it_began_does_not_begin(store: MemoryStore) -> None:
    other = attempt(store, Owner("here", "dag", "run2", "orders"))
    with pytest.raises(LeaseLost):
        other.my_turn()
    with pytest.raises(LeaseLost), Heartbeat(other, every=QUICK, application=lambda: None, stop=lambda: None):
        pytest.fail("it must not be entered")


def test_an_attempt_that_is_committed_has_no_turn_and_a_replay_has_one(store: MemoryStore) -> None:
    assert attempt(store).my_turn()
    change(store, lambda batch: batches.decide(batch, (), 1, 1))
    assert not attempt(store).my_turn()
    change(store, lambda batch: batches.open_attempt(batch, 1))
    assert attempt(store, number=2).my_turn()
    assert not attempt(store, number=1).my_turn()


def test_a_parked_batch_is_not_worked_on(store: MemoryStore) -> None:
    change(store, lambda batch: batches.park(batch, "three attempts failed"))
    with pytest.raises(BatchParked, match="three attempts failed"):
        attempt(store).my_turn()


def test_what_ran_before_is_known_with_its_attempt_and_whether_its_end_was_seen(store: MemoryStore) -> None:
    first = attempt(store)
    assert first.earlier_application() is None
    first.beat("client:w1:42")
    assert first.earlier_application() == EarlierApplication("client:w1:42", of_this_attempt=True, ended=False)
    first.close()
    assert first.earlier_application() == EarlierApplication("client:w1:42", of_this_attempt=True, ended=True)
    change(store, lambda batch: batches.open_attempt(batch, 1))
    second = attempt(store, number=2)
    assert second.earlier_application() == EarlierApplication("client:w1:42", of_this_attempt=False, ended=True)
    second.beat("client:w1:43")
    assert first.earlier_application() is None  # a try of the attempt before has nothing to do with this one's


def test_a_row_names_the_applications_of_its_latest_attempt_only(store: MemoryStore) -> None:
    attempt(store, work="orders.by_day").beat("client:w1:42")
    change(store, lambda batch: batches.open_attempt(batch, 1))
    attempt(store, number=2, work="orders.by_carrier").beat("client:w1:43")
    assert row(store).spark_applications == (2, (Recorded("client:w1:43", "orders.by_carrier"),))


def test_a_retry_of_an_attempt_that_was_closed_is_alive_again(store: MemoryStore) -> None:
    first = attempt(store)
    first.beat("client:w1:42")
    first.close()
    first.beat("client:w1:43")
    assert row(store).attempt_closed == 0


def test_closing_with_a_store_that_fails_is_no_failure_of_the_work(store: MemoryStore) -> None:
    def away(when: str, _: Any) -> None:
        raise TimeoutError("the store is away")

    store.fault = away
    attempt(store).close()
    assert row(store).attempt_closed == 0


def test_tasks_of_one_block_do_not_take_each_other_for_older_applications(store: MemoryStore) -> None:
    first, second = attempt(store, work="orders.by_day"), attempt(store, work="orders.by_carrier")
    first.beat("client:w1:42")
    assert second.earlier_application() is None
    again = attempt(store, work="orders.by_day")
    assert again.earlier_application() == EarlierApplication("client:w1:42", of_this_attempt=True, ended=False)
    assert row(store).spark_application == (1, "client:w1:42")


def test_an_attempt_that_another_task_of_the_block_closed_does_not_tell_of_this_ones_application(
    store: MemoryStore,
) -> None:
    lost, other = attempt(store, work="t[0]"), attempt(store, work="t[1]")
    lost.beat("connect:a")
    other.beat("connect:b")
    other.close()
    again = attempt(store, work="t[0]").earlier_application()
    assert again == EarlierApplication("connect:a", of_this_attempt=True, ended=False)


def test_whatever_goes_wrong_the_thread_goes_on(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    asked = 0

    def application() -> str:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise AttributeError("the hook is not ready")
        return "yarn:application_1_2"

    broken = attempt(store)
    real, failures = broken.beat, iter(range(3))

    def beat(name: str | None) -> None:
        if name == "yarn:application_1_2" and next(failures, None) is not None:
            raise RuntimeError("postgresql://u:p@db is broken")
        real(name)

    broken.beat = beat  # type: ignore[method-assign]
    with Heartbeat(broken, every=QUICK, application=application, stop=lambda: None):
        until(lambda: row(store).spark_application == (1, "yarn:application_1_2"))
    assert "RuntimeError" in caplog.text
    assert "p@db" not in caplog.text
