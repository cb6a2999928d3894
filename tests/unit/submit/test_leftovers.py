# SPDX-License-Identifier: Apache-2.0
"""What is ended when the next attempt of a batch is opened: real processes that look like a spark-submit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState, Recorded
from shardbatch.core.owner import Owner
from shardbatch.core.ports import Clock
from shardbatch.core.rows import BATCH, Key, Namespace
from shardbatch.errors import LeaseLost
from shardbatch.run import Consumer, beat
from shardbatch.run.attempt import open_next
from shardbatch.stores.memory import MemoryStore
from shardbatch.submit import processes
from shardbatch.submit.applications import Ending
from shardbatch.submit.leftovers import LeftOvers
from tests.support.rig import Rig

NAMESPACE = Namespace("etl", "orders")
ME = Owner("here", "dag", "run2", "orders")

Submit = Callable[[str, int, str], "subprocess.Popen[bytes]"]


@pytest.fixture
def submit() -> Iterator[Submit]:
    started: list[subprocess.Popen[bytes]] = []

    def start(batch_id: str, attempt: int, work: str) -> subprocess.Popen[bytes]:
        told = {"batch": batch_id, "attempt": attempt, "work": work}
        words = [word for name, value in told.items() for word in ("--conf", f"spark.shardbatch.{name}={value}")]
        sleep = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]
        process = subprocess.Popen([*sleep, "spark-submit", *words], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()  # until then its command line is this process's
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        cast("Any", process.stdout).close()


def row(*applications: tuple[str, str]) -> Batch:
    batch = Batch(NAMESPACE, "", "b1", str(ME), 5, BatchState.FROZEN, attempt=1)
    for name, work in applications:
        batch = batches.heartbeat(batch, 1, name, work)
    return batch


def alive(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


class Operator:
    """A task of the DAG that ends applications as its cluster lets it."""

    def __init__(self, over: bool) -> None:
        self.over = over
        self.asked: list[str] = []

    def end_recorded(self, application: str, batch_id: str, render: Callable[[str], str]) -> Ending:
        self.asked.append(application)
        return Ending(self.over, f"{application} of {batch_id}")


def left_overs(tasks: dict[str, Any] | None = None, working: tuple[str, ...] = ()) -> tuple[LeftOvers, list[str]]:
    said: list[str] = []
    return LeftOvers(tasks or {}, lambda work: work in working, said.append), said


def test_applications_of_several_tasks_stand_beside_each_other() -> None:
    batch = row(("yarn:a", "t.one"), ("yarn:b", "t.two[3]"), ("yarn:c", "t.one"))
    assert batch.spark_applications == (1, (Recorded("yarn:c", "t.one"), Recorded("yarn:b", "t.two[3]")))
    assert batch.spark_application == (1, "yarn:c")
    following = batches.heartbeat(batches.open_attempt(batch, 1), 1, "yarn:d", "t.one")
    assert following.spark_applications == (2, (Recorded("yarn:d", "t.one"),))
    many = row(*[(f"yarn:{number}", f"t[{number}]") for number in range(40)])
    assert [item.name for item in many.spark_applications[1]][:2] == ["yarn:39", "yarn:38"]
    assert len(many.spark_applications[1]) == batches.MOST_APPLICATIONS


def test_an_id_that_an_older_version_wrote_is_read() -> None:
    for text, found in (("1:yarn:a t.one", ("yarn:a", "t.one")), ("1:client:h:7", ("client:h:7", ""))):
        batch = Batch(NAMESPACE, "", "b1", "", 5, BatchState.FROZEN, attempt=1, attempt_ref=text)
        assert batch.spark_applications == (1, (Recorded(*found),))


def test_every_application_of_the_attempt_is_ended_through_its_own_task() -> None:
    one, two = Operator(True), Operator(True)
    ended, said = left_overs({"t.one": one, "t.two": two})
    assert ended(row(("yarn:a", "t.one"), ("yarn:b", "t.two[3]")))
    assert (one.asked, two.asked) == (["yarn:a"], ["yarn:b"])
    assert said == ["yarn:b of b1", "yarn:a of b1"]


def test_one_whose_end_was_not_seen_is_waited_for() -> None:
    ended, _ = left_overs({"t.one": Operator(True), "t.two": Operator(False)})
    assert not ended(row(("yarn:a", "t.one"), ("yarn:b", "t.two")))


def test_a_task_that_cannot_say_how_it_ends_its_application_is_waited_for() -> None:
    class Broken(Operator):
        def end_recorded(self, *of: Any) -> Ending:
            raise KeyError("a word of the author's template: secret")

    ended, said = left_overs({"t.one": Broken(True)})
    assert not ended(row(("yarn:a", "t.one")))
    assert "yarn:a could not be ended (KeyError); it is fenced" in said[0]


def test_a_server_that_does_not_answer_is_asked_once_for_all_of_its_sessions() -> None:
    class Silent(Operator):
        def end_recorded(self, application: str, batch_id: str, render: Callable[[str], str]) -> Ending:
            return replace(super().end_recorded(application, batch_id, render), silent="//away" in application)

    task = Silent(True)
    ended, said = left_overs({"t": task})
    names = ["connect://away:a", "connect://away:b", "connect://here:c", "connect://away:d"]
    assert not ended(row(*[(name, f"t[{number}]") for number, name in enumerate(names)]))
    assert task.asked == ["connect://away:d", "connect://here:c"]
    assert len(said) == len(names)


def test_of_more_applications_than_a_row_names_one_may_be_forgotten() -> None:
    for number, wanted in ((batches.MOST_APPLICATIONS - 1, True), (batches.MOST_APPLICATIONS + 1, False)):
        ended, _ = left_overs({"t": Operator(True)})
        assert ended(row(*[(f"yarn:{each}", f"t[{each}]") for each in range(number)])) is wanted


def test_one_of_another_host_is_waited_for() -> None:
    ended, said = left_overs()
    assert not ended(row(("client:not-this-host:1", "t.gone")))
    assert "never read" in said[0]


def test_an_application_of_a_task_at_work_in_this_run_is_left_alone(submit: Submit) -> None:
    process = submit("b1", 1, "t.one")
    operator = Operator(True)
    ended, _ = left_overs({"t.one": operator}, working=("t.one",))
    assert not ended(row(("yarn:a", "t.one")))
    assert operator.asked == []
    assert alive(process)


def test_a_spark_submit_whose_id_was_never_written_down_is_found_by_its_batch(submit: Submit) -> None:  # R90
    process = submit("b1", 1, "t.one")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ended, said = left_overs()
    written = processes.task_reference().rpartition(":")[0] + f":{gone.pid}"
    assert ended(row((written, "t.one")))
    assert not alive(process)
    assert "t.one had left behind" in said[0]


def test_other_batches_and_newer_attempts_are_left_alone(submit: Submit) -> None:
    other, newer = submit("b2", 1, "t.one"), submit("b1", 2, "t.one")
    assert not left_overs()[0](row())
    assert alive(other)
    assert alive(newer)


def test_a_task_that_lives_is_no_left_over_that_is_over() -> None:
    assert not left_overs()[0](row((processes.task_reference(), "t.one")))


def consumer_over(store: Any, folder: Path) -> Consumer:
    """The consumer of an owner that opens an attempt and must not wait for anything."""

    def never(_: float) -> None:
        raise AssertionError("nothing is waited for")

    rig = Rig(folder, store=store)
    assert rig.namespace == NAMESPACE
    return rig.consumer(clock=Clock(now_ms=lambda: 1, monotonic=lambda: 0.0, sleep=never))


def test_the_next_attempt_is_opened_at_once_when_what_the_last_one_started_has_ended(
    submit: Submit, tmp_path: Path
) -> None:
    process = submit("b1", 1, "t.one")
    store = MemoryStore()
    store.prepare()
    store.create(Batch(NAMESPACE, "", "b1", str(ME), 5, BatchState.FROZEN, attempt=1))
    consumer = consumer_over(store, tmp_path)
    beat(consumer, ME, "b1", 1, processes.reference(process.pid), "t.one")
    found = cast("Batch", store.get(Key(BATCH, NAMESPACE, ("", "b1"))))
    with pytest.raises(AssertionError, match="nothing is waited for"):
        open_next(consumer, ME, found)
    assert open_next(consumer, ME, found, left_overs()[0]).attempt == 2
    assert not psutil.pid_exists(process.pid) or not alive(process)


class Adopted(MemoryStore):
    """Another run adopts the batch and opens its attempt just before this one would."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self.prepare()
        self._work: Callable[[], Any] | None = work

    def replace(self, seen: Any, new: Any) -> bool:
        if self._work is not None and new.attempt > seen.attempt:
            work, self._work = self._work, None
            adopted = batches.adopt(seen, "another/owner")
            assert super().replace(seen, adopted)
            assert super().replace(adopted, batches.open_attempt(adopted, 1))
            work()
        return super().replace(seen, new)


def test_who_lost_the_batch_ends_nothing_of_the_run_that_has_it(submit: Submit, tmp_path: Path) -> None:
    rightful: list[subprocess.Popen[bytes]] = []
    store = Adopted(lambda: rightful.append(submit("b1", 2, "t.one")))
    mine = Batch(NAMESPACE, "", "b1", str(ME), 5, BatchState.FROZEN, attempt=1)
    store.create(mine)
    with pytest.raises(LeaseLost, match="another/owner"):
        open_next(consumer_over(store, tmp_path), ME, mine, left_overs()[0])
    assert alive(rightful[0])


def test_a_spark_submit_that_may_not_be_ended_from_here_is_waited_for(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = submit("b1", 1, "t.one")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    def denied(other: psutil.Process) -> None:  # it runs as another user
        raise psutil.AccessDenied(other.pid)

    monkeypatch.setattr(psutil.Process, "terminate", denied)
    monkeypatch.setattr(psutil.Process, "kill", denied)
    monkeypatch.setattr(processes, "PATIENCE_S", 0.1)
    written = processes.task_reference().rpartition(":")[0] + f":{gone.pid}"
    ended, said = left_overs()
    assert not ended(row((written, "t.one")))
    assert not left_overs()[0](row((processes.reference(process.pid), "t.one")))
    assert alive(process)
    assert "Could not end" in said[0]
