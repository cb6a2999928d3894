# SPDX-License-Identifier: Apache-2.0
"""One batch: its slices and files, its attempts with their applications, and its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import BATCH, Key
from shardbatch.core.start import Begun, Start
from shardbatch.errors import ShardbatchError
from shardbatch.run.batch_status import batch_status
from shardbatch_plugin.web.answers import NotFound, told
from shardbatch_plugin.web.chosen import Chosen
from shardbatch_plugin.web.files import left_of, manifest_of
from shardbatch_plugin.web.runs import state_of

#: The most attempts that are told, the latest.
MOST_ATTEMPTS = 50
#: What separates the notes of a row.
BETWEEN_NOTES = "; "


def expect_batch(chosen: Chosen, batch_id: str, scope: str | None = None) -> Batch:
    """A batch of an application.

    :param scope: default: wherever it is found, the live application first.
    :raises NotFound: if there is none.
    """
    found = chosen.ask(("batch", batch_id, scope), lambda store: _batch(chosen, store, batch_id, scope))
    if found is None:
        raise NotFound(f"There is no batch {batch_id}.")
    return found


def batch(chosen: Chosen, batch_id: str, scope: str | None = None) -> dict[str, Any]:
    """All that is known of a batch. What its files say is left out if they cannot be read; ``files_error`` says why."""
    row = expect_batch(chosen, batch_id, scope)
    manifest: dict[str, Any] | None = None
    begun: Sequence[Begun] = ()
    done: Sequence[Start] = ()
    error: dict[str, str] | None = None
    try:
        if row.manifest_uri is not None:
            staging = chosen.staging
            manifest = manifest_of(staging, row)
            left = left_of(staging, row)
            begun, done = left["begun"], left["done"]
    except ShardbatchError as failed:
        error = told(failed)
    return {
        "batch": asdict(batch_status(row)),
        "slices": [] if manifest is None else slices_of(manifest),
        "attempts": attempts_of(row, begun, done),
        "manifest_uri": row.manifest_uri,
        "owner": owner_json(chosen, row.owner),
        "notes": [] if row.note is None else [row.note],
        "gaps": [] if manifest is None else gaps_of(manifest),
        "may_act": chosen.may_act_on(row.owner),
        "files_error": error,
    }


def slices_of(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The slices of a batch, in the order of their shards."""
    return [
        {
            "shard_id": one["shard_id"],
            "after": one["after"],
            "until": one["until"],
            "records": one.get("records", 0),
            "bytes": one.get("raw_bytes", 0),
            "gap": bool(_gaps(one)),
            "files": one.get("files", []),
            "ended": bool(one["ended"]),
            "generation": one.get("shard_generation", 0),
            "first_arrival_ms": one.get("first_arrival_ms"),
            "last_arrival_ms": one.get("last_arrival_ms"),
        }
        for one in sorted(manifest["slices"], key=lambda one: str(one["shard_id"]))
    ]


def gaps_of(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The gaps of a batch, each with its shard."""
    return [{"shard_id": one["shard_id"], **gap} for one in manifest["slices"] for gap in _gaps(one)]


def _gaps(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The gaps of a slice; one that version 0.1.0 wrote has one at most, under another key."""
    found = one["gaps"] if "gaps" in one else [one["gap"]] if one.get("gap") else []
    return list(found)


def attempts_of(row: Batch, begun: Sequence[Begun] = (), done: Sequence[Start] = ()) -> list[dict[str, Any]]:
    """The attempts of a batch, the latest first.

    Only of the latest it is known when it last showed life; only of one the applications are recorded. A start is
    ``decided`` if the batch's decision takes it, ``done`` if it ended well, else ``begun``.
    """
    recorded, applications = row.spark_applications
    decided = {start.start_id for start in row.starts}
    ended = {start.start_id: start for start in done}
    found = []
    for attempt in range(row.attempt, max(0, row.attempt - MOST_ATTEMPTS), -1):
        all_starts: list[Begun | Start] = [*begun, *done, *row.starts]
        ids = {start.start_id: start.work for start in all_starts if start.attempt == attempt}
        told_ids = {start.start_id: start.spark_application for start in begun}
        found.append(
            {
                "attempt": attempt,
                "opened_ms": None,
                "seen_ms": row.attempt_seen_ms if attempt == row.attempt else None,
                "closed": attempt <= row.attempt_closed,
                "starts": [
                    {
                        "start": start_id,
                        "work": work,
                        "state": "decided" if start_id in decided else "done" if start_id in ended else "begun",
                        "application": told_ids.get(start_id) or None,
                    }
                    for start_id, work in sorted(ids.items())
                ],
                "applications": [
                    {"name": one.name, "work": one.work, "url": None}
                    for one in (applications if attempt == recorded else ())
                ],
                "outcome": _outcome(row, attempt),
            }
        )
    return found


def owner_json(chosen: Chosen, text: str) -> dict[str, Any] | None:
    """The run that has a batch or a lease, with its state if it is one of this deployment that the user may see."""
    if not text:
        return None
    owner = chosen.owner_here(text)
    if owner is None:
        return {"text": text, "dag_id": None, "run_id": None, "group_id": None, "here": False, "state": None}
    if owner.dag_id not in chosen.access.readable:
        return {"text": text, "dag_id": None, "run_id": None, "group_id": None, "here": True, "state": None}
    return {
        "text": text,
        "dag_id": owner.dag_id,
        "run_id": owner.run_id,
        "group_id": owner.group_id,
        "here": True,
        "state": state_of(owner.dag_id, owner.run_id),
    }


def _outcome(row: Batch, attempt: int) -> str:
    if attempt == row.decided:
        return {"kept": "set aside", "dropped": "dropped"}.get(row.set_aside or "", "committed")
    if attempt < row.attempt or attempt <= row.attempt_closed:
        return "no decision"
    if row.state is BatchState.VOID:
        return "void"
    return "parked" if row.state is BatchState.PARKED else "open"


def _batch(chosen: Chosen, store: LeaseStore, batch_id: str, scope: str | None) -> Batch | None:
    found = store.get(Key(BATCH, chosen.namespace, (scope or "", batch_id)))
    if found is None and scope is None:  # one of an interval run
        found = next(store.list(BATCH, chosen.namespace, None, batch_id=batch_id), None)
    return cast("Batch | None", found)
