# SPDX-License-Identifier: Apache-2.0
"""Reset: shards go back, or on, to a position, each with all its descendants (PROTOCOL L8, D5).

All leases are taken first, then all are rewritten, then all are freed, children before their parents: until the last
step no run can take any of them. A reset that died is finished by another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from shardbatch.control.action import Action, Done
from shardbatch.control.drop import effect as drop_effect
from shardbatch.control.lineage_hold import LineageHold, obstacle, robbed
from shardbatch.control.restart import restart
from shardbatch.core import lease as leases
from shardbatch.core.batch import UNDECIDED
from shardbatch.core.expiry import looked, unread_since
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import TRIM_HORIZON, Kind, Position, at_timestamp, lowest
from shardbatch.core.shard import generations, holes
from shardbatch.core.shortlist import shortlist
from shardbatch.core.skipped import passed, passes_over
from shardbatch.core.slice import Gap
from shardbatch.errors import ConfigurationError
from shardbatch.run.batch_status import utc

#: What helps where a target cannot be used.
TARGETS = (
    "Give TRIM_HORIZON, the sequence number of one shard, or, if the stream can be read from one, an instant with its "
    "time zone."
)
#: How a sequence number of any length may be given.
_SEQUENCE = "sequence:"
#: Places that have a name; it may stand in any letters.
_NAMES = ("TRIM_HORIZON", "LATEST", "SHARD_END")
#: A number with fewer digits may be a date or an epoch (of nanoseconds: 19).
SHORTEST_SEQUENCE = 21


def target_of(text: str | datetime) -> Position:
    """The position of a person's words: ``TRIM_HORIZON`` in any letters, an instant in ISO form, or a checkpoint as
    ``shards`` shows.

    A number of fewer than 21 digits is taken for a sequence number only as ``sequence:NUMBER``: it may be meant as a
    date or an epoch.

    :raises ConfigurationError: if it cannot be read, may mean two things, or a reset cannot go there.
    """
    try:
        found = text if isinstance(text, datetime) else _instant(str(text))
        if found is None:
            position = _position(str(text).strip())
        elif found.utcoffset() is None:
            raise ConfigurationError(f"The instant {text} has no time zone.", remedy=TARGETS)
        else:
            position = at_timestamp(round(found.timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"A reset cannot go to {str(text)!r}.", remedy=TARGETS) from error
    if position.kind is Kind.LATEST:
        raise ConfigurationError(
            "A reset cannot go to LATEST, because LATEST is not a fixed place.",
            remedy=f"Give the present instant, if the stream can be read from one. {TARGETS}",
        )
    if position.kind is Kind.SHARD_END:
        raise ConfigurationError("A reset cannot go to the end of a shard.", remedy=TARGETS)
    return position


def reset(
    action: Action,
    *,
    to: Position | None = None,
    shards: Sequence[str] = (),
    every: bool = False,
    stream_id: str | None = None,
) -> tuple[Done, ...]:
    """Move shards and all their descendants to a position, or all shards.

    Landed slices are dropped and read anew; a batch that is undecided and has one of these shards is discarded
    (``drop``). All or nothing: if one lease cannot be taken, none is changed, and what has an owner that is not known
    to be over is taken by force only. A reset that died half-way holds its leases until this is called again. Staging
    is needed only where a committed batch still waits for its marker. What expires unread from now on will be a gap, as
    for a new shard.

    :param to: ``TRIM_HORIZON``, an instant, or an exact position of one shard; its descendants then begin at their
        oldest record, or at the instant that the position looks for.
    :param every: all shards.
    :param stream_id: with ``every``: the stream was created again; accept this identity, delete the rows of its shards,
        and begin at ``to``, by default where the application began.
    :raises ConfigurationError: if nothing was chosen, the position does not fit, the reason is empty, or application or
        shard is not there.
    """
    _require_choice(to, shards, every, stream_id)
    application = action.begin()
    if stream_id is not None:
        return restart(action, application, stream_id, to or application.start_position)
    assert to is not None
    rows = action.leases()
    for shard_id in shards:
        action.expect_lease(shard_id)
    finished = _finish(action, rows)
    if finished:
        return finished
    roots = set(shards) if not every else {row.shard_id for row in rows}
    found = _preview(action, descendants(rows, roots), roots, to, application.shown_intervals)
    if action.dry_run or any(item.result == "left" for item in found):
        return found
    action.record("{} to {}".format("all shards" if every else shortlist(shards), to))
    return _move(action, roots, to, application.shown_intervals)


def _require_choice(to: Position | None, shards: Sequence[str], every: bool, stream_id: str | None) -> None:
    if bool(shards) == every:
        raise ConfigurationError("No shards were chosen, or all and some.", remedy="Name shards, or choose all.")
    if stream_id is not None and not every:
        raise ConfigurationError("A stream that was created again is reset as a whole.", remedy="Choose all shards.")
    if to is None and stream_id is None:
        raise ConfigurationError("No position was given to reset to.", remedy=TARGETS)
    if to is not None and to.exact and (every or len(shards) != 1):
        raise ConfigurationError("A sequence number is of one shard.", remedy=TARGETS)


def descendants(rows: Iterable[Lease], roots: set[str]) -> list[Lease]:
    """Some shards and all that descend from them, parents before their children."""
    known = {row.shard_id: row for row in rows}
    depth = generations({row.shard_id: row.parent_shard_ids for row in known.values()})
    found: set[str] = set()
    for shard_id in sorted(known, key=lambda name: (depth[name], name)):
        if shard_id in roots or found & set(known[shard_id].parent_shard_ids):
            found.add(shard_id)
    return [known[shard_id] for shard_id in sorted(found, key=lambda name: (depth[name], name))]


def _preview(
    action: Action, rows: list[Lease], roots: set[str], to: Position, shown: Sequence[tuple[int, int]]
) -> tuple[Done, ...]:
    told: list[Done] = []
    batches = {row.batch_id: action.batch(row.batch_id) for row in rows if row.batch_id is not None}
    for batch in batches.values():
        if batch is not None and batch.state in UNDECIDED:
            told.append(action.told(batch, "would drop", effect=drop_effect(action, batch)))
    for row in rows:
        why = obstacle(action, row)
        effect = "" if why else effect_of(row, target(row, roots, to), shown) + robbed(action, row)
        told.append(action.told(row, "left" if why else "would reset", why, effect))
    blocked = [item for item in told if item.result == "left"]
    return tuple(blocked if blocked and not action.dry_run else told)


def target(row: Lease, roots: set[str], to: Position) -> Position:
    """Where a lease goes: what descends from a shard that goes to a record begins at its oldest one; from one that goes
    on with a search for an instant, at that instant (F8)."""
    if not to.exact or row.shard_id in roots:
        return to
    return TRIM_HORIZON if to.timestamp_ms is None else at_timestamp(to.timestamp_ms)


def _move(action: Action, roots: set[str], to: Position, shown: Sequence[tuple[int, int]]) -> tuple[Done, ...]:
    hold = LineageHold(action)
    left = hold.take(lambda rows: descendants(rows, roots))
    if left is not None:
        return (*hold.dropped, left)
    told: list[Done] = list(hold.dropped)
    held = descendants(hold.rows.values(), roots)
    _begin_watermark_anew(action, held, roots, to)
    for row in held:
        place = target(row, roots, to)
        note = action.note(f"to {place}")
        unread_ms = _unread_since(action, row, hold)

        def rewound(
            lease: Lease, place: Position = place, note: str = note, unread_ms: int | None = unread_ms
        ) -> Lease:
            over = skipped(lease, place, note)
            now_ms = action.now_ms()
            return leases.rewind(lease, hold.taken, place, hold.rewound, note, now_ms, unread_ms=unread_ms, passed=over)

        before = hold.before[row.shard_id]
        if not hold.write(row.shard_id, rewound):
            why = "another reset took it; the others wait until reset is called again"
            return (*told, action.told(before, "left", why))
        told.append(action.told(before, "reset", effect=effect_of(before, place, shown) + robbed(action, before)))
    _free(action, list(hold.rows.values()))
    return tuple(told)


def _begin_watermark_anew(action: Action, held: Sequence[Lease], roots: set[str], to: Position) -> None:
    """Count the reset, and up to when it leaves records out (PROTOCOL C6, C8).

    All leases are held, so no watermark is known between this write and the end of the reset: one with the new count
    is told of the rows as they are then.
    """
    passes = any(skipped(row, target(row, roots, to), "") or _leaves_out_children(row, held, to) for row in held)
    until_ms = to.timestamp_ms if to.timestamp_ms is not None else action.now_ms() + CLOCKS_APART_MS
    action.rewrite(lambda row: row.reset(until_ms if passes else None))


def _leaves_out_children(row: Lease, held: Sequence[Lease], to: Position) -> bool:
    """Whether a completed shard goes to an instant before which children of it may have records that have no row yet:
    they will begin there, too (T7)."""
    if not row.completed or to.kind is not Kind.AT_TIMESTAMP:
        return False
    read_up_to_ms = row.committed_up_to_ms  # what its children have came later
    if read_up_to_ms is not None and read_up_to_ms >= (to.timestamp_ms or 0):
        return False
    below = [child.hash_range for child in held if row.shard_id in child.parent_shard_ids]
    known = [keys for keys in below if keys is not None]
    return bool(holes(known, row.hash_range)) if known and row.hash_range is not None else not below


def _free(action: Action, rows: list[Lease]) -> None:
    """Children before their parents: so a lineage of which a part is still held cannot be begun by anyone."""
    for row in reversed(descendants(rows, {row.shard_id for row in rows})):
        current: Lease | None = row
        while current is not None and current.lease_owner == row.lease_owner:
            if action.store.replace(current, leases.release(current, action.now_ms())):
                break
            current = action.lease(row.shard_id)


def _finish(action: Action, rows: Sequence[Lease]) -> tuple[Done, ...]:
    """Free what a reset left that had rewritten all; the caller begins one anew that had not."""
    held: dict[str, list[Lease]] = {}
    open_ones: set[str] = set()
    for row in rows:
        holder = ResetHolder.parse(row.lease_owner)
        if holder is not None:
            held.setdefault(holder.reset_id, []).append(row)
            if not holder.rewound:
                open_ones.add(holder.reset_id)
    done = [row for reset_id, members in held.items() if reset_id not in open_ones for row in members]
    if not action.dry_run:
        _free(action, done)
    result = "would finish" if action.dry_run else "finished"
    effect = (
        "An earlier reset moved it but stopped before it freed the lease: {}. To move it elsewhere, run reset again"
    )
    return tuple(action.told(row, result, effect=effect.format(row.note)) for row in done)


def effect_of(row: Lease, to: Position, shown: Sequence[tuple[int, int]] = ()) -> str:
    """What a reset of this lease does: what is read twice, and what may be lost.

    :param shown: bounds of intervals whose output live readers see too.
    """
    parts = [f"from {row.checkpoint} to {to}"]
    if over := skipped(row, to, ""):
        text = "SKIPS records{}: what lies between is never read, and the next batch tells it as a gap"
        parts.append(text.format(_span(over)))
    elif row.checkpoint == to and not row.completed:
        parts.append("which is where it stands")
    elif (row.checkpoint.exact and not row.checkpoint.searching) or row.completed:
        parts.append("reads again what was committed from there on")
    if shown and row.begins != lowest(row.begins or to, to):
        text = (
            "READERS MAY SEE RECORDS TWICE: an interval that ends at {} has joined what they see; drop its batch first"
        )
        parts.append(text.format(utc(max(end for _, end in shown))))
    if row.completed:
        parts.append("opens it again")
    if row.pending is not None and row.pending.records:
        parts.append(f"drops {row.pending.records} landed records and reads them anew, if the stream still has them")
    return "; ".join(parts)


def skipped(row: Lease, to: Position, note: str) -> Gap | None:
    """What a lease that goes to a position passes over and no batch has, if anything."""
    if row.completed or not passes_over(row.checkpoint, row.checkpoint_arrival_ms, to):
        return None
    return passed(row.checkpoint, row.checkpoint_arrival_ms, to, note)


def _span(gap: Gap) -> str:
    """When the records of a gap arrived, as far as that is known."""
    parts = [f" {word} {utc(ms)}" for word, ms in (("from", gap.from_ms), ("to", gap.to_ms)) if ms is not None]
    return " that arrived{}".format("".join(parts)) if parts else ""


def _unread_since(action: Action, row: Lease, hold: LineageHold) -> int:
    """Since when unread records of a lease came, as of its last read: if they have expired, the next read shows it.
    What was only landed is read again. If the time is unknown, what expires later shows, as for a new row."""
    now_ms = action.now_ms()
    known = {name: replace(lease, pending=None) for name, lease in hold.before.items()}
    before = known[row.shard_id]
    if before.completed:
        return now_ms
    found = unread_since(before, lambda name: known.get(name) or action.lease(name), now_ms)
    if found is not None:
        since = found.ms
    else:
        since = now_ms if before.caught_up_ms is None else looked(before.caught_up_ms, now_ms) or leases.NEVER_MS
    passed_ms = [leases.NEVER_MS if gap.from_ms is None else gap.from_ms for gap in before.skipped]
    return min([since, now_ms, *passed_ms])  # what an earlier reset passed over may be wanted again


def _position(text: str) -> Position:
    if not text:
        raise ConfigurationError("A reset cannot go to an empty text.", remedy=TARGETS)
    if text.startswith(_SEQUENCE):
        position = Position.parse(text[len(_SEQUENCE) :])
        if position.kind is not Kind.AFTER_SEQUENCE_NUMBER:
            raise ValueError(f"{text!r} is not a sequence number")
        return position
    number = text.partition("/")[0]
    if number.isdigit() and len(number) < SHORTEST_SEQUENCE:
        raise ConfigurationError(
            f"{text!r} may be a date, an epoch or a sequence number.",
            remedy=f"Give an instant like 2026-11-28T00:00:00+00:00, or {_SEQUENCE}{text}.",
        )
    return Position.parse(text.upper() if text.upper() in _NAMES else text)


def _instant(text: str) -> datetime | None:
    if not ("-" in text and ("T" in text or " " in text)):
        return None
    return datetime.fromisoformat(text)
