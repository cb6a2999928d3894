# SPDX-License-Identifier: Apache-2.0
"""What stands of an application before it is removed, and what stands in the way of that (PROTOCOL X2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from shardbatch.control.action import Action, Done, unknown_why
from shardbatch.control.clean_guard import require_own_rows
from shardbatch.core.application import Application
from shardbatch.core.batch import DUE, KEPT, UNDECIDED, Batch, BatchState
from shardbatch.core.cleaning import BatchFolder, CleanedLanding, SliceFolder
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import BATCH, INTERVAL, SHARD_LEASE
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import ConfigurationError, OwnerUnknown
from shardbatch.run.staging_place import stands_in

#: How a person goes on although something is lost by it.
DISCARD = "or give --discard (discard=True of the operator), and it is lost"
#: What a commit that has decided, and has not ended, has.
UNSENT = "events to send"


@dataclass(frozen=True)
class Standing:
    """All that an application has, looked at in the order in which nothing is missed: folders, leases, batches."""

    documents: Sequence[BatchFolder]
    slices: Sequence[SliceFolder]
    leases: Sequence[Lease]
    batches: Sequence[Batch]
    intervals: int

    @property
    def empty(self) -> bool:
        """Whether nothing stands that a removal removes."""
        return not (self.documents or self.slices or self.leases or self.batches)


def look(action: Action, landing: CleanedLanding) -> Standing:
    """All that stands of the application, in every scope.

    :raises StagingError: if staging cannot be listed.
    """
    store, namespace = action.store, action.namespace
    documents, slices = landing.cleaner.batches(namespace), landing.cleaner.slices(namespace)
    leases = list(cast("Iterator[Lease]", store.list(SHARD_LEASE, namespace, None)))
    batches = list(cast("Iterator[Batch]", store.list(BATCH, namespace, None)))
    return Standing(documents, slices, leases, batches, sum(1 for _ in store.list(INTERVAL, namespace, None)))


def require_own(landing: CleanedLanding, row: Application | None, action: Action, found: Standing) -> None:
    """Check that these rows are those of the runs that filled the staging folder.

    :raises ConfigurationError: if they are not, or the application was removed with its files in another folder.
    """
    removed_from = row.removed_from if row is not None else None
    place = landing.outputs.place
    if removed_from is not None and place(removed_from) != place(landing.uri):
        raise ConfigurationError(
            f"{action.namespace} was removed with its files in {removed_from}, and staging is {landing.uri}.",
            remedy="Give --staging of that folder (staging= of the operator).",
        )
    slices = () if removed_from is not None else found.slices  # of these late() judges
    require_own_rows(landing, action.namespace, found.documents, slices, found.leases, found.batches)


def late(row: Application | None, found: Standing, *, discard: bool) -> list[Done]:
    """Slices of an application that was removed before and has no row any more.

    A read that was under way may have left them. It cannot be seen whether it was one of another lease store instead,
    to which the application was moved; so a person has to say that there is none.
    """
    if row is None or row.removed is None or discard or not found.slices or found.leases or found.batches:
        return []
    why = (
        "they were read after the application was removed, or belong to one of this name in another lease store: see "
        f"that there is none, {DISCARD}"
    )
    return [Done("slices", f"{len(found.slices):,}", "", "left", why)]


def obstacles(action: Action, landing: CleanedLanding, found: Standing, *, discard: bool) -> list[Done]:
    """What keeps an application from being removed: owners at work always, what would be lost unless it is discarded.

    An owner is asked for that holds a lease, has a batch that may be decided, whose replay is not decided, or whose
    commit has not sent its event: that one is at its last step.
    """
    of_owner: dict[str, Counter[str]] = {}
    for lease in found.leases:
        if lease.lease_owner:
            of_owner.setdefault(lease.lease_owner, Counter())["leases"] += 1
    for batch in found.batches:
        if batch.owner and (batch.state in UNDECIDED or is_replayed(batch)):
            of_owner.setdefault(batch.owner, Counter())["batches"] += 1
        elif batch.owner and batch.event == DUE and batch.retired_ms is None:
            of_owner.setdefault(batch.owner, Counter())[UNSENT] += 1
    told = [_of_owner(action, owner, what, discard=discard) for owner, what in sorted(of_owner.items())]
    found_left = [item for item in told if item is not None]
    return found_left if discard else [*found_left, *_unfinished(landing, found)]


def is_replayed(batch: Batch) -> bool:
    """Whether a replay of a committed batch was begun and is not decided."""
    return batch.state is BatchState.COMMITTED and batch.retired_ms is None and batch.attempt > batch.decided


def _of_owner(action: Action, owner: str, what: Counter[str], *, discard: bool) -> Done | None:
    has = " and ".join(f"{count} {kind}" for kind, count in sorted(what.items()))
    if ResetHolder.parse(owner) is not None:
        why = "" if discard else f"a reset holds {has} and has not ended: run that reset again, {DISCARD}"
    else:
        try:
            verdict = action.verdict(owner)
        except OwnerUnknown as error:
            return Done("owner", owner, owner, "left", unknown_why(error))
        if verdict is Verdict.ACTIVE:
            why = f"it is at work and has {has}: end that run, and pause its DAG"
        elif verdict is Verdict.OVER or discard or set(what) == {UNSENT}:
            why = ""
        else:
            why = f"it has {has}, and this Airflow cannot say whether it is over: see that it is, {DISCARD}"
    return Done("owner", owner, owner, "left", why) if why else None


@dataclass
class _Kind:
    """What would be lost, of one kind."""

    kind: str
    what: str
    remedy: str
    names: list[str] = field(default_factory=list)

    def told(self) -> Done:
        return Done(self.kind, shortlist(self.names), "", "left", f"{self.what}: {self.remedy}, {DISCARD}")


def _unfinished(landing: CleanedLanding, found: Standing) -> list[Done]:
    kinds = {
        BatchState.FROZEN: _Kind("batch", "it is not decided", "let its run end, set it aside or drop it"),
        BatchState.PARKED: _Kind("batch", "it waits for a person", "resume it, set it aside or drop it"),
    }
    kept = _Kind("batch", "it is kept for a replay", "replay it, or drop it")
    replay = _Kind("batch", "a replay of it was begun and is not decided", "clear the run that replays it")
    landed = _Kind("lease", "records are landed that are in no batch", "let a run commit them")
    away = _Kind("batch", "it stands in another staging folder, where its files would stay", "remove its folder there")
    place = landing.outputs.place
    for batch in found.batches:
        if batch.state in UNDECIDED:
            kinds[batch.state].names.append(batch.batch_id)
        elif batch.state is BatchState.COMMITTED and batch.retired_ms is None:
            if batch.set_aside == KEPT:
                kept.names.append(batch.batch_id)
            elif is_replayed(batch):
                replay.names.append(batch.batch_id)
            if not stands_in(landing, batch):
                away.names.append(batch.batch_id)
    for lease in found.leases:
        if lease.pending is not None and lease.batch_id is None and (lease.pending.records or lease.pending.gaps):
            landed.names.append(lease.shard_id)
        if lease.pending is not None and lease.staging is not None and place(lease.staging) != place(landing.uri):
            away.names.append(lease.shard_id)
    return [kind.told() for kind in (*kinds.values(), kept, replay, landed, away) if kind.names]
