# SPDX-License-Identifier: Apache-2.0
"""Release: a person frees leases, or a frozen batch, whose owner will not come back (PROTOCOL L7, E)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key, Namespace
from shardbatch.errors import ConfigurationError

#: Tries against an owner that writes at the same time.
TRIES = 20


@dataclass(frozen=True)
class Released:
    """One lease or batch of a release.

    ``kind`` is ``lease`` or ``batch``; ``result`` is ``would release``, ``released``, or ``left``, with ``why``.
    """

    kind: str
    name: str
    owner: str
    result: str
    why: str = ""


def release(
    store: LeaseStore,
    namespace: Namespace,
    *,
    actor: str,
    reason: str,
    owner: str | None = None,
    shards: Sequence[str] = (),
    batch_id: str | None = None,
    scope: str = "",
    dry_run: bool = True,
) -> tuple[Released, ...]:
    """Free the unstamped leases of an owner or of some shards, and make a frozen or parked batch free to be adopted.

    Nothing is lost by it: landed slices stay for the next owner, and an owner that was alive after all gets a
    ``LeaseLost``. ``owner`` takes all that it holds, its frozen batches too; ``shards`` narrows to these; ``batch_id``
    takes one batch. Who, when and why are written on the application row first.

    :param dry_run: only say what would be done (default).
    :raises ConfigurationError: if nothing was chosen, the reason is empty, or application, shard or batch is not there.
    """
    if not (owner or shards or batch_id):
        raise ConfigurationError("Nothing was chosen to release.", remedy="Name an owner, shards or a batch.")
    if not reason.strip() and not dry_run:
        raise ConfigurationError("A release needs a reason.", remedy="Say why; it is kept on the application row.")
    _application(store, namespace)
    rows = _leases(store, namespace, scope, owner, shards) if owner or shards else []
    frozen = _batches(store, namespace, scope, None if shards else owner, batch_id)
    if not dry_run and (rows or frozen):
        _record(store, namespace, _note(actor, reason, owner, shards, batch_id))
    if not shards:  # the leases of a batch that goes as well follow it, stamped as they are
        going = {batch.batch_id for batch in frozen}
        rows = [lease for lease in rows if lease.batch_id not in going]
    freed = [_free_batch(store, batch, reason, dry_run) for batch in frozen]
    return tuple(freed + [_free_lease(store, lease, dry_run) for lease in rows])


def _application(store: LeaseStore, namespace: Namespace) -> Application:
    row = cast(Application | None, store.get(Key(APPLICATION, namespace, ())))
    if row is None:
        raise ConfigurationError(
            "There is no application {} in this lease store.".format(namespace),
            remedy="Check app_name, stream_name and the store; its first claim makes it.",
        )
    return row


def _leases(
    store: LeaseStore, namespace: Namespace, scope: str, owner: str | None, shards: Sequence[str]
) -> list[Lease]:
    if not shards:
        return list(cast("Iterator[Lease]", store.list(SHARD_LEASE, namespace, scope, lease_owner=owner or "")))
    found = []
    for shard_id in shards:
        row = cast(Lease | None, store.get(Key(SHARD_LEASE, namespace, (scope, shard_id))))
        if row is None:
            raise ConfigurationError(
                "Shard {!r} has no lease in {}.".format(shard_id, namespace),
                remedy="'airflow shardbatch shards' lists them.",
            )
        found.append(row)
    return [row for row in found if owner is None or row.lease_owner == owner]


def _batches(
    store: LeaseStore, namespace: Namespace, scope: str, owner: str | None, batch_id: str | None
) -> list[Batch]:
    if batch_id:
        row = cast(Batch | None, store.get(Key(BATCH, namespace, (scope, batch_id))))
        if row is None:
            raise ConfigurationError(
                "There is no batch {!r} in {}.".format(batch_id, namespace),
                remedy="'airflow shardbatch batches' lists them.",
            )
        return [row]
    if owner is None:
        return []
    rows = cast("Iterator[Batch]", store.list(BATCH, namespace, scope, owner=owner))
    return [row for row in rows if row.state is BatchState.FROZEN]  # a parked one is resumed by name only


def _note(actor: str, reason: str, owner: str | None, shards: Sequence[str], batch_id: str | None) -> str:
    named = list(shards[:5]) + (["and {} more".format(len(shards) - 5)] if len(shards) > 5 else [])
    chosen = [
        "owner {}".format(owner) if owner else "",
        "shards {}".format(", ".join(named)) if shards else "",
        "batch {}".format(batch_id) if batch_id else "",
    ]
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return "{} {} released {}: {}".format(when, actor, "; ".join(filter(None, chosen)), reason.strip())


def _record(store: LeaseStore, namespace: Namespace, note: str) -> None:
    while True:
        row = _application(store, namespace)
        if store.replace(row, row.acted(note)):
            return


def _free_lease(store: LeaseStore, seen: Lease, dry_run: bool) -> Released:
    holder, current = seen.lease_owner, seen
    for _ in range(TRIES):
        why = _lease_refusal(store, current, holder)
        if why:
            return Released("lease", seen.shard_id, holder or "", "left", why)
        if dry_run:
            return Released("lease", seen.shard_id, holder or "", "would release")
        if store.replace(current, leases.release(current, _now_ms())):
            return Released("lease", seen.shard_id, holder or "", "released")
        found = cast(Lease | None, store.get(seen.key))
        if found is None:
            return Released("lease", seen.shard_id, holder or "", "left", "its row is gone")
        current = found
    return Released("lease", seen.shard_id, holder or "", "left", "its owner is alive and writes all the time")


def _lease_refusal(store: LeaseStore, lease: Lease, holder: str | None) -> str:
    if lease.batch_id is not None:
        if store.get(Key(BATCH, lease.namespace, (lease.scope, lease.batch_id))) is None:
            return "a freeze stamped it and made no batch; the next claim frees it once that freeze is known to be over"
        return "it is frozen in batch {0}; release that with --batch {0}".format(lease.batch_id)
    if lease.lease_owner is None:
        return "nobody holds it"
    if lease.lease_owner != holder:
        return "it went to {} meanwhile".format(lease.lease_owner)
    return ""


def _free_batch(store: LeaseStore, seen: Batch, reason: str, dry_run: bool) -> Released:
    holder, current = seen.owner, seen
    for _ in range(TRIES):
        why = _batch_refusal(current, holder)
        if why:
            return Released("batch", seen.batch_id, holder, "left", why)
        if dry_run:
            return Released("batch", seen.batch_id, holder, "would release")
        note = "released: {}".format(reason.strip())
        resumed = batches.unpark(current, note) if current.state is BatchState.PARKED else current
        if store.replace(current, batches.disown(resumed, note)):
            return Released("batch", seen.batch_id, holder, "released")
        found = cast(Batch | None, store.get(seen.key))
        if found is None:
            return Released("batch", seen.batch_id, holder, "left", "its row is gone")
        current = found
    return Released("batch", seen.batch_id, holder, "left", "its owner is alive and writes all the time")


def _batch_refusal(batch: Batch, holder: str) -> str:
    if batch.state is BatchState.COMMITTED:
        return "it is committed; the next claim moves its leases on by itself"
    if batch.state is BatchState.VOID:
        return "it is void; the next claim frees its leases by itself"
    if not batch.owner and batch.state is not BatchState.PARKED:
        return "it is released already; the next claim takes it"
    if batch.owner != holder:
        return "it went to {} meanwhile".format(batch.owner)
    return ""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
