# SPDX-License-Identifier: Apache-2.0
"""Accept a gap: a slice that begins after lost records may be frozen, although the policy is ``fail``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shardbatch.consumer.action import Action, Done, Stays
from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError


def accept_gap(
    store: LeaseStore,
    namespace: Namespace,
    *,
    actor: str,
    reason: str,
    shards: Sequence[str] = (),
    every: bool = False,
    scope: str = "",
    dry_run: bool = True,
) -> tuple[Done, ...]:
    """Accept the gaps that slices of some shards, or of all, begin with; who and why go into the gap itself.

    The slice stays as it is, and so does its owner: an active run freezes it if it has yet to freeze, else the next
    run does. Descendants of the shard that waited behind it follow by themselves; a gap of their own is accepted for
    itself.

    :param every: all shards that wait for it.
    :param scope: that of an interval run, default: the live application.
    :param dry_run: only say what would be done (default).
    :raises ConfigurationError: if nothing was chosen, the reason is empty, or application or shard is not there.
    """
    if bool(shards) == every:
        raise ConfigurationError("No gaps were chosen, or all and some.", remedy="Name shards, or choose all.")
    action = Action(
        namespace=namespace, store=store, scope=scope, verb="accept", past="accepted",
        actor=actor, reason=reason, dry_run=dry_run,
    )  # fmt: skip
    action.begin()
    chosen = [row for row in action.leases() if row.landed and row.waits_for_gap] if every else []
    chosen += [action.expect_lease(shard_id) for shard_id in shards]
    found = [row for row in chosen if _stays(row) is None]
    if found:
        named = ", ".join(row.shard_id for row in found[:5])
        more = " and {} more".format(len(found) - 5) if len(found) > 5 else ""
        action.record("the gaps of {}{}".format(named, more))
    return tuple(action.change(row, _stays, partial(_accepted, action), _effect)[0] for row in chosen)


def _stays(lease: Lease) -> Stays | None:
    if lease.pending is None or lease.pending.gap is None:
        return Stays("no gap waits on it")
    if lease.pending.gap.accepted is not None:
        return Stays("its gap is accepted already", already=True)
    if lease.batch_id is not None:
        return Stays("its gap is in batch {} already".format(lease.batch_id), already=True)
    return None


def _accepted(action: Action, lease: Lease) -> Lease:
    return leases.accept_gap(lease, action.note("the gap"), action.now_ms())


def _effect(lease: Lease) -> str:
    gap = lease.pending.gap if lease.pending is not None else None
    if lease.pending is None or gap is None:
        return ""
    lost = "what followed {} is lost up to {}".format(gap.after, gap.first_available or "the next record")
    if gap.first_available is None and lease.pending.ended:
        lost = "what followed {} is lost up to the shard's end".format(gap.after)
    return "{} ({}); {} records after it go into the next batch".format(lost, gap.reason, lease.pending.records)
