# SPDX-License-Identifier: Apache-2.0
"""Import: the leases of a Kinesis Client Library (KCL) application become those of one of ours (PROTOCOL D8, L1).

The application's row comes first and says that it is being imported, so that nothing is claimed before every lease is
there and KCL was seen to stand still to the last. One that died half-way is finished by another.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from shardbatch.control.action import TRIES, Action, Done
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Say, Source
from shardbatch.core.position import TRIM_HORIZON, Position
from shardbatch.errors import ConfigurationError, LeaseLost, WorkersAlive
from shardbatch.kcl.lease import KclLease, KclLeases, Taken, of_stream, plan_import
from shardbatch.run.consumer import first_count
from shardbatch.run.enrol import check

log = logging.getLogger("shardbatch")

#: More than two of KCL's own failover times (10 s): a worker renews its leases three times in each.
WATCHED = timedelta(seconds=30)
#: Looks at the KCL leases within the time for which they are watched.
LOOKS = 6


def import_kcl(
    action: Action,
    *,
    source: Source,
    kcl: KclLeases,
    start: Position | None = None,
    watched: timedelta = WATCHED,
    say: Say = log.info,
) -> tuple[Done, ...]:
    """Make an application that goes on where a KCL application stands; its table is left as it is.

    All or nothing: if one of KCL's leases names no place, none is imported. KCL may be at work during a preview.

    :param start: where shards begin of which KCL says ``LATEST`` or ``AT_TIMESTAMP`` and no instant: ``TRIM_HORIZON``
        or an instant. Default: none, then such a lease is left, and with it all.
    :param watched: how long KCL's leases must stand still by this machine's monotonic clock, default 30 seconds; less
        than twice the failover time of its workers may overlook one that is alive.
    :raises WorkersAlive: if a lease of KCL's moved.
    :raises ConfigurationError: if the application has leases of its own, the table is not KCL's or is of another
        stream, the start is a record, the time is not above zero, or the reason is empty.
    """
    store, dry_run = action.store, action.dry_run
    action.require_reason()
    _require_choice(start, watched)
    identity = source.identity()
    seen = of_stream(kcl.leases(), identity)
    plan = plan_import(seen, source.list_shards(), start)
    if not dry_run:
        store.prepare()
    application = None if dry_run and store.pending() else action.application()
    if application is not None:
        check(application, identity)
        if application.importing is None:
            return _same(action, plan)
    told = _preview(action, plan, identity)
    if dry_run:
        return told
    if any(item.result == "left" for item in told):
        return tuple(item for item in told if item.result == "left")
    complete_from_ms = _complete_from(action, source, plan)
    _watch(action, kcl, seen, identity, watched, say)
    return _write(action, plan, kcl, seen, identity, complete_from_ms)


def _require_choice(start: Position | None, watched: timedelta) -> None:
    if start is not None and start.exact:
        raise ConfigurationError(
            f"Shards of which KCL names no place cannot all begin at {start}.",
            remedy="Give TRIM_HORIZON or an instant with its time zone.",
        )
    if watched <= timedelta(0):
        raise ConfigurationError(
            "KCL's leases would not be watched at all.", remedy="Give more than twice its failover time, in seconds."
        )


def _preview(action: Action, plan: Sequence[Taken], identity: str) -> tuple[Done, ...]:
    effect = f"reads {identity}; {len(plan)} shards, {sum(t.completed for t in plan)} of them completed"
    told = [Done("application", str(action.namespace), "", "would import", effect=effect)]
    for taken in plan:
        told.append(_told(taken, "left", taken.refused) if taken.refused else _told(taken, "would import"))
    return tuple(told)


def _told(taken: Taken, result: str, why: str = "") -> Done:
    return Done("lease", taken.shard.shard_id, taken.owner, result, why, "" if why else taken.meaning)


def _same(action: Action, plan: Sequence[Taken]) -> tuple[Done, ...]:
    """What was imported already and stands as it was.

    :raises ConfigurationError: if a shard of the import stands elsewhere, or has no lease.
    """
    rows = {row.shard_id: row for row in action.leases()}
    if any(not _stands(rows.get(taken.shard.shard_id), taken) for taken in plan):
        raise ConfigurationError(
            f"The application {action.namespace} is there already and does not stand where KCL does.",
            remedy="Import into another app_name; 'airflow shardbatch shards' shows what this one has.",
        )
    return tuple(_told(taken, "already") for taken in plan)


def _stands(row: Lease | None, taken: Taken) -> bool:
    if taken.refused:
        return row is not None  # an earlier call was told where it begins
    return row is not None and (row.checkpoint, row.completed) == (taken.position, taken.completed)


def _complete_from(action: Action, source: Source, plan: Sequence[Taken]) -> int:
    """The instant from which on our batches have all records (PROTOCOL C8): what KCL has read is in none of them, and
    it has read nothing since its leases were looked at; nor is what arrived before an instant that was given."""
    there = source.clock_ms()
    now_ms = action.now_ms() + CLOCKS_APART_MS if there is None else there + MARGIN_MS
    return max([now_ms, *(ms for ms in (taken.position.timestamp_ms for taken in plan) if ms is not None)])


def _watch(
    action: Action, kcl: KclLeases, seen: Sequence[KclLease], identity: str, watched: timedelta, say: Say
) -> None:
    """See that KCL's leases stand still.

    :raises WorkersAlive: if one does not.
    """
    seconds = watched.total_seconds()
    say(f"Watching {len(seen)} leases of KCL for {seconds:.0f} s to see whether its workers are alive.")
    began = action.clock.monotonic()
    for look in range(1, LOOKS + 1):
        action.clock.sleep(max(0.0, began + seconds * look / LOOKS - action.clock.monotonic()))
        _require_still(kcl, seen, identity)


def _require_still(kcl: KclLeases, seen: Sequence[KclLease], identity: str) -> None:
    before = {lease.key: lease for lease in seen}
    now = {lease.key: lease for lease in of_stream(kcl.leases(), identity)}
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        found = new or old
        assert found is not None
        what = "was written by" if old and new else "was made by" if new else "was removed, last held by"
        raise WorkersAlive("KCL's lease {} {} {} while it was looked at.".format(key, what, found.owner or "no owner"))


def _write(
    action: Action,
    plan: Sequence[Taken],
    kcl: KclLeases,
    seen: Sequence[KclLease],
    identity: str,
    complete_from_ms: int,
) -> tuple[Done, ...]:
    text = f"{len(seen)} leases of the KCL table {kcl.name}"
    note = action.note(text)
    row = _begin(action, identity, replace(action, verb=replace(action.verb, past="began to import")).note(text))
    rows = {lease.shard_id: lease for lease in action.leases()}
    told = [_bring(action, taken, rows.get(taken.shard.shard_id), note) for taken in plan]
    if any(item.result == "left" for item in told):
        return tuple(told)
    _require_still(kcl, seen, identity)  # a worker may have come to life meanwhile
    while row.importing is not None and not action.store.replace(row, row.imported(note, complete_from_ms)):
        row = action.expect_application()
    return (Done("application", str(action.namespace), "", "imported", effect=f"reads {identity}"), *told)


def _begin(action: Action, identity: str, note: str) -> Application:
    """The application's row, from now on being imported.

    :raises LeaseLost: if a run made it just now.
    """
    fresh = Application(action.namespace, identity, TRIM_HORIZON, first_count(), last_action=note, importing=note)
    if action.store.create(fresh):
        return fresh
    row = action.expect_application()
    if row.importing is None:
        raise LeaseLost(f"The application {action.namespace} was made by another just now.")
    return row


def _bring(action: Action, taken: Taken, row: Lease | None, note: str) -> Done:
    """Make one lease; one that an earlier import left, before KCL moved on, is made anew."""
    fresh = leases.add_imported(
        action.namespace, taken.shard, taken.position, first_count(), action.now_ms(), note, unseen=taken.unseen
    )
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
