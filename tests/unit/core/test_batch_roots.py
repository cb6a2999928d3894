# SPDX-License-Identifier: Apache-2.0
"""The output roots of a batch, and one that is gone for good."""

from __future__ import annotations

from dataclasses import replace

from shardbatch.core.batch import LONGEST_NOTE, Batch, BatchState
from shardbatch.core.batch_roots import forget_root, named_roots
from shardbatch.core.rows import Namespace
from shardbatch.core.start import Start

BATCH = Batch(
    Namespace("etl", "orders"), "", "x", "me", 5, BatchState.COMMITTED, 1, decided=1, roots=("out", "rejects"),
    starts=(Start("s1", 1, "load", ("out",)), Start("s2", 1, "check", ("rejects", "out"))),
)  # fmt: skip


def test_roots_are_those_of_the_decision_and_of_a_row_of_the_first_version_those_of_its_starts() -> None:
    assert set(named_roots(BATCH)) == {"out", "rejects"}
    assert named_roots(replace(BATCH, roots=())) == ["out", "rejects", "out"]


def test_a_root_that_is_gone_leaves_the_roots_and_the_starts_and_nothing_else_changes() -> None:
    left = forget_root(BATCH, lambda root: root != "rejects", "ann: bucket deleted")
    assert left == replace(
        BATCH,
        row_count=6,
        roots=("out",),
        starts=(Start("s1", 1, "load", ("out",)), Start("s2", 1, "check", ("out",))),
        note="ann: bucket deleted",
    )


def test_what_was_noted_before_stays_as_far_as_there_is_room() -> None:
    noted = replace(BATCH, note="by jo: checked")
    assert forget_root(noted, lambda _: True, "by ann: gone").note == "by jo: checked; by ann: gone"
    long = forget_root(replace(BATCH, note="x" * LONGEST_NOTE), lambda _: True, "by ann: gone").note
    assert long is not None
    assert (len(long), long[-14:]) == (LONGEST_NOTE, "; by ann: gone")
