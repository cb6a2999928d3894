# SPDX-License-Identifier: Apache-2.0
"""What a person does to output roots: one that is gone is forgotten, one changes hands, its markers are summed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Done
from shardbatch.control.adopt_root import adopt_root
from shardbatch.control.drop import drop
from shardbatch.control.forget_root import forget_root
from shardbatch.control.sum_markers import sum_markers
from shardbatch.core.application import Application
from shardbatch.core.batch import BatchState
from shardbatch.core.interval_output import IntervalOutput, key_of
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, SCHEMA_VERSION, Key, Namespace
from shardbatch.errors import ConfigurationError, OutputTaken, StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.landing.location import place
from shardbatch.landing.roots import OutputRoots
from shardbatch.run import Frozen
from tests.support.rig import Rig
from tests.support.verbs import Interrupted, application, batch, done, everything, namespace, told


class Killed(BaseException):
    """The process died."""


def killed(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def root(rig: Rig, name: str = "out") -> str:
    return str(rig.folder.parent / name)


def frozen(rig: Rig, run: str = "r1", *records: str) -> Frozen:
    rig.stream.put(*(records or ("a",)))
    rig.land(run, rig.claim(run))
    return rig.freeze(run)


def undecided(rig: Rig, run: str = "r1", roots: tuple[str, ...] = ("out",)) -> Frozen:
    """A batch whose work has ended."""
    made = frozen(rig, run)
    rig.work(made, roots=roots)
    return made


def committed(rig: Rig, run: str = "r1", roots: tuple[str, ...] = ("out",)) -> str:
    made = undecided(rig, run, roots)
    rig.commit(run, made)
    rig.over(run)
    assert made.batch_id is not None
    return made.batch_id


def decided_and_died(rig: Rig, run: str = "r1", roots: tuple[str, ...] = ("out",)) -> str:
    """A batch that was decided and of which no marker was written."""
    made = undecided(rig, run, roots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, "mark", killed)
        with pytest.raises(Killed):
            rig.commit(run, made)
    rig.over(run)
    assert made.batch_id is not None
    return made.batch_id


# forget-root


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
        both: f"it is told in {root(rig)}",
        alone: "it is told in no root",
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


# adopt-root

NEW = "etl-v2"


@pytest.fixture
def heir(rig: Rig) -> Namespace:
    """The application under its new name."""
    made = Namespace(NEW, rig.stream.name)
    rig.store.prepare()
    rig.store.create(Application(made, "arn:1", TRIM_HORIZON, SCHEMA_VERSION))
    return made


def adopt(rig: Rig, heir: Namespace, **chosen: Any) -> list[tuple[str, str]]:
    return [(item.name, item.result) for item in adopted(rig, heir, **chosen)]


def adopted(rig: Rig, heir: Namespace, **chosen: Any) -> list[Done]:
    settings: dict[str, Any] = {
        "actor": "ann",
        "reason": "renamed",
        "dry_run": False,
        "landing": StagingArea(str(rig.folder)),
        "store": rig.store,
        **chosen,
    }
    return list(adopt_root(settings.pop("store"), heir, root(rig), **settings))


def passes(rig: Rig, app: Namespace) -> bool:
    """Whether a commit of the application passes its look at the root."""
    try:
        StagingArea(str(rig.folder)).outputs.look(root(rig), (), str(app), shared=False)
    except OutputTaken:
        return False
    return True


def test_an_adopted_root_is_the_heirs_and_the_old_application_is_refused(rig: Rig, heir: Namespace) -> None:
    batch_id = committed(rig)
    assert not passes(rig, heir)

    assert adopt(rig, heir) == [(root(rig), "adopted")]

    assert passes(rig, heir)
    late = undecided(rig, "r2")
    with pytest.raises(OutputTaken, match=f"belongs to {NEW}/"):
        rig.commit("r2", late)
    assert late.batch_id is not None
    assert batch(rig, late.batch_id).state is BatchState.FROZEN
    assert list(rig.decisions()) == [batch_id]  # what was committed before stays
    assert adopt(rig, heir) == [(root(rig), "already")]
    row = rig.store.get(Key(APPLICATION, heir, ()))
    assert isinstance(row, Application)
    assert "ann adopted" in (row.last_action or "")


def test_a_preview_says_who_is_refused_and_what_is_told_first(rig: Rig, heir: Namespace) -> None:
    decided_and_died(rig)
    (found,) = adopted(rig, heir, dry_run=True, reason="")
    assert (found.result, found.owner) == ("would adopt", str(namespace(rig)))
    assert found.effect.endswith("is refused from then on; 1 of its batches are told there first")
    assert not rig.decisions()
    assert passes(rig, namespace(rig))


def test_what_the_old_application_decided_is_told_before_its_root_changes_hands(rig: Rig, heir: Namespace) -> None:
    batch_id = decided_and_died(rig)
    adopt(rig, heir)
    assert list(rig.decisions()) == [batch_id]


def test_a_decision_that_replaced_one_is_told_too_before_its_root_changes_hands(rig: Rig, heir: Namespace) -> None:
    batch_id = committed(rig)
    again = rig.freeze("r1", batch_id)
    rig.work(again)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, "mark", killed)
        with pytest.raises(Killed):
            rig.commit("r1", again)
    assert rig.decisions()[batch_id].decided == 1
    assert adopt(rig, heir) == [(root(rig), "adopted")]
    assert rig.decisions()[batch_id].decided == 2


def test_a_root_is_left_while_the_old_application_has_something_undecided(rig: Rig, heir: Namespace) -> None:
    waits = undecided(rig)
    rig.commit("r1", waits)
    rig.over("r1")
    waits = undecided(rig, "r2")
    assert waits.batch_id is not None

    (found,) = adopted(rig, heir)

    assert (found.name, found.result) == (waits.batch_id, "left")
    assert "drop it or set it aside" in found.why
    assert not passes(rig, heir)
    assert passes(rig, namespace(rig))
    done(drop, rig, waits.batch_id, force=True)
    assert adopt(rig, heir) == [(root(rig), "adopted")]


def between(event: Callable[[], Any], name: str) -> Any:
    """Let something happen before a step of a handover."""
    real = getattr(OutputRoots, name)

    def call(self: OutputRoots, *words: Any, **more: Any) -> Any:
        event()
        return real(self, *words, **more)

    return call


def test_a_commit_that_looked_before_the_handover_began_keeps_the_root(
    rig: Rig, heir: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(rig)
    late: list[Frozen] = []

    def freeze_and_look() -> None:
        late.append(undecided(rig, "r2"))
        assert passes(rig, namespace(rig))  # and decides whenever it likes

    monkeypatch.setattr(OutputRoots, "begin_handover", between(freeze_and_look, "begin_handover"))

    assert adopt(rig, heir) == [(late[0].batch_id, "left")]

    rig.commit("r2", late[0])
    assert late[0].batch_id in rig.decisions()
    assert not passes(rig, heir)


def test_a_commit_that_looks_after_the_handover_began_changes_nothing(
    rig: Rig, heir: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = committed(rig)
    late: list[str | None] = []

    def freeze_and_commit() -> None:
        made = undecided(rig, "r2")
        late.append(made.batch_id)
        with pytest.raises(OutputTaken, match=f"is being claimed by {NEW}/"):
            rig.commit("r2", made)

    monkeypatch.setattr(OutputRoots, "finish_handover", between(freeze_and_commit, "finish_handover"))

    assert adopt(rig, heir) == [(root(rig), "adopted")]

    assert batch(rig, late[0] or "").state is BatchState.FROZEN
    assert list(rig.decisions()) == [first]


@pytest.mark.parametrize("step", ["mark", "finish_handover"])
def test_an_adoption_that_died_is_finished_by_the_next(rig: Rig, heir: Namespace, step: str) -> None:
    batch_id = decided_and_died(rig)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, step, killed)
        patch.setattr(OutputRoots, "withdraw_handover", lambda *_: None)  # a process that is killed withdraws nothing
        with pytest.raises(Killed):
            adopt(rig, heir)
    assert not passes(rig, namespace(rig))
    assert not passes(rig, heir)

    assert adopt(rig, heir) == [(root(rig), "adopted")]
    assert passes(rig, heir)
    assert list(rig.decisions()) == [batch_id]


def test_an_adoption_that_fails_leaves_the_root_to_its_owner(rig: Rig, heir: Namespace) -> None:
    decided_and_died(rig)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, "mark", lambda *_: (_ for _ in ()).throw(StagingError("disk full")))
        with pytest.raises(StagingError, match="disk full"):
            adopt(rig, heir)
    assert passes(rig, namespace(rig))


def test_a_root_goes_back_to_the_old_application_in_the_same_way(rig: Rig, heir: Namespace) -> None:
    committed(rig)
    adopt(rig, heir)
    assert adopt(rig, namespace(rig)) == [(root(rig), "adopted")]
    assert passes(rig, namespace(rig))
    assert not passes(rig, heir)


def test_of_an_application_without_rows_here_it_is_said_that_nobody_looked(rig: Rig, heir: Namespace) -> None:
    Path(root(rig)).mkdir()
    StagingArea(str(make(rig.folder))).outputs.look(root(rig), (), "elsewhere/orders", shared=False)
    (found,) = adopted(rig, heir)
    assert found.result == "adopted"
    assert "elsewhere/orders has no rows in this lease store" in found.effect


def make(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("verb", [adopt_root, sum_markers])
def test_without_staging_no_root_is_reached(rig: Rig, verb: Callable[..., Any]) -> None:
    committed(rig)
    with pytest.raises(ConfigurationError, match="staging"):
        told(verb, rig, root(rig))


# sum-markers


def test_markers_are_summed_on_demand_and_tell_the_same(rig: Rig) -> None:
    found = sorted([committed(rig, "r1"), committed(rig, "r2")])
    area = StagingArea(str(rig.folder))
    before = area.outputs.told(root(rig))
    sums = Path(root(rig)) / "_shardbatch" / "sums"

    (preview,) = told(sum_markers, rig, root(rig), landing=area, dry_run=True)
    assert (preview.result, preview.effect) == ("would sum", "it tells of 2 batches")
    assert not sums.exists()

    (summed,) = told(sum_markers, rig, root(rig), landing=area)
    assert (summed.result, summed.effect.partition(" ")[0]) == ("summed", "2")
    assert len(list(sums.glob("*.json"))) == 1
    assert area.outputs.told(root(rig)) == before
    assert sorted(before) == found
    assert "ann summed" in (application(rig).last_action or "")
    assert done(sum_markers, rig, root(rig), landing=area) == [(root(rig), "already")]
