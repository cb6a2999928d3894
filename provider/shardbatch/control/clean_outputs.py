# SPDX-License-Identifier: Apache-2.0
"""The part of clean-up that is about output roots: start folders that no reader sees, and markers that sums cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from shardbatch.control.action import Action
from shardbatch.core.archive import READER_GRACE
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.cleaning import CleanedLanding
from shardbatch.core.decision import Decision
from shardbatch.errors import StagingError, UnsupportedSchema
from shardbatch.run.settle import mark, one_each, roots_of


class Answer(Protocol):
    """What a clean-up tells."""

    def begin(self) -> None:
        """Before anything is changed."""

    def count(self, kind: str, number: int = 1, size: int = 0) -> None:
        """So many of a kind went, or would go."""

    def leave(self, kind: str, name: str, why: str) -> None:
        """One that ought to go and stays, and why."""

    def removed(self, kind: str, name: str, remove: Callable[[], None]) -> bool:
        """Whether something is removed now, or would be."""
        ...


class Outputs:
    """The output roots that the rows of an application name.

    :param found: all its batch rows.
    """

    def __init__(self, action: Action, landing: CleanedLanding, found: Sequence[Batch], answer: Answer) -> None:
        self._action = action
        self._landing = landing
        self._answer = answer
        self._roots = one_each(landing, [root for batch in found for root in roots_of(landing, batch)])
        self._told: dict[str, Mapping[str, Decision]] = {}

    def clear(self, batch: Batch) -> bool:
        """Remove what no reader sees of a batch that is never worked on again; whether all of that is gone, or would
        be. Readers that planned before its last decision have their time."""
        if batch.state is BatchState.COMMITTED:
            current = batch if self._action.dry_run else replace(self._action, scope=batch.scope).batch(batch.batch_id)
            if current is None:
                return False
            batch = current
            final_ms = max(batch.retired_ms or self._action.now_ms(), batch.last_used_ms)
            if self._action.now_ms() - final_ms < READER_GRACE.total_seconds() * 1000:
                return False
        try:
            if not self._action.dry_run and batch.state is BatchState.COMMITTED:
                self._answer.begin()
                mark(self._landing, batch)
            cleared = [self._clear(root, batch) for root in self._roots_of(batch)]
            return all(cleared)
        except (StagingError, UnsupportedSchema) as error:  # all of the batch stays, for a later clean-up
            self._answer.leave("starts", batch.batch_id, str(error))
            return False

    def sweep(self) -> None:
        """Remove the markers and sums that a later sum covers."""
        for root in self._roots:
            try:
                found = self._landing.cleaner.sweep(root, dry_run=True)
                if found and not self._action.dry_run:
                    self._answer.begin()
                    found = self._landing.cleaner.sweep(root, dry_run=False)
                self._answer.count("markers", found)
            except (StagingError, UnsupportedSchema) as error:
                self._answer.leave("markers", root, str(error))

    def _roots_of(self, batch: Batch) -> tuple[str, ...]:
        """Where starts of a batch may have written: a row names only what counted, and done markers all that ended."""
        finished = self._landing.finished_starts(batch.namespace, batch.batch_id)
        return one_each(self._landing, [*self._roots, *(output for start in finished for output in start.outputs)])

    def _clear(self, root: str, batch: Batch) -> bool:
        cleaner = self._landing.cleaner
        folders = cleaner.starts(root, batch.batch_id)
        if not folders:
            return True
        if root not in self._told:
            self._told[root] = cleaner.decisions(root)
        seen = {start.start_id for start in batch.starts}
        if batch.batch_id in self._told[root]:
            seen |= {start_id for start_id, _ in self._told[root][batch.batch_id].starts}
        done = True
        for folder in folders:
            if folder.start_id not in seen:
                gone = self._answer.removed("starts", batch.batch_id, partial(cleaner.remove_start, root, folder))
                self._answer.count("starts", int(gone), folder.bytes if gone else 0)
                done = done and gone
        return done
