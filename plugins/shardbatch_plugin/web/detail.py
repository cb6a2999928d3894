# SPDX-License-Identifier: Apache-2.0
"""One application: how it stands, its shards, its batches, and the hours that are complete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any, cast

from shardbatch.control import completeness, verbs
from shardbatch.control.columnar import columnar
from shardbatch.control.shard_table import COLUMNS
from shardbatch.control.status import batches as latest_batches
from shardbatch.control.status import status_of
from shardbatch.control.verb import Verb
from shardbatch.core.batch import Batch
from shardbatch.core.owner import Owner
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import BATCH
from shardbatch.errors import ShardbatchError
from shardbatch.run.batch_status import BatchStatus, batch_status
from shardbatch_plugin.web.answers import now_ms
from shardbatch_plugin.web.chosen import Chosen
from shardbatch_plugin.web.files import manifest_of
from shardbatch_plugin.web.listing import row_of
from shardbatch_plugin.web.one_batch import gaps_of
from shardbatch_plugin.web.records import may_see_records
from shardbatch_plugin.web.runs import STEPS, WORK, reading, running, seconds_of

#: What a person does from the page.
VERBS = ("release", "park", "unpark", "set-aside", "drop", "accept-gap", "reset", "replay")
#: The fields of a batch, as ``batches`` of the command line has them, and what Airflow knows of its run.
BATCH_FIELDS = tuple(item.name for item in fields(BatchStatus))
SECONDS = (*STEPS[:3], WORK, STEPS[3])
#: Batches with gaps whose manifests are read to date their gaps.
MOST_MANIFESTS = 20


def application(chosen: Chosen) -> dict[str, Any]:
    """How an application stands as a whole."""
    status = chosen.ask(("status",), lambda store: _status(chosen, store))
    found = chosen.seen.overview
    at_work = running(chosen.dag_ids & chosen.access.readable)
    row = row_of(chosen.known, chosen.access, chosen.place.key, chosen.namespace, found, chosen.groups, at_work)
    problem = row["problem"]
    level = "error" if row["urgency"] >= 4 else "warning"
    return {
        "application": row,
        "status": status,
        "may_act": chosen.may_act,
        "may_see_records": may_see_records() and chosen.may_act,
        "verbs": [verb_json(verbs.VERBS[name]) for name in VERBS],
        "banner": None if problem is None or row["urgency"] < 3 else {"level": level, **problem},
    }


def verb_json(verb: Verb) -> dict[str, Any]:
    """A verb as a form needs it."""
    return {
        "name": verb.name,
        "help": verb.help,
        "more": verb.more,
        "arguments": [
            {
                "name": argument.name,
                "flag": argument.flag,
                "help": argument.help,
                "required": argument.required,
                "many": argument.many,
                "switch": argument.switch,
                "words": list(argument.words),
            }
            for argument in verb.arguments
        ],
    }


def shards(chosen: Chosen) -> dict[str, Any]:
    """All shards, as columns."""
    return columnar(COLUMNS, chosen.table)


def batches(chosen: Chosen, limit: int, *, intervals: bool) -> dict[str, Any]:
    """The latest batches, newest first, as columns."""
    found = chosen.ask(
        ("batches", limit, intervals),
        lambda store: latest_batches(store, chosen.namespace, limit) if intervals else _latest(chosen, store, limit),
    )
    owners = {batch.batch_id: chosen.owner_here(batch.owner) for batch in found}
    readable = [owner for owner in owners.values() if owner is not None and owner.dag_id in chosen.access.readable]
    seconds = seconds_of(readable)
    return {
        "columns": [*BATCH_FIELDS, *(f"{step}_s" for step in SECONDS), "outcome", "dag_id", "run_id"],
        "rows": [_batch_row(batch, owners[batch.batch_id], seconds) for batch in found],
    }


def hours(chosen: Chosen, count: int) -> dict[str, Any]:
    """The hours that are complete."""
    now = now_ms()
    since = now - count * completeness.HOUR_MS
    leases = chosen.look.leases
    held = chosen.seen.watermark
    with_gaps = chosen.ask(("gaps", count), lambda store: _with_gaps(chosen, store, since))
    waiting = [gap for lease in leases for gap in (*lease.skipped, *(lease.pending.gaps if lease.pending else ()))]
    spans = [(gap.from_ms, gap.to_ms) for gap in waiting]
    unknown = max(0, len(with_gaps) - MOST_MANIFESTS)
    for batch in with_gaps[:MOST_MANIFESTS]:
        try:
            manifest = manifest_of(chosen.staging, batch)
        except ShardbatchError:  # told as a number: what is committed is complete, with a gap or without
            unknown += 1
            continue
        spans += [(gap.get("from_ms"), gap.get("to_ms")) for gap in gaps_of(manifest)]
    found = completeness.hours(now, count, held.ms, held.complete_from_ms, spans)
    return {
        "hours": [asdict(hour) for hour in found],
        "watermark_ms": held.ms,
        "complete_from_ms": held.complete_from_ms,
        "holds": [asdict(hold) for hold in held.holds],
        "gaps_not_dated": unknown,
    }


def read_tasks(chosen: Chosen) -> dict[str, Any]:
    """How far the reads have come that are at work: those of runs that the user may see."""
    found = reading(running(chosen.dag_ids & chosen.access.readable))
    shards = {name: (*numbers, task.at_ms) for task in found for name, numbers in task.reading.items()}
    return {
        "tasks": [{key: value for key, value in asdict(task).items() if key != "reading"} for task in found],
        "columns": ["shard_id", "records", "bytes", "behind_ms", "at_ms"],
        "rows": [[name, *numbers] for name, numbers in sorted(shards.items())],
    }


def outcome_of(batch: BatchStatus | Batch) -> str:
    """What became of a batch, in one word of the glossary."""
    state = batch.state if isinstance(batch, BatchStatus) else batch.state.value
    return {"kept": "set aside", "dropped": "dropped"}.get(batch.set_aside or "", state.lower())


def _status(chosen: Chosen, store: LeaseStore) -> dict[str, Any]:
    rows = cast("Iterator[Batch]", store.list(BATCH, chosen.namespace, None))
    return asdict(status_of(chosen.look.application, chosen.look.leases, rows))


def _latest(chosen: Chosen, store: LeaseStore, limit: int) -> tuple[BatchStatus, ...]:
    return tuple(batch_status(cast("Batch", row)) for row in store.latest(BATCH, chosen.namespace, "", limit))


def _with_gaps(chosen: Chosen, store: LeaseStore, since: int) -> list[Batch]:
    """The batches with gaps that were made since an instant, newest first."""
    found = []
    for row in cast("Iterator[Batch]", store.latest(BATCH, chosen.namespace, "", 500)):
        if row.created_at_ms < since:
            break
        if row.gaps:
            found.append(row)
    return found


def _batch_row(batch: BatchStatus, owner: Owner | None, seconds: dict[Owner, dict[str, float | None]]) -> list[Any]:
    took = seconds.get(owner, {}) if owner is not None else {}
    return [
        *(getattr(batch, name) for name in BATCH_FIELDS),
        *(took.get(step) for step in SECONDS),
        outcome_of(batch),
        owner.dag_id if owner is not None else None,
        owner.run_id if owner is not None else None,
    ]
