# SPDX-License-Identifier: Apache-2.0
"""A batch that clean-up has retired is never worked on again, however it is come by (PROTOCOL B17)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.replay_run import Files, plan_replay
from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch
from shardbatch.core.rows import BATCH
from shardbatch.errors import SlicesGone
from shardbatch.run import Frozen, begin
from shardbatch.run.commit import send_event
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.verbs import Interrupted, batch

RETIRED = r"was retired at 20\d\d-.*after archive_for"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.stream.put("a", "b")
    return made


def retire(rig: Rig, batch_id: str) -> Batch:
    row = batch(rig, batch_id)
    retired = batches.retire(row, "ann: old", rig.time.ms)
    assert rig.store.replace(row, retired)
    return retired


def committed(rig: Rig) -> str:
    batch_id = rig.run("r1").batch_id
    assert batch_id is not None
    return batch_id


def plan(rig: Rig, batch_id: str, *, dry_run: bool = False) -> Any:
    return plan_replay(
        rig.store,
        rig.namespace,
        batch_id,
        deployment="here",
        files=lambda row: Files("all there"),
        dry_run=dry_run,
    )


WAYS: dict[str, Callable[[Rig, str], Any]] = {
    "its run claims again": lambda rig, batch_id: rig.claim("r1"),
    "its run freezes again": lambda rig, batch_id: rig.freeze("r1"),
    "its run freezes what was handed": lambda rig, batch_id: rig.freeze("r1", batch_id),
    "another claims it to replay it": lambda rig, batch_id: rig.claim("again", replay=batch_id),
    "another freezes it to replay it": lambda rig, batch_id: rig.freeze("again", batch_id, replay=batch_id),
    "a person starts a replay": plan,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_opens_a_retired_batch_though_its_files_are_there(rig: Rig, way: str) -> None:
    batch_id = committed(rig)
    retired = retire(rig, batch_id)
    with pytest.raises(SlicesGone, match=RETIRED) as caught:
        WAYS[way](rig, batch_id)
    assert not caught.value.retryable
    assert batch(rig, batch_id) == retired


def test_the_preview_of_a_replay_is_shown_all_the_same(rig: Rig) -> None:
    batch_id = committed(rig)
    retire(rig, batch_id)
    assert plan(rig, batch_id, dry_run=True).batch_id == batch_id


@pytest.mark.parametrize("told", [True, False], ids=["another run", "its own run"])
def test_a_batch_that_is_retired_while_an_attempt_is_opened_is_not_opened(rig: Rig, told: bool) -> None:
    """The look at its files found all; the row that would be replaced says otherwise."""
    batch_id = committed(rig)
    racing = Interrupted(rig.store, BATCH, lambda: retire(rig, batch_id))
    with pytest.raises(SlicesGone, match=RETIRED):
        rig.freeze("again" if told else "r1", batch_id, store=racing, **({"replay": batch_id} if told else {}))
    assert batch(rig, batch_id).attempt == 1


def reopened(rig: Rig) -> Frozen:
    """A replay that a run has opened, and its work has done."""
    batch_id = committed(rig)
    frozen = rig.freeze("again", batch_id, replay=batch_id)
    rig.work(frozen)
    return frozen


def test_the_work_of_an_attempt_does_not_begin_on_a_batch_that_was_retired_since(rig: Rig) -> None:
    frozen = reopened(rig)
    retire(rig, frozen.batch_id or "")
    with pytest.raises(SlicesGone, match=RETIRED):
        begin(rig.consumer(), rig.owner("again"), frozen.batch_id or "", frozen.attempt)


@pytest.mark.parametrize("late", [False, True], ids=["before", "while it decides"])
def test_a_replay_is_not_recorded_on_a_batch_that_was_retired_since(rig: Rig, late: bool) -> None:
    frozen = reopened(rig)
    batch_id = frozen.batch_id or ""
    store: OneByOne | Any = rig.store
    if late:
        store = Interrupted(rig.store, BATCH, lambda: retire(rig, batch_id))
    else:
        retire(rig, batch_id)
    with pytest.raises(SlicesGone, match=RETIRED):
        rig.commit("again", frozen, store=store)
    assert batch(rig, batch_id).decided == 1
    assert rig.sink() == rig.committed()


def test_the_commit_of_a_retired_batch_is_repeated_and_its_event_sent(rig: Rig) -> None:
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    retire(rig, frozen.batch_id or "")
    assert not rig.commit("r1", frozen).newly
    assert send_event(rig.consumer(), rig.owner("r1"), frozen.batch_id or "", "run/0/7", lambda at: False)
