# SPDX-License-Identifier: Apache-2.0
"""Adopt a root: an output root is handed to this application, and the one that had it is refused from then on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from shardbatch.control.action import STAGING, Action, Done
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.ports import HandedRoots, Landing
from shardbatch.core.root_owner import Holder, has_it, other_application, top_epoch
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.errors import ConfigurationError
from shardbatch.run.consumer import Rows
from shardbatch.run.settle import decision_at, roots_of


def adopt_root(action: Action, root: str) -> tuple[Done, ...]:
    """Hand a root to the application. What others committed there stays, and readers go on seeing it.

    From its beginning on no other application's commit passes its look at the root. Then the rows of those that are
    named there are looked at: one that may have looked before is a batch that is not decided, and while there is one
    the root is left. What they decided is told in the root before it changes hands. One that died is called again.
    Staging is needed, since it reaches the root.

    :param root: the root, in whatever spelling.
    :raises ConfigurationError: if the application is not there, the reason is empty, or no staging is given.
    :raises StagingError: if the root cannot be reached or written to.
    :raises OutputTaken: if another process changes its owner at this moment.
    """
    action.begin()
    reach, outputs = expect_roots(action.landing)
    me, known = str(action.namespace), outputs.holders(root)
    sole = has_it(known, me, shared=False) or has_it(known, me, shared=True)
    if sole and other_application(known, me, shared=False) is None:
        return (Done("root", root, me, "already", "it is this application's"),)
    left = _undecided(action, _others(known, me))
    if left or action.dry_run:
        return left or (_told(action, root, known, "would adopt", reach),)
    action.record(f"root {root}")
    change = outputs.begin_change(root, me)
    try:
        others = _others(outputs.holders(root), me)
        left = _undecided(action, others)
        if not left:
            _heal(action, root, others, reach)
    except BaseException:
        outputs.withdraw_change(root, change)
        raise
    if left:
        outputs.withdraw_change(root, change)
        return left
    done = _told(action, root, known, "adopted", reach)
    outputs.finish_change(root, change)
    return (done,)


def expect_roots(landing: Landing | None) -> tuple[Landing, HandedRoots]:
    """What reaches output roots.

    :raises ConfigurationError: if nothing does.
    """
    if landing is None:
        raise ConfigurationError(
            "Output roots are reached through the staging area, and none is given.",
            remedy=STAGING,
        )
    return landing, cast(HandedRoots, landing.outputs)


def _others(known: Sequence[Holder], me: str) -> list[Namespace]:
    """The other applications that have, had or claimed the root."""
    return [Namespace(*app.split("/", 1)) for app in sorted({holder.app for holder in known} - {me})]


def _rows(action: Action, other: Namespace) -> Iterator[Batch]:
    return cast("Iterator[Batch]", action.store.list(BATCH, other, None))


def _undecided(action: Action, others: Sequence[Namespace]) -> tuple[Done, ...]:
    """The batches that keep the root from being handed over."""
    why = "application {} has not decided it and may write below this root; end its run, then drop it or set it aside"
    return tuple(
        action.told(batch, "left", why.format(other))
        for other in others
        for batch in _rows(action, other)
        if batch.state in (BatchState.FROZEN, BatchState.PARKED)
    )


def _untold(action: Action, root: str, other: Namespace, landing: Landing) -> list[Batch]:
    """The batches whose decision the root does not tell yet."""
    outputs = expect_roots(landing)[1]
    told, place = outputs.told(root), outputs.place(root)
    return [
        batch
        for batch in _rows(action, other)
        if batch.state is BatchState.COMMITTED
        and told.get(batch.batch_id, -1) < batch.decided
        and any(outputs.place(named) == place for named in roots_of(landing, batch))
    ]


def _heal(action: Action, root: str, others: Sequence[Namespace], landing: Landing) -> None:
    for other in others:
        for batch in _untold(action, root, other, landing):
            landing.outputs.mark(root, decision_at(landing, batch, root))


def _told(action: Action, root: str, known: Sequence[Holder], result: str, landing: Landing) -> Done:
    """The answer about the root, with what is known of the applications that it is taken from."""
    me, highest = str(action.namespace), top_epoch(known)
    owners = [holder.app for holder in known if holder.owns and holder.epoch == highest and holder.app != me]
    said = []
    for other in _others(known, me):
        if Rows(namespace=other, store=action.store).application() is None:
            said.append(
                f"{other} has no rows in this lease store: check yourself that no run of it is working on a batch"
            )
            continue
        waits = len(_untold(action, root, other, landing))
        said.append(f"{other} is refused from then on")
        if waits:
            said.append(f"{waits} of its batches are told there first")
    return Done("root", root, ", ".join(owners), result, effect="; ".join(said) or "it had no owner")
