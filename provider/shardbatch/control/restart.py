# SPDX-License-Identifier: Apache-2.0
"""Restart: the stream was deleted and created again under its name, and the application begins anew on it (D7).

Rows are deleted first, and the application's row changes last: until then every claim fails as before.
"""

from __future__ import annotations

from shardbatch.control.action import Action, Done
from shardbatch.control.drop import effect as drop_effect
from shardbatch.control.lineage_hold import LineageHold, obstacle, robbed
from shardbatch.core.application import Application
from shardbatch.core.batch import UNDECIDED
from shardbatch.core.lease import Lease
from shardbatch.core.position import Position
from shardbatch.errors import ConfigurationError


def restart(action: Action, application: Application, stream_id: str, start: Position) -> tuple[Done, ...]:
    """Delete the rows of the old stream's shards, and accept another identity, from ``start`` on.

    :raises ConfigurationError: for an empty identity, or a start that is a record of the old stream.
    """
    if not stream_id.strip() or start.exact:
        raise ConfigurationError(
            f"An application cannot begin anew on {stream_id!r} at {start}.",
            remedy="Give the identity that StreamRecreated names, and TRIM_HORIZON, or an instant if the stream can be "
            "read from one.",
        )
    name = str(action.namespace)
    begun = start == application.start_position or any(action.leases())
    if application.stream_id == stream_id and begun:
        return (Done("application", name, "", "already", "its rows belong to that stream already"),)
    text = f"from stream {application.stream_id} to {stream_id}, read from {start} on"
    rows = action.leases()
    found = _preview(action, rows)
    if action.dry_run:
        return (Done("application", name, "", "would reset", effect=text), *found)
    if any(item.result == "left" for item in found):
        return tuple(item for item in found if item.result == "left")
    action.record(text)
    hold = LineageHold(action)
    while action.leases():
        left = hold.take(list)
        if left is not None:
            return (*hold.dropped, left)
        for shard_id in list(hold.rows):
            if not hold.write(shard_id, lambda lease: None):
                hold.rows.pop(shard_id, None)  # gone, or another's: the next round tells
    while not action.store.replace(application, application.renewed(stream_id, start, action.note(text))):
        application = action.expect_application()
    told = [action.told(row, "deleted", effect=_effect(row) + robbed(action, row)) for row in hold.before.values()]
    return (Done("application", name, "", "reset", effect=text), *hold.dropped, *told)


def _preview(action: Action, rows: list[Lease]) -> list[Done]:
    told: list[Done] = []
    batches = {row.batch_id: action.batch(row.batch_id) for row in rows if row.batch_id is not None}
    for batch in batches.values():
        if batch is not None and batch.state in UNDECIDED:
            text = "LOST from this application, unless it is set aside first; " + drop_effect(action, batch)
            told.append(action.told(batch, "would drop", effect=text))
    for row in rows:
        why = obstacle(action, row)
        text = "" if why else _effect(row) + robbed(action, row)
        told.append(action.told(row, "left" if why else "would delete", why, text))
    return told


def _effect(row: Lease) -> str:
    if row.pending is None or not row.pending.records:
        return f"committed up to {row.checkpoint}"
    return f"committed up to {row.checkpoint}; {row.pending.records} landed records are LOST"
