# SPDX-License-Identifier: Apache-2.0
"""What a decision has to take, told from what the applications did, and not from the marks that they left.

Of each work of the block that is a success: all starts of the application under whose last successful try it ended,
that try being of the last attempt in which the work left anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.core.batch import Batch
from shardbatch.core.rows import BATCH, Key
from shardbatch.core.start import Start
from tests.breaker.plans import runs

if TYPE_CHECKING:
    from tests.breaker.process import Process
    from tests.breaker.world import World

#: The starts that a decision has to take; ``None``: it must not be made.
Wanted = frozenset[Start] | None


def look(world: World, process: Process) -> None:
    """A commit looks at what its works left: what it has to decide from it, if the batch is still as it is now."""
    assert process.bound is not None
    scope_and_batch = (process.scope, process.bound[0])
    row = world.rows.get(Key(BATCH, world.namespace, scope_and_batch))
    process.last_wanted = wanted(world, process)
    if isinstance(row, Batch):
        process.wanted[row.row_count] = process.last_wanted


def wanted(world: World, process: Process) -> Wanted:
    """What a commit has to decide now."""
    assert process.bound is not None
    batch_id, attempt = process.bound
    own_sink = world.sink == "own"
    found: set[Start] = set()
    for work, (state, ended) in process.states.items():
        if state != "success":
            continue
        highest = last_attempt(world, batch_id, work)
        known = ended[1] if ended and ended[0] == batch_id else highest
        if highest > attempt or known < highest:
            return None
        try_ = last_try(world, batch_id, work, highest)
        if try_ is None:
            if not own_sink and (highest or (world.plans.given(work) and runs(work))):
                return None
        elif try_.application is not None:
            if not try_.application.whole:
                return None
            found.update(try_.application.last.done)
    return frozenset(found) if found or own_sink else None


def last_attempt(world: World, batch_id: str, work: str) -> int:
    """The last attempt of a batch in which a work began a start, or a task of it left a record; 0 if none."""
    begun = [begun.attempt for begun in world.landing.begun.get(batch_id, ()) if begun.work == work]
    ended = [record.attempt for record in world.landing.ends.get(batch_id, {}).values() if record.work == work]
    return max([*begun, *ended], default=0)


def last_try(world: World, batch_id: str, work: str, attempt: int) -> Process | None:
    """The last try of a work that left a record in an attempt."""
    records = world.landing.ends.get(batch_id, {}).items()
    fitting = [
        (record.try_number, name) for name, record in records if (record.work, record.attempt) == (work, attempt)
    ]
    if not fitting:
        return None
    name = max(fitting)[1]
    return next(process for process in world.processes if process.name == name)


def ended_well(world: World, process: Process) -> bool:
    """Whether all that a commit goes by ended well in the last attempt that it knows, so that it has no reason to
    refuse."""
    assert process.bound is not None
    batch_id, attempt = process.bound
    for work, (state, ended) in process.states.items():
        if state == "success" and not (
            ended and ended[0] == batch_id and ended[1] == last_attempt(world, batch_id, work) <= attempt
        ):
            return False
    return bool(process.last_wanted)
