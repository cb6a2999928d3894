# SPDX-License-Identifier: Apache-2.0
"""Work tasks of the block, as the operators do them, from their turn to the record that they leave at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.core.batch import Batch
from shardbatch.core.owner import Owner
from shardbatch.errors import ShardbatchError, StoreError, WorkFailed
from shardbatch.run import Consumer, Frozen, Turn, beat, begin, end
from shardbatch.run.end_record import Ended, leave_end_record
from tests.breaker.applications import Application
from tests.breaker.plans import Kind
from tests.breaker.process import Process

if TYPE_CHECKING:
    from tests.breaker.world import World

#: Begins the name under which a task is recorded that has not submitted yet.
TASK = "task:"


def work(world: World, process: Process, consumer: Consumer, owner: Owner, frozen: Frozen, try_number: int) -> int:
    """One try of a work; the attempt that it ended, 0 if there was nothing to do."""
    assert frozen.batch_id is not None
    assert process.work is not None
    kind = world.plans.kind(process.work)
    process.token = "" if kind is Kind.BARE else f"{process.number:06d}"
    if kind is not Kind.PLAIN and not _run(world, process, consumer, owner, frozen, kind):
        return 0
    process.pause("end")
    ended = Ended(
        batch_id=frozen.batch_id,
        attempt=frozen.attempt,
        work=process.work,
        try_number=try_number,
        token=process.token,
        unique=process.name,
        sure=kind is Kind.OWN,
    )
    record = leave_end_record(consumer.landing, consumer.namespace, ended)
    world.say(f"{process}: ENDED try {try_number}, starts {[start.start_id for start in record.starts]}")
    return frozen.attempt


def _run(world: World, process: Process, consumer: Consumer, owner: Owner, frozen: Frozen, kind: Kind) -> bool:
    """Its turn, older applications, a heartbeat, one application; whether there was anything to do."""
    assert frozen.batch_id is not None
    assert process.work is not None
    batch_id, attempt, mine = frozen.batch_id, frozen.attempt, process.work
    if begin(consumer, owner, batch_id, attempt) is Turn.ALREADY_COMMITTED:
        return False
    world.tries.setdefault((batch_id, attempt), set()).add(process.name)
    application = _earlier(world, process, batch_id, attempt, kind)
    if application is None:
        batch = consumer.batch(batch_id)
        recorded, found = (0, ()) if batch is None else batch.spark_applications
        found = tuple(item for item in found if item.work == mine)
        if found and recorded <= attempt and process.pause("cancel").word != "unreachable":
            for item in found:
                world.cluster.end(item.name)
        beat(consumer, owner, batch_id, attempt, TASK + process.name, mine)
        process.pause("submit")
        application = world.cluster.submit(process, batch_id, attempt)
    process.application = application
    try:
        _wait(world, process, consumer, owner, application)
    except ShardbatchError:
        application.over("ended")
        raise
    finally:
        if application.state != "running":
            _close(consumer, batch_id, attempt)
    if application.state != "finished":
        raise WorkFailed(f"The application {application.name} is {application.state}.")
    return True


def _earlier(world: World, process: Process, batch_id: str, attempt: int, kind: Kind) -> Application | None:
    """The application of an earlier try that this one goes on with. One that hands no token down needs that no other
    of its attempt lives on, and is given that."""
    older = world.cluster.of(batch_id, attempt, process.work)
    if kind is Kind.ARGS:
        older.sort(key=lambda application: application.token)  # its operator knows that of the last try
    joined = older[-1] if older and older[-1].state in ("running", "finished") and world.plans.joins() else None
    if joined is not None:
        process.token = joined.token if kind is Kind.OWN else process.token
        world.say(f"{process}: goes on with {joined.name}")
    elif kind is Kind.BARE:
        world.cluster.shut(older)
    return joined


def _wait(world: World, process: Process, consumer: Consumer, owner: Owner, application: Application) -> None:
    """Look after the application until it has ended; a heartbeat that a store refuses is tried again."""
    looks = 0
    while application.state == "running":
        if looks % 4 == 0:
            try:
                beat(consumer, owner, application.batch_id, application.attempt, application.name, application.work)
                application.recorded = True
            except StoreError:
                world.say(f"{process}: a heartbeat was not written")
        looks += 1
        fate = process.pause("work").word
        if fate == "broken":
            application.over("failed")
        elif fate == "swallowed":
            application.swallow()
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
    attempt, recorded = batch.spark_applications
    over = [_ended(world, item.name) for item in recorded]
    if attempt != batch.attempt or not over or not all(over):
        return False
    process.ended = batch.batch_id, batch.row_count
    return True


def _ended(world: World, name: str) -> bool:
    world.cluster.end(name)
    tasks = [p for p in world.processes if p.name == name.removeprefix(TASK)]
    return not name.startswith(TASK) or all(p.finished for p in tasks)  # one that lives on may yet submit
