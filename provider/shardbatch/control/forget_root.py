# SPDX-License-Identifier: Apache-2.0
"""Forget a root: removes an output root that is gone permanently from the rows, so that no run waits for it (O8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from shardbatch.control.action import Action, Done, Stays
from shardbatch.core import batch_roots
from shardbatch.core.batch import Batch
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.rows import BATCH, INTERVAL


def forget_root(
    action: Action, root: str, *, place: Callable[[str], str], batch_id: str | None = None
) -> tuple[Done, ...]:
    """Remove a root from what is recorded of batches: their markers are no longer written there.

    Nothing is removed from the root, should it be there after all, and readers of it see what its markers say. The
    other roots of each batch, its records and its checkpoints stay as they are. With a scope this is of that interval
    run's batches only, else of all, live ones and those of intervals.

    :param root: the root, in whatever spelling.
    :param place: makes one text of all spellings of a root.
    :param batch_id: only of this batch; default: of all that name it.
    :raises ConfigurationError: if application or batch is not there, or the reason is empty.
    """
    action.begin()
    gone = place(root)

    def keep(other: str) -> bool:
        return place(other) != gone

    def stays(batch: Batch) -> Stays | None:
        named = not all(map(keep, batch_roots.named_roots(batch)))
        return None if named else Stays("it does not name this root", already=True)

    def forgotten(batch: Batch) -> Batch:
        return batch_roots.forget_root(batch, keep, action.note(f"root {root}"))

    if batch_id is not None:
        found = [action.at_batch(batch_id)[1]]
    else:
        found = [batch for batch in _batches(action) if stays(batch) is None]
    chosen = None if batch_id is None and not action.scope else {batch.interval for batch in found}
    intervals = [
        row
        for row in _intervals(action)
        if not all(map(keep, row.roots)) and (chosen is None or row.interval in chosen)
    ]
    if intervals or any(stays(batch) is None for batch in found):
        action.record(f"root {root}")
    done = [action.change(batch, stays, forgotten, lambda batch: _effect(batch, keep))[0] for batch in found]
    done += [_forget_of_interval(action, row, keep) for row in intervals]
    return tuple(done) or (Done("application", str(action.namespace), "", "already", "nothing names this root"),)


def _batches(action: Action) -> Iterator[Batch]:
    return cast("Iterator[Batch]", action.store.list(BATCH, action.namespace, action.scope or None))


def _intervals(action: Action) -> Iterator[IntervalOutput]:
    """What runs over one interval have in common: a later one of them would be told in the root again."""
    return cast("Iterator[IntervalOutput]", action.store.list(INTERVAL, action.namespace))


def _forget_of_interval(action: Action, seen: IntervalOutput, keep: Callable[[str], bool]) -> Done:
    name, row = "{}-{}".format(*seen.interval), seen
    while not action.dry_run and not all(map(keep, row.roots)):
        if action.store.replace(row, replace(row, roots=tuple(filter(keep, row.roots)), row_count=row.row_count + 1)):
            break
        row = cast("IntervalOutput | None", action.store.get(seen.key)) or replace(seen, roots=())
    done = f"would {action.verb.would}" if action.dry_run else action.verb.past
    return Done("interval", name, "", done, effect="later runs over it are not told there")


def _effect(batch: Batch, keep: Callable[[str], bool]) -> str:
    wrote = sum(not all(map(keep, start.outputs)) for start in batch.starts)
    left = sorted({root for root in batch_roots.named_roots(batch) if keep(root)})
    return "no run waits for its marker there any more; {} of its {} starts wrote there; it has markers in {}".format(
        wrote, len(batch.starts), ", ".join(left) or "no root"
    )
