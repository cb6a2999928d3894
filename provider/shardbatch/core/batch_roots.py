# SPDX-License-Identifier: Apache-2.0
"""The output roots that a batch row names, and how one is taken out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Callable

from shardbatch.core.batch import LONGEST_NOTE, Batch


def named_roots(batch: Batch) -> list[str]:
    """Every root that is told of this batch, as it is spelled: of a row of version 1 those of its starts."""
    return [*batch.roots, *(output for start in batch.starts for output in start.outputs)]


def forget_root(batch: Batch, keep: Callable[[str], bool], note: str) -> Batch:
    """O8: a root is gone permanently. No run waits for this batch's marker there any more, and what its starts wrote
    there is not looked for. The rest of the decision stays. ``keep`` says for each root, as spelled, if it stays."""
    return replace(
        batch,
        row_count=batch.row_count + 1,
        roots=_kept(batch.roots, keep),
        starts=tuple(replace(start, outputs=_kept(start.outputs, keep)) for start in batch.starts),
        note=f"{batch.note}; {note}"[-LONGEST_NOTE:] if batch.note else note,
    )


def _kept(roots: Iterable[str], keep: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(root for root in roots if keep(root))
