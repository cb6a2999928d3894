# SPDX-License-Identifier: Apache-2.0
"""Accept a gap: a slice in which records are missing may be frozen, although the policy is ``fail`` (PROTOCOL L11)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shardbatch.control.action import Action, Done, Stays
from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.shortlist import shortlist
from shardbatch.core.slice import Gap
from shardbatch.errors import ConfigurationError
from shardbatch.run.batch_status import utc


def accept_gap(action: Action, *, shards: Sequence[str] = (), every: bool = False) -> tuple[Done, ...]:
    """Accept the gaps in the slices of some shards, or of all; who and why go into each gap itself.

    The slice stays as it is, and so does its owner, which is not asked: an active run freezes it if it has yet to
    freeze, else the next run does. Descendants of the shard that waited behind it follow by themselves; their own
    gaps must be accepted separately.

    :param every: all shards that wait for it.
    :raises ConfigurationError: if nothing was chosen, the reason is empty, or application or shard is not there.
    """
    if bool(shards) == every:
        raise ConfigurationError("No gaps were chosen, or all and some.", remedy="Name shards, or choose all.")
    action.begin()
    chosen = [row for row in action.leases() if row.landed and row.waits_for_gap] if every else []
    chosen += [action.expect_lease(shard_id) for shard_id in shards]
    found = [row for row in chosen if _stays(row) is None]
    if found:
        action.record(f"the gaps of {shortlist([row.shard_id for row in found])}")
    return tuple(action.change(row, _stays, partial(_accepted, action), _effect)[0] for row in chosen)


def _stays(lease: Lease) -> Stays | None:
    if lease.pending is None or not lease.pending.gaps:
        return Stays("no gap waits on it")
    if not lease.waits_for_gap:
        return Stays("its gap is accepted already", already=True)
    if lease.batch_id is not None:
        return Stays(f"its gap is in batch {lease.batch_id} already", already=True)
    return None


def _accepted(action: Action, lease: Lease) -> Lease:
    return leases.accept_gap(lease, action.note("the gap"), action.now_ms())


def _effect(lease: Lease) -> str:
    if lease.pending is None:
        return ""
    end = "the shard's end" if lease.pending.ended else "the next record"
    parts = [_lost(gap, end) for gap in lease.pending.gaps if gap.accepted is None]
    return "{}; {} records of the slice go into the next batch".format("; ".join(parts), lease.pending.records)


def _lost(gap: Gap, end: str) -> str:
    lost = f"what followed {gap.after} is lost up to {gap.first_available or end}"
    if gap.from_ms is not None:
        lost += f", from {utc(gap.from_ms)}"
        lost += f" to {utc(gap.to_ms)}" if gap.to_ms is not None else " on"
    return f"{lost} ({gap.reason})"
