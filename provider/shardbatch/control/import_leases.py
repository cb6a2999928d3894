# SPDX-License-Identifier: Apache-2.0
"""Leases of a new application, made of positions that another library kept (PROTOCOL D8, L1).

The application's row comes first and says that it is being imported, so that nothing is claimed before every lease is
there. An import that died half-way is finished by another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from shardbatch.control.action import TRIES, Action, Done
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.carried import NOTHING_CARRIED, Carried
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.taken import Taken
from shardbatch.errors import ConfigurationError, LeaseLost
from shardbatch.run.consumer import first_count, require_there
from shardbatch.run.enrol import check


def _nothing() -> None:
    """There is nothing to look at, or no time is told."""


@dataclass(frozen=True)
class Import:
    """What is taken over.

    :param identity: the stream's.
    :param plan: what becomes of each shard, children before their parents.
    :param text: what it was made of, for the notes.
    :param where: who stands at the positions, for words.
    :param before: looks at what is taken over, before anything is written; raises if that must not be.
    :param last: looks once more, before the application can be claimed.
    :param clock_ms: the stream's own time, ``None`` if it tells none.
    :param carried: what is known of the application beside its shards.
    """

    identity: str
    plan: Sequence[Taken]
    text: str
    where: str
    before: Callable[[], None] = _nothing
    last: Callable[[], None] = _nothing
    clock_ms: Callable[[], int | None] = _nothing
    carried: Carried = NOTHING_CARRIED


def import_leases(action: Action, brought: Import) -> tuple[Done, ...]:
    """Make the application, or say what would be made. All or nothing: if one shard is refused, none is imported.

    :raises StreamRecreated: if the application's rows belong to another stream.
    :raises ConfigurationError: if the application has leases of its own.
    :raises LeaseLost: if a run makes the application at this moment.
    :raises ApplicationRemoved: if an application of this name was removed.
    """
    store, dry_run = action.store, action.dry_run
    if not dry_run:
        store.prepare()
    application = None if dry_run and store.pending() else action.application()
    if application is not None:
        require_there(application)
        check(application, brought.identity)
        if application.importing is None:
            return _same(action, brought)
    told = _preview(action, brought)
    if dry_run:
        return told
    if any(item.result == "left" for item in told):
        return tuple(item for item in told if item.result == "left")
    complete_from_ms = _complete_from(action, brought)
    brought.before()
    return _write(action, brought, complete_from_ms)


def _preview(action: Action, brought: Import) -> tuple[Done, ...]:
    plan = brought.plan
    effect = f"reads {brought.identity}; {len(plan)} shards, {sum(t.completed for t in plan)} of them completed"
    told = [Done("application", str(action.namespace), "", "would import", effect=effect)]
    for taken in plan:
        told.append(_told(taken, "left", taken.refused) if taken.refused else _told(taken, "would import"))
    return tuple(told)


def _told(taken: Taken, result: str, why: str = "") -> Done:
    return Done("lease", taken.shard.shard_id, taken.owner, result, why, "" if why else taken.meaning)


def _same(action: Action, brought: Import) -> tuple[Done, ...]:
    """What was imported already and stands as it was.

    :raises ConfigurationError: if a shard of the import stands elsewhere, or has no lease.
    """
    rows = {row.shard_id: row for row in action.leases()}
    strange = bool(rows) and not brought.plan  # positions from before its first shard
    if strange or any(not _stands(rows.get(taken.shard.shard_id), taken) for taken in brought.plan):
        raise ConfigurationError(
            f"The application {action.namespace} is there already and does not stand where {brought.where} does.",
            remedy="Import into another app_name; 'airflow shardbatch shards' shows what this one has.",
        )
    return tuple(_told(taken, "already") for taken in brought.plan)


def _stands(row: Lease | None, taken: Taken) -> bool:
    if taken.refused or taken.chosen:
        return row is not None  # an earlier call has chosen where it begins
    return row is not None and (row.checkpoint, row.completed) == (taken.position, taken.completed)


def _complete_from(action: Action, brought: Import) -> int:
    """The instant from which on our batches have all records (PROTOCOL C8). What was read up to the positions is in
    none of them, and nothing was read since they were taken; nor is what arrived before an instant that was given."""
    there = brought.clock_ms()
    now_ms = action.now_ms() + CLOCKS_APART_MS if there is None else there + MARGIN_MS
    given = (taken.position.timestamp_ms for taken in brought.plan)
    return max([now_ms, *(ms for ms in given if ms is not None)])


def _write(action: Action, brought: Import, complete_from_ms: int) -> tuple[Done, ...]:
    note = action.note(brought.text)
    begun = replace(action, verb=replace(action.verb, past="began to import")).note(brought.text)
    row = _begin(action, brought, begun)
    rows = {lease.shard_id: lease for lease in action.leases()}
    plan = {taken.shard.shard_id: taken for taken in brought.plan}
    moved = brought.carried.namespace == action.namespace
    fresh = {name: _fresh(action, taken, note, moved=moved) for name, taken in plan.items()}
    absent = [lease for shard_id, lease in fresh.items() if shard_id not in rows]
    written = zip(absent, action.store.create_many(absent), strict=True)
    rows.update((lease.shard_id, lease) for lease, done in written if done)
    told = [_bring(action, taken, rows.get(name), fresh[name]) for name, taken in plan.items()]
    if any(item.result == "left" for item in told):
        return tuple(told)
    if moved:
        _bring_intervals(action, brought.carried.intervals)
    brought.last()
    while row.importing is not None and not action.store.replace(row, _ended(row, brought, note, complete_from_ms)):
        row = require_there(action.expect_application())
    return (Done("application", str(action.namespace), "", "imported", effect=f"reads {brought.identity}"), *told)


def _ended(row: Application, brought: Import, note: str, complete_from_ms: int) -> Application:
    """The row once all is there, also where an import of other positions began it."""
    return brought.carried.on(row).imported(note, complete_from_ms)


def _begin(action: Action, brought: Import, note: str) -> Application:
    """The application's row, from now on being imported.

    :raises LeaseLost: if a run made it just now.
    """
    fresh = Application(
        action.namespace, brought.identity, TRIM_HORIZON, first_count(), last_action=note, importing=note
    )
    fresh = brought.carried.on(fresh)
    if action.store.create(fresh):
        return fresh
    row = require_there(action.expect_application())
    if row.importing is None:
        raise LeaseLost(f"The application {action.namespace} was made by another just now.")
    return row


def _fresh(action: Action, taken: Taken, note: str, *, moved: bool) -> Lease:
    count, now_ms, unseen = first_count(), action.now_ms(), taken.unseen
    row = leases.add_imported(action.namespace, taken.shard, taken.position, count, now_ms, note, unseen=unseen)
    return row if taken.noted is None else taken.noted.on(row, moved=moved)


def _bring_intervals(action: Action, intervals: Sequence[IntervalOutput]) -> None:
    """The numbers of intervals go on where they were: with a lower one a later run would stay hidden (PROTOCOL H3)."""
    for known in intervals:
        while True:
            row = cast("IntervalOutput | None", action.store.get(known.key))
            if row is None:
                if action.store.create(replace(known, row_count=first_count())):
                    break
                continue
            roots = tuple(dict.fromkeys([*known.roots, *row.roots]))
            if action.store.replace(row, row.widened(max(row.number, known.number), roots)):
                break


def _bring(action: Action, taken: Taken, row: Lease | None, fresh: Lease) -> Done:
    """Make one lease; one that an earlier import left, and that stands elsewhere by now, is made anew."""
    for _ in range(TRIES):
        if _stands(row, taken):
            return _told(taken, "imported" if row is fresh else "already")
        if row is not None and (row.lease_owner or row.landed or row.batch_id):
            return _told(taken, "left", "a run has it already")
        if row is None or action.store.delete(row):
            row = fresh if action.store.create(fresh) else action.lease(taken.shard.shard_id)
        else:
            row = action.lease(taken.shard.shard_id)
    return _told(taken, "left", "another import writes it all the time")
