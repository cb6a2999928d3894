# SPDX-License-Identifier: Apache-2.0
"""Which commit sends the event of a batch (PROTOCOL B12, N): tries, clearings, and runs that meet at the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.batch import DUE
from shardbatch.run import Frozen, send_event
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def decided(rig: Rig) -> str:
    """A batch of r1, committed; its id."""
    rig.stream.put("a")
    batch_id = rig.run("r1").batch_id
    assert batch_id is not None
    return batch_id


def sends(rig: Rig, batch_id: str, clearing: str, run: str = "r1", *, out: bool = False, store: Any = None) -> bool:
    consumer = rig.consumer() if store is None else rig.consumer(store=store)
    return send_event(consumer, rig.owner(run), batch_id, clearing, lambda sent_ms: out)


def event(rig: Rig, batch_id: str) -> str | None:
    (batch,) = [row for row in rig.batches() if row.batch_id == batch_id]
    return batch.event


def test_it_goes_out_with_the_first_commit_that_comes_to_send_it(rig: Rig) -> None:
    batch_id = decided(rig)
    assert event(rig, batch_id) == DUE
    assert sends(rig, batch_id, "r1/0")
    assert event(rig, batch_id) == "r1/0"


def test_a_later_try_of_the_same_clearing_sends_it_again_whatever_airflow_says(rig: Rig) -> None:
    batch_id = decided(rig)
    assert sends(rig, batch_id, "r1/0")
    assert sends(rig, batch_id, "r1/0", out=True)


@pytest.mark.parametrize("out", [True, False])
def test_after_another_clearing_it_is_sent_if_airflow_does_not_have_it(rig: Rig, out: bool) -> None:
    batch_id = decided(rig)
    assert sends(rig, batch_id, "r1/0")
    assert sends(rig, batch_id, "r1/1", out=out) is not out
    assert event(rig, batch_id) == ("r1/0" if out else "r1/1")


def test_a_try_that_was_given_up_and_comes_first_does_not_keep_the_current_one_from_sending(rig: Rig) -> None:
    batch_id = decided(rig)
    store = MemoryStore(rig.store.memory)  # type: ignore[attr-defined]

    def overtake(when: str, write: Any) -> None:
        if when == "before":
            store.fault = None
            assert sends(rig, batch_id, "r1/0")

    store.fault = overtake
    assert sends(rig, batch_id, "r1/1", store=store)
    assert event(rig, batch_id) == "r1/1"


def test_only_the_owner_sends_it(rig: Rig) -> None:
    batch_id = decided(rig)
    assert rig.freeze("r2", replay=batch_id).attempt == 2
    assert not sends(rig, batch_id, "r1/1")
    assert event(rig, batch_id) == DUE
    assert sends(rig, batch_id, "r2/0", "r2")


def test_a_batch_without_records_and_one_that_was_set_aside_have_none(rig: Rig) -> None:
    (parent,) = rig.stream.list_shards()
    rig.stream.split(parent.shard_id)
    empty = rig.run("r1").batch_id
    assert empty is not None
    assert event(rig, empty) is None
    assert not sends(rig, empty, "r1/0")


def test_a_replay_owes_none(rig: Rig) -> None:
    batch_id = decided(rig)
    assert sends(rig, batch_id, "r1/0")
    frozen = rig.freeze("r1", batch_id)
    rig.work(frozen)
    assert rig.commit("r1", Frozen(batch_id=batch_id, attempt=frozen.attempt)).replayed
    assert not sends(rig, batch_id, "r1/1", out=True)


def test_an_old_answer_of_the_store_does_not_pass_for_a_batch_without_an_event(rig: Rig) -> None:
    """Whoever asks has seen it committed."""
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    (before,) = rig.batches()
    rig.work(frozen)
    rig.commit("r1", frozen)
    answers: list[Any] = [before]

    class Old(MemoryStore):
        def get(self, key: Any) -> Any:
            return answers.pop() if answers else super().get(key)

    assert sends(rig, before.batch_id, "r1/0", store=Old(rig.store.memory))  # type: ignore[attr-defined]
