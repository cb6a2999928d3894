# SPDX-License-Identifier: Apache-2.0
"""An output root changes hands: nothing decided is lost, and the old application is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Done
from shardbatch.control.adopt_root import adopt_root
from shardbatch.control.drop import drop
from shardbatch.core.application import Application
from shardbatch.core.batch import BatchState
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, SCHEMA_VERSION, Key, Namespace
from shardbatch.errors import ConfigurationError, OutputTaken, StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.landing.roots import OutputRoots
from shardbatch.run import Frozen
from tests.support.rig import Rig
from tests.support.verbs import act, batch, done, namespace, told
from tests.unit.control.roots import Killed, committed, decided_and_died, killed, root, undecided


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


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
    return list(act(adopt_root, settings.pop("store"), heir, root(rig), **settings))


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

    monkeypatch.setattr(OutputRoots, "begin_change", between(freeze_and_look, "begin_change"))

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

    monkeypatch.setattr(OutputRoots, "finish_change", between(freeze_and_commit, "finish_change"))

    assert adopt(rig, heir) == [(root(rig), "adopted")]

    assert batch(rig, late[0] or "").state is BatchState.FROZEN
    assert list(rig.decisions()) == [first]


@pytest.mark.parametrize("step", ["mark", "finish_change"])
def test_an_adoption_that_died_is_finished_by_the_next(rig: Rig, heir: Namespace, step: str) -> None:
    batch_id = decided_and_died(rig)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, step, killed)
        patch.setattr(OutputRoots, "withdraw_change", lambda *_: None)  # a process that is killed withdraws nothing
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


def test_without_staging_no_root_is_reached(rig: Rig) -> None:
    committed(rig)
    with pytest.raises(ConfigurationError, match="staging"):
        told(adopt_root, rig, root(rig))
