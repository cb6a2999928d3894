# SPDX-License-Identifier: Apache-2.0
"""The run that a person starts to replay a batch: which DAG, told what, and who asked for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from shardbatch.control.action import Action
from shardbatch.control.verbs import REPLAY
from shardbatch.core.batch import Batch
from shardbatch.core.owner import Owner
from shardbatch.core.ports import SYSTEM_CLOCK, LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, SlicesGone
from shardbatch.run.attempt import require_kept
from shardbatch.run.replay import find_committed

#: Characters that Airflow keeps of a run's note; some of its databases refuse a longer one.
LONGEST_RUN_NOTE = 1000


@dataclass(frozen=True)
class Files:
    """Whether a batch's files are in staging, in words; ``gone`` if it is known that some are not."""

    text: str
    gone: bool = False


@dataclass(frozen=True)
class ReplayRun:
    """A run to be started. ``owner`` has the batch now; ``output`` is ``none`` for one that was set aside. ``files``
    says whether the batch's files are in staging.

    ``conf`` is what the run is told; ``result`` is ``would start`` or ``started``.
    """

    batch_id: str
    records: int
    owner: str
    output: str
    dag_id: str
    group_id: str
    run_id: str
    conf: dict[str, str]
    result: str = "would start"
    files: str = ""


def plan_replay(
    store: LeaseStore,
    namespace: Namespace,
    batch_id: str,
    *,
    deployment: str,
    files: Callable[[Batch], Files],
    dry_run: bool,
    dag_id: str | None = None,
    group_id: str | None = None,
    run_id: str | None = None,
) -> ReplayRun:
    """The run that replays a committed batch, by default of the DAG and group of its owner.

    :param deployment: this Airflow; the DAG of another one cannot be started from here.
    :param files: looks for the batch's files.
    :param dry_run: whether the run is only told, and not to be started.
    :raises ConfigurationError: if there is no such batch, or its owner names no DAG of this Airflow and none was given.
    :raises ReplayRefused: if the batch is not committed.
    :raises SlicesGone: if files of the batch are known to be gone, unless this is a preview.
    """
    batch = find_committed(store, namespace, batch_id)
    owner = Owner.parse(batch.owner)
    here = owner if owner is not None and owner.deployment == deployment else None
    dag_id = dag_id or (here.dag_id if here else None)
    if dag_id is None:
        raise ConfigurationError(
            f"Batch {batch_id} belongs to {batch.owner or 'no owner'}, which names no DAG of this Airflow.",
            remedy="Name the DAG and the group that are to replay it (--dag-id and --group-id, or the operator's "
            "target_dag_id and target_group_id).",
        )
    group_id = group_id or (owner.group_id if owner else None)
    if not group_id:
        raise ConfigurationError(
            f"Batch {batch_id} belongs to tasks without a group, which cannot be told what to replay.",
            remedy="Give the steps a group_id and name it; or clear the run that has the batch: that replays it.",
        )
    if not dry_run:
        require_kept(batch)
    found = files(batch)
    if found.gone and not dry_run:
        raise SlicesGone(f"Batch {batch_id} cannot be replayed: of its files {found.text}.")
    shown = batch.set_aside is None and (batch.starts or batch.sink == "own")
    return ReplayRun(
        batch_id=batch_id,
        records=batch.records,
        owner=batch.owner,
        output=f"attempt {batch.decided}" if shown else "none",
        dag_id=dag_id,
        group_id=group_id,
        run_id=run_id or "replay__{}__{}".format(batch_id, time.strftime("%Y%m%dT%H%M%S", time.gmtime())),
        conf={f"{group_id}.replay": batch_id},
        files=found.text,
    )


def note_replay(store: LeaseStore, namespace: Namespace, planned: ReplayRun, *, actor: str, reason: str) -> str:
    """Write who starts the run, when and why on the application row, before it is started; the note for the run.

    Of a long reason the row has all and the run's note the beginning.

    :raises ConfigurationError: if the reason is empty.
    """
    moment = SYSTEM_CLOCK.now_ms()  # the same on the row and in the run's note
    action = Action(
        namespace=namespace,
        store=store,
        verb=REPLAY,
        actor=actor,
        reason=reason,
        dry_run=False,
        clock=replace(SYSTEM_CLOCK, now_ms=lambda: moment),
    )
    what = f"batch {planned.batch_id} by run {planned.run_id} of DAG {planned.dag_id}"
    action.record(what)
    return action.note(what)[:LONGEST_RUN_NOTE]
