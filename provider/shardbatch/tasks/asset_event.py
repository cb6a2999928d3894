# SPDX-License-Identifier: Apache-2.0
"""Whether a batch's asset event is out: a question to Airflow, asked from inside a commit task (PROTOCOL B12).

Airflow makes the event in the transaction that makes the task a success, so a commit never sees its own event, and a
later try of the same clearing is there only because no event was made.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardbatch.core.ports import SYSTEM_CLOCK

if TYPE_CHECKING:
    from airflow.sdk import Asset

log = logging.getLogger("shardbatch")

#: How far from the moment at which a commit came to send it an event is looked for: clocks of machines differ.
AROUND = timedelta(hours=1)
#: An event that was to go out so long ago counts as out: Airflow's own clean-up may have removed it.
REMEMBERED = timedelta(days=7)


def clearing_of(dag_run: Any, ti: Any) -> str:
    """What the tries of a task have in common until a person clears it: its run, as it was started and cleared last,
    and how many tries the task may have.

    Airflow counts clearings of a run, but not one by its API with ``reset_dag_runs=false``, which may clear a commit
    that was a success while its run goes on. Every clearing adds to the tries.
    """
    began = getattr(dag_run, "start_date", None)
    at = "" if began is None else round(began.timestamp() * 1000)
    return f"{dag_run.run_id}/{getattr(dag_run, 'clear_number', 0)}/{at}/{getattr(ti, 'max_tries', 0)}"


def is_out(asset: Asset, batch_id: str, sent_ms: int, now_ms: int | None = None) -> bool:
    """Whether the event of a batch is out that a commit of another clearing came to send at that time.

    Without an answer it counts as out, since nearly every commit that came so far ended well.
    """
    now_ms = SYSTEM_CLOCK.now_ms() if now_ms is None else now_ms
    if now_ms - sent_ms > REMEMBERED.total_seconds() * 1000:
        return True
    sent = datetime.fromtimestamp(sent_ms / 1000, UTC)
    try:
        return any(extra.get("batch_id") == batch_id for extra in _extras(asset, sent - AROUND, sent + AROUND))
    except Exception as error:  # noqa: BLE001 - the batch is committed; an event is a call to look, and may be missing
        log.warning("Airflow could not say whether the event of batch %s is out (%s).", batch_id, type(error).__name__)
        return True


def _extras(asset: Asset, after: datetime, before: datetime) -> list[dict[str, Any]]:
    from airflow.sdk.execution_time.context import InletEventsAccessor

    events = InletEventsAccessor(asset_name=asset.name, asset_uri=asset.uri)
    return [event.extra or {} for event in events.after(after.isoformat()).before(before.isoformat())]
