# SPDX-License-Identifier: Apache-2.0
"""What people do meanwhile: every verb, as a process that others come between, and that may die half-way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shardbatch.control.accept_gap import accept_gap
from shardbatch.control.drop import drop
from shardbatch.control.park import park, unpark
from shardbatch.control.release import release
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import KEPT, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.position import TRIM_HORIZON, Kind, Position, at_timestamp
from shardbatch.core.rows import SHARD_LEASE, Key
from tests.breaker.faults import SteppedLanding, SteppedStore, asked
from tests.breaker.losses import replaced
from tests.breaker.process import Process
from tests.breaker.world import World
from tests.support.verbs import act

#: A person is nobody's run: the owner of a verb's writes.
PERSON = Owner("here", "person", "verb", "")
#: The verbs that take a batch by name.
OF_BATCHES = {"park": park, "unpark": unpark, "set_aside": set_aside, "drop": drop, "release": release}
#: Those of them that look whether its owner is at work, unless they are forced.
ASKING = ("set_aside", "drop")
VERBS = (*OF_BATCHES, "release_owner", "accept_gap", "reset", "reset_all", "pass_over", "restart")


def choices(world: World, verb: str) -> list[str]:
    """What a verb may be given: batches, owners or shards of the live application, to some an interval's batch."""
    live = [row for key, row in world.rows.items() if key.values and not key.values[0]]
    if verb == "restart":
        return _replaced(world)
    if verb in ASKING:
        return [row.batch_id for row in world.rows.values() if isinstance(row, Batch)]
    if verb in OF_BATCHES:
        return [row.batch_id for row in live if isinstance(row, Batch)]
    if verb == "release_owner":
        return sorted({row.lease_owner for row in live if isinstance(row, Lease) and row.lease_owner})
    leases = [row for row in live if isinstance(row, Lease)]
    if verb == "pass_over":
        leases = [row for row in leases if not row.completed and row.checkpoint < _last(world, row.shard_id)]
    return [row.shard_id for row in leases]


def apt(world: World, owner: str | None = None) -> dict[str, list[str]]:
    """The verbs that change something as rows stand, each with what it may be given: one owner's rows, or all."""
    found: dict[str, list[str]] = {"restart": _replaced(world)} if _replaced(world) else {}
    for row in world.rows.values():
        if isinstance(row, Batch) and owner in (None, row.owner):
            for verb in _fit_batch(row):
                found.setdefault(verb, []).append(row.batch_id)
        elif isinstance(row, Lease) and not row.scope and owner in (None, row.lease_owner):
            for verb in ("reset", "reset_all", *(("accept_gap",) if row.landed and row.waits_for_gap else ())):
                found.setdefault(verb, []).append(row.shard_id)
            if row.lease_owner and row.batch_id is None and ResetHolder.parse(row.lease_owner) is None:
                found.setdefault("release_owner", []).append(row.lease_owner)
    return found


def _replaced(world: World) -> list[str]:
    found = replaced(world)
    return [found] if found else []


def _fit_batch(row: Batch) -> tuple[str, ...]:
    """The verbs that fit a batch; people do not park those of intervals here."""
    if row.state is BatchState.COMMITTED:
        seen = bool(row.scope) and row.set_aside is None and bool(row.starts or row.roots)
        return ("drop",) if seen or row.set_aside == KEPT else ()
    if row.state is BatchState.VOID:
        return ()
    if row.scope:
        return ASKING
    return (*ASKING, "unpark") if row.state is BatchState.PARKED else (*ASKING, "park", "release")


def place(world: World, shard_id: str, kind: int) -> Position:
    """Where a reset goes: the oldest record, an instant of an hour ago, or a record of the shard; on a search its
    checkpoint."""
    row = world.rows.get(Key(SHARD_LEASE, world.namespace, ("", shard_id)))
    if kind == 2 and isinstance(row, Lease) and row.checkpoint.searching:
        return row.checkpoint
    places = [sent.place for sent in world.stream.sent.values() if sent.shard_id == shard_id]
    if kind == 1:
        return at_timestamp(world.time.ms - 3_600_000)
    return places[len(places) // 2] if kind == 2 and places else TRIM_HORIZON


def _last(world: World, shard_id: str) -> Position:
    """The last record that a shard was sent."""
    return max((sent.place for sent in world.stream.sent.values() if sent.shard_id == shard_id), default=TRIM_HORIZON)


def start(world: World, verb: str, name: str, *, force: bool = False, kind: int = 0) -> Process:
    """A person begins a verb on one of its ``choices``."""

    def body(process: Process) -> Any:
        told: dict[str, Any] = {"actor": "somebody", "reason": "tried", "dry_run": False}
        asking = {**told, "liveness": partial(asked, world, process, "here"), "force": force}
        acts: Callable[..., Any] = partial(act, _verb(verb), SteppedStore(world, process), world.namespace)
        landing = SteppedLanding(world, process)
        if verb == "drop":
            return acts(name, landing=landing, **asking)
        if verb in OF_BATCHES:
            return (
                acts(name, **(asking if verb in ASKING else told)) if verb != "release" else acts(batch_id=name, **told)
            )
        if verb == "release_owner":
            return acts(owner=name, **told)
        if verb == "accept_gap":
            return acts(shards=[name], **told)
        if verb == "restart":
            clock = process.clock(world.time, 0)
            return acts(every=True, stream_id=name, landing=landing, clock=clock, **asking)
        to = _last(world, name) if verb == "pass_over" else place(world, name, kind)
        which: dict[str, Any] = {"shards": [name]}
        if verb == "reset_all":
            which, to = {"every": True}, to if to.kind is not Kind.AFTER_SEQUENCE_NUMBER else TRIM_HORIZON
        return acts(to=to, landing=landing, clock=process.clock(world.time, 0), **which, **asking)

    process = Process(f"{verb}.{len(world.processes)}", "", verb, body, PERSON)
    process.abandoned = True
    rows = [row for row in world.rows.values() if isinstance(row, Batch) and row.batch_id == name]
    process.scope = rows[0].scope if verb in ASKING and rows else ""
    world.processes.append(process)
    world.say(f"{process}: begins on {name} {'by force' if force else ''}")
    return process


def _verb(verb: str) -> Callable[..., Any]:
    others = {
        "release_owner": release,
        "accept_gap": accept_gap,
        "reset": reset,
        "reset_all": reset,
        "pass_over": reset,
        "restart": reset,
    }
    return OF_BATCHES.get(verb) or others[verb]
