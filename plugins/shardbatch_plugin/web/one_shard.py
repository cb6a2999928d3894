# SPDX-License-Identifier: Apache-2.0
"""One shard: where it stands, what it waits for, its family, and its history of batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

from shardbatch.core.batch import Batch
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import BATCH
from shardbatch.errors import ShardbatchError
from shardbatch_plugin.web.answers import NotFound, told
from shardbatch_plugin.web.chosen import Chosen
from shardbatch_plugin.web.detail import outcome_of
from shardbatch_plugin.web.files import slice_of
from shardbatch_plugin.web.one_batch import owner_json
from shardbatch_plugin.web.runs import Running, reading

#: Batches whose manifests are looked through for a shard.
LOOKED_AT = 20


@dataclass(frozen=True)
class _History:
    batches: list[dict[str, Any]]
    looked_at: int
    error: dict[str, str] | None


def shard(chosen: Chosen, shard_id: str) -> dict[str, Any]:
    """All that is known of a shard.

    :raises NotFound: if the application has no such shard.
    """
    rows = chosen.table
    row = next((one for one in rows if one.shard_id == shard_id), None)
    if row is None:
        raise NotFound(f"There is no shard {shard_id}.")
    lease = next(one for one in chosen.look.leases if one.shard_id == shard_id)
    history = _history(chosen, shard_id)
    return {
        "shard": {
            **asdict(row.status),
            "from_key": row.from_key,
            "to_key": row.to_key,
            "opened_ms": row.opened_ms,
            "closed_ms": row.closed_ms,
            "note": lease.note,
            "begins": None if lease.begins is None else str(lease.begins),
            "pending": None if lease.pending is None else lease.pending.to_json(),
        },
        "owner": owner_json(chosen, row.owner),
        "waits_for": None if row.wait is None else asdict(row.wait),
        "parents": [_relative(rows, name) for name in lease.parent_shard_ids],
        "children": [_relative(rows, one.shard_id) for one in rows if shard_id in one.parents],
        "batches": history.batches,
        "batches_looked_at": history.looked_at,
        "files_error": history.error,
        "reading": _reading(chosen, row.owner, shard_id),
    }


def _reading(chosen: Chosen, owner: str, shard_id: str) -> dict[str, Any] | None:
    """How far the read of a shard has come, by its run's read task; ``None`` while none reads it."""
    found = chosen.owner_here(owner)
    if found is None or found.dag_id not in chosen.access.readable:
        return None
    for task in reading([Running(found.dag_id, found.run_id)]):
        if shard_id in task.reading:
            records, size, behind_ms = task.reading[shard_id]
            return {"records": records, "bytes": size, "at_ms": task.at_ms, "behind_ms": behind_ms}
    return None


def _relative(rows: list[Any], shard_id: str) -> dict[str, Any]:
    found = next((one for one in rows if one.shard_id == shard_id), None)
    return {"shard_id": shard_id, "state": None if found is None else found.state}


def _history(chosen: Chosen, shard_id: str) -> _History:
    """The batches that have a slice of a shard, among the latest. Only manifests name the shards of a batch."""
    found = chosen.ask(("history",), lambda store: _latest(chosen, store))
    told_of: list[dict[str, Any]] = []
    error: dict[str, str] | None = None
    looked_at = 0
    for row in found:
        if row.manifest_uri is None:
            continue
        try:
            landed = slice_of(chosen.staging, row, shard_id)
        except ShardbatchError as failed:
            error = error or told(failed)
            continue
        looked_at += 1
        if landed is not None:
            told_of.append(
                {
                    "batch_id": row.batch_id,
                    "state": row.state.value,
                    "outcome": outcome_of(row),
                    "after": str(landed.after),
                    "until": str(landed.until),
                    "records": landed.records,
                    "committed_at_ms": row.committed_at_ms,
                }
            )
    return _History(told_of, looked_at, error)


def _latest(chosen: Chosen, store: LeaseStore) -> list[Batch]:
    return list(cast("Iterator[Batch]", store.latest(BATCH, chosen.namespace, "", LOOKED_AT)))
