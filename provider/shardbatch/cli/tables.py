# SPDX-License-Identifier: Apache-2.0
"""What the commands print for people: rows of text. Instants become ages, as seen by the clock of this machine."""

from __future__ import annotations

from collections.abc import Iterable

from shardbatch.control.action import Done
from shardbatch.control.applications import ApplicationStatus
from shardbatch.control.migrate import Migrated
from shardbatch.control.replay_run import ReplayRun
from shardbatch.control.status import OwnerStatus, ShardStatus, Status
from shardbatch.core.owner import Owner
from shardbatch.core.shortlist import shortlist
from shardbatch.core.watermark import Watermark
from shardbatch.run.batch_status import BatchStatus, IntervalsStatus, arrived, in_bytes, utc

Table = list[dict[str, str]]

UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def span(ms: int | None) -> str:
    """A length of time in its two largest units: ``2 h 5 min``; ``-`` if it is not known."""
    if ms is None:
        return "-"
    parts: list[str] = []
    rest = max(ms, 0)
    for size, name in UNITS:
        if rest >= size and len(parts) < 2:
            parts.append(f"{rest // size} {name}")
            rest %= size
        elif parts:
            break
    return " ".join(parts) or "0 s"


def age(then_ms: int | None, now_ms: int) -> str:
    """How long ago an instant was."""
    return "-" if not then_ms else f"{span(now_ms - then_ms)} ago"


def until(then_ms: int | None, now_ms: int) -> str:
    """The time until an instant: ``now`` if it is over, ``unknown`` if the instant is unknown."""
    if then_ms is None:
        return "unknown"
    return span(then_ms - now_ms) if then_ms > now_ms else "now"


def owner(text: str) -> str:
    """An owner in few words: dag, run, group; the deployment in front only tells owners apart in the rows."""
    parsed = Owner.parse(text) if text else None
    return text or "no owner" if parsed is None else f"{parsed.dag_id} {parsed.run_id} {parsed.group_id}"


def summary(found: Status, now_ms: int) -> Table:
    """The application as property and value."""
    lines = {
        "application": found.app_name,
        "stream": found.stream_name,
        "stream id": found.stream_id,
        "started at": found.start_position,
        "deployments": ", ".join(found.deployments) or "-",
        "claimed by": "; ".join(map(str, found.claimed_by)) or "-",
        "shards open": str(found.open_shards),
        "shards held, landed, frozen": f"{found.held_shards}, {found.landed_shards}, {found.frozen_shards}",
        "shards completed": str(found.completed_shards),
        "lag as last read": _lag(found),
        "retention of the stream": span(found.retention_ms),
        "time until data loss": _until_loss(found, now_ms),
        "committed up to": _committed_up_to(found.watermark, now_ms),
        "batches committed": str(found.committed_batches),
        "last commit": age(found.last_commit_ms, now_ms),
        "batches unfinished": str(len(found.unfinished)),
        "batches of intervals": _intervals(found.intervals),
        "last action of a person": found.last_action or "-",
    }
    return [{"property": name, "value": value} for name, value in lines.items()]


def _committed_up_to(found: Watermark, now_ms: int) -> str:
    """The watermark, and what holds it back."""
    held = f"; held back by {shortlist([hold.name for hold in found.holds])}" if found.holds else ""
    if found.ms is None:
        return f"unknown{held}"
    return f"{utc(found.ms)}, {age(found.ms, now_ms)}{held}"


def applications(found: Iterable[ApplicationStatus]) -> Table:
    """One line an application."""
    return [
        {
            "application": item.app_name,
            "stream": item.stream_name,
            "stream id": item.stream_id or "-",
            "started at": item.start_position or "-",
            "deployments": ", ".join(item.deployments) or "-",
            "claimed by": "; ".join(map(str, item.claimed_by)) or "-",
            "schema": str(item.schema_version),
        }
        for item in found
    ]


def owners(found: Iterable[OwnerStatus], now_ms: int) -> Table:
    """Who holds something; the owner's whole text, because ``release --owner`` wants it."""
    return [
        {
            "owner": item.owner,
            "leases": str(item.shards),
            "unfinished batches": str(item.batches),
            "last sign of life": age(item.updated_at_ms, now_ms),
        }
        for item in found
    ]


def batches(found: Iterable[BatchStatus], now_ms: int) -> Table:
    """One line a batch."""
    return [
        {
            "batch": item.batch_id,
            "interval": item.interval or "-",
            "state": _state(item),
            "readers": item.readers,
            "records": f"{item.records:,}",
            "arrived": arrived(item.min_arrival_ms, item.max_arrival_ms) or "-",
            "size": in_bytes(item.bytes),
            "gaps": str(item.gaps),
            "dropped": f"{item.dropped:,}",
            "waited": _waited(item),
            "attempt": str(item.attempt),
            "age": age(item.created_at_ms, now_ms),
            "committed": age(item.committed_at_ms, now_ms),
            "owner": owner(item.owner),
            "note": item.note or "",
        }
        for item in found
    ]


def shards(found: Iterable[ShardStatus], now_ms: int) -> Table:
    """One line a shard."""
    return [
        {
            "shard": item.shard_id,
            "state": item.state + (" (gap)" if item.pending_gap else "") + (" (skips)" if item.skipped else ""),
            "checkpoint": item.checkpoint,
            "lag": span(item.millis_behind_latest),
            "until loss": "-" if item.all_read else until(item.expires_from_ms, now_ms),
            "pending": "-" if item.pending_records is None else f"{item.pending_records:,}",
            "batch": item.batch_id or "-",
            "parents": " ".join(item.parent_shard_ids) or "-",
            "owner": owner(item.owner) if item.owner else "-",
            "changed": age(item.updated_at_ms, now_ms),
        }
        for item in found
    ]


def _lag(found: Status) -> str:
    """The lag of the shard furthest behind, and which that is."""
    name = "" if found.furthest_shard_id is None else f", {found.furthest_shard_id}"
    return span(found.millis_behind_latest) + name


def _until_loss(found: Status, now_ms: int) -> str:
    """The least of all shards, and how many say nothing of it; ``-`` if every shard is read to its end."""
    if found.expires_from_ms is None:
        return "unknown" if found.expires_unknown else "-"
    unknown = f", unknown for {found.expires_unknown} shards" if found.expires_unknown else ""
    return until(found.expires_from_ms, now_ms) + unknown


def actions(found: Iterable[Done]) -> Table:
    """One line a row that was, or would be, changed."""
    return [
        {
            "kind": item.kind,
            "name": item.name,
            "owner": owner(item.owner),
            "result": item.result,
            "why": item.why or item.effect,
        }
        for item in found
    ]


def _intervals(found: IntervalsStatus) -> str:
    """How many were committed, and of how many some reader sees the output."""
    if not found.committed_batches and not found.unfinished:
        return "-"
    words = "{} committed, {} of them seen by readers, {} unfinished"
    return words.format(found.committed_batches, found.seen_batches, len(found.unfinished))


def _waited(item: BatchStatus) -> str:
    """What the service's limits cost: the time of all shards together, and what was refused or renewed."""
    counts = ((item.refused, "refused"), (item.resubscribed, "renewed"))
    words = [span(item.waited_ms), *(f"{count:,} {what}" for count, what in counts if count)]
    return ", ".join(words) if item.waited_ms or len(words) > 1 else "-"


def _state(item: BatchStatus) -> str:
    """A batch's state, and what became of it by a person's hand."""
    aside = {None: "", "kept": " (set aside)", "dropped": " (dropped)" if item.interval else " (set aside, dropped)"}[
        item.set_aside
    ]
    retired = " (retired)" if item.retired_ms is not None else ""
    return item.state + aside + retired + (" (possible orphan)" if item.possible_orphan else "")


def replays(found: Iterable[ReplayRun]) -> Table:
    """One line a run, with what it is told."""
    return [
        {
            "batch": item.batch_id,
            "records": f"{item.records:,}",
            "owner": owner(item.owner),
            "output": item.output,
            "files": item.files,
            "dag": item.dag_id,
            "run": item.run_id,
            "conf": " ".join(f"{name}={value}" for name, value in item.conf.items()),
            "result": item.result,
        }
        for item in found
    ]


def migrated(found: Iterable[Migrated]) -> Table:
    """One line a statement, then the application."""
    return [{"what": item.what, "result": item.result} for item in found]
