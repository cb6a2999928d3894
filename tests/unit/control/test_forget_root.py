# SPDX-License-Identifier: Apache-2.0
"""An output root that is gone for good is forgotten, and no run waits for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Done
from shardbatch.control.forget_root import forget_root
from shardbatch.core.interval_output import IntervalOutput, key_of
from shardbatch.core.rows import BATCH
from shardbatch.errors import ConfigurationError, StagingError
from shardbatch.landing.location import place
from tests.support.rig import Rig
from tests.support.verbs import Interrupted, application, batch, done, everything, namespace, told
from tests.unit.control.roots import committed, decided_and_died, root


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def forget(rig: Rig, name: str = "gone", **chosen: Any) -> list[Done]:
    return told(forget_root, rig, root(rig, name), place=place, **chosen)


def test_runs_go_on_once_a_root_that_is_gone_is_forgotten(rig: Rig) -> None:
    batch_id = decided_and_died(rig, roots=("out", "gone"))
    shutil.rmtree(root(rig, "gone"))
    with pytest.raises(StagingError, match="forget-root"):
        rig.run("r2")
    rig.over("r2")

    assert [(item.name, item.result) for item in forget(rig)] == [(batch_id, "forgot")]

    rig.stream.put("b")
    rig.run("r3")
    assert batch_id in rig.decisions("out")
    assert not Path(root(rig, "gone")).exists()
    row = batch(rig, batch_id)
    assert [place(named) for named in row.roots] == [place(root(rig))]
    assert {output for start in row.starts for output in start.outputs} == {root(rig)}
    assert root(rig, "gone") in (row.note or "")
    assert "ann forgot" in (application(rig).last_action or "")


def test_a_preview_names_the_batches_and_what_is_left_of_them(rig: Rig) -> None:
    both = committed(rig, "r1", ("out", "gone"))
    committed(rig, "r2")
    alone = committed(rig, "r3", ("gone",))
    before = everything(rig)

    found = forget(rig, dry_run=True, reason="")

    assert {item.name: item.result for item in found} == {both: "would forget", alone: "would forget"}
    assert {item.name: item.effect.rpartition("; ")[2] for item in found} == {
        both: f"it has markers in {root(rig)}",
        alone: "it has markers in no root",
    }
    assert everything(rig) == before


@pytest.mark.parametrize("spelled", ["file://{}", "{}/", "file:{}//."])
def test_a_root_is_forgotten_in_whatever_spelling(rig: Rig, spelled: str) -> None:
    batch_id = committed(rig, roots=("gone",))
    found = done(forget_root, rig, spelled.format(root(rig, "gone")), place=place)
    assert found == [(batch_id, "forgot")]


def test_one_batch_alone_forgets_a_root(rig: Rig) -> None:
    first, second = committed(rig, "r1", ("gone",)), committed(rig, "r2", ("gone",))
    assert [item.result for item in forget(rig, batch_id=second)] == ["forgot"]
    assert batch(rig, first).roots
    assert not batch(rig, second).roots
    assert [item.result for item in forget(rig, batch_id=second)] == ["already"]
    with pytest.raises(ConfigurationError, match="no batch 'b9'"):
        forget(rig, batch_id="b9")


def test_a_root_that_nothing_names_is_forgotten_already(rig: Rig) -> None:
    committed(rig)
    before = everything(rig)
    assert [item.result for item in forget(rig)] == ["already"]
    assert everything(rig) == before


def test_later_runs_over_an_interval_are_not_told_in_a_forgotten_root(rig: Rig) -> None:
    committed(rig)
    row = IntervalOutput(namespace(rig), (5, 9), 1, 1, (root(rig), root(rig, "gone")))
    assert rig.store.create(row)
    assert [(item.kind, item.name, item.result) for item in forget(rig)] == [("interval", "5-9", "forgot")]
    found = rig.store.get(key_of(namespace(rig), (5, 9)))
    assert isinstance(found, IntervalOutput)
    assert (found.roots, found.number) == ((root(rig),), 1)


def test_what_is_kept_of_other_intervals_stays_where_one_batch_forgets_a_root(rig: Rig) -> None:
    committed(rig)
    row = IntervalOutput(namespace(rig), (5, 9), 1, 1, (root(rig),))
    assert rig.store.create(row)
    (item,) = forget(rig, "out", batch_id=rig.batches()[0].batch_id)
    assert (item.kind, item.result) == ("batch", "forgot")
    assert rig.store.get(row.key) == row


def test_a_row_that_changes_meanwhile_is_read_again(rig: Rig) -> None:
    batch_id = committed(rig, roots=("out", "gone"))
    forget(rig, store=Interrupted(rig.store, BATCH, lambda: rig.freeze("r1", batch_id)))
    row = batch(rig, batch_id)
    assert row.attempt == 2
    assert [place(named) for named in row.roots] == [place(root(rig))]
