# SPDX-License-Identifier: Apache-2.0
"""Spark applications: each is one start on a batch, and may outlive the task that submitted it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardbatch.consumer import Consumer, Frozen, Turn, beat, begin, end
from shardbatch.core.batch import Batch, Start
from shardbatch.core.owner import Owner
from shardbatch.errors import ShardbatchError, StoreError, WorkFailed
from tests.breaker.process import Process

if TYPE_CHECKING:
    from tests.breaker.memory_landing import MemoryLanding
    from tests.breaker.world import World

#: Rows that one step writes.
ROWS = 1
OUT = "out"
WORK = "work"
#: Begins the name under which a task is recorded that has not submitted yet.
TASK = "task:"


@dataclass
class Application:
    """``state`` is ``running``, ``finished``, ``failed`` or ``ended`` (by somebody). Until it is ``recorded``, nobody
    else can know of it."""

    name: str
    batch_id: str
    attempt: int
    rows: list[str]
    state: str = "running"
    recorded: bool = False
    written: list[str] = field(default_factory=list)

    def step(self, landing: MemoryLanding) -> None:
        """Write some rows into the folder of its own; when all are there, its done marker."""
        if self.state != "running":
            return
        landing.outputs.setdefault((self.batch_id, self.name), self.written)
        if self.rows:
            self.written.extend(self.rows[:ROWS])
            del self.rows[:ROWS]
        else:
            landing.starts.setdefault(self.batch_id, []).append(Start(self.name, self.attempt, WORK, (OUT,)))
            self.state = "finished"


def work(world: World, process: Process, consumer: Consumer, owner: Owner, frozen: Frozen) -> None:
    """The work task, as the Spark operator does it: its turn, older applications, a heartbeat, one application."""
    assert frozen.batch_id is not None
    batch_id, attempt = frozen.batch_id, frozen.attempt
    if begin(consumer, owner, batch_id, attempt) is Turn.ALREADY_COMMITTED:
        return
    world.tries.setdefault((batch_id, attempt), set()).add(process.name)
    batch = consumer.batch(batch_id)
    recorded, found = (0, ()) if batch is None else batch.applications
    if found and recorded <= attempt and process.pause("cancel").word != "unreachable":
        for item in found:
            world.end_application(item.name)
    beat(consumer, owner, batch_id, attempt, TASK + process.name, WORK)
    process.pause("submit")
    application = world.submit(process.name, batch_id, attempt)
    try:
        _wait(world, process, consumer, owner, application)
    except ShardbatchError:
        application.state = "ended"
        raise
    finally:
        if application.state != "running":
            _close(consumer, batch_id, attempt)
    if application.state != "finished":
        raise WorkFailed(f"The application {application.name} is {application.state}.")


def _wait(world: World, process: Process, consumer: Consumer, owner: Owner, application: Application) -> None:
    """Look after the application until it has ended; a heartbeat that a store refuses is tried again."""
    looks = 0
    while application.state == "running":
        if looks % 3 == 0:
            try:
                beat(consumer, owner, application.batch_id, application.attempt, application.name, WORK)
                application.recorded = True
            except StoreError:
                world.say(f"{process}: a heartbeat was not written")
        looks += 1
        if process.pause("work").word == "broken":
            application.state = "failed"
        application.step(world.landing)


def _close(consumer: Consumer, batch_id: str, attempt: int) -> None:
    try:
        end(consumer, batch_id, attempt)
    except ShardbatchError:
        return  # the next attempt waits for its grace


def left_over(world: World, process: Process, batch: Batch) -> bool:
    """What freeze does about the latest attempt: end what is recorded of it; whether all of it is known to be over."""
    if not world.reachable or process.pause("cancel").word == "unreachable":
        return False
    attempt, recorded = batch.applications
    over = [_ended(world, item.name) for item in recorded]
    if attempt != batch.attempt or not over or not all(over):
        return False
    process.ended = batch.batch_id, batch.row_count
    return True


def _ended(world: World, name: str) -> bool:
    world.end_application(name)
    tasks = [p for p in world.processes if p.name == name.removeprefix(TASK)]
    return not name.startswith(TASK) or all(p.finished for p in tasks)  # one that lives on may yet submit
