# SPDX-License-Identifier: Apache-2.0
"""What stands of an application, and what keeps it from being removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Action
from shardbatch.control.remove_look import is_replayed, late, look, obstacles, require_own
from shardbatch.control.remove_verb import REMOVE
from shardbatch.core import batch as batches
from shardbatch.core.ports import Verdict
from shardbatch.errors import ConfigurationError
from shardbatch.landing.area import StagingArea
from tests.support.clean_rig import committed, frozen, landed
from tests.support.rig import Rig
from tests.support.verbs import application, batch


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.folder.mkdir()
    made.store.prepare()
    return made


def action(rig: Rig) -> Action:
    return Action(
        verb=REMOVE,
        namespace=rig.namespace,
        store=rig.store,
        actor="ann",
        reason="",
        liveness=rig.verdict,
        landing=area(rig),
    )


def area(rig: Rig) -> StagingArea:
    return StagingArea(str(rig.folder))


def told(rig: Rig, landing: StagingArea | None = None, *, discard: bool = False) -> list[tuple[str, str, str]]:
    found = look(action(rig), area(rig))
    items = obstacles(action(rig), landing or area(rig), found, discard=discard)
    return [(item.kind, item.name, item.why.partition(":")[0]) for item in items]


def test_all_that_stands_is_looked_at_in_an_order_that_misses_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(action(rig), area(rig)).empty
    committed(rig)
    order: list[str] = []
    known = rig.store.list
    landing = area(rig)
    slices = landing.cleaner.slices

    def listed(table: Any, *words: Any) -> Any:
        order.append(table.name)
        return known(table, *words)

    def folders(*words: Any) -> Sequence[Any]:
        order.append("folders")
        return slices(*words)

    monkeypatch.setattr(rig.store, "list", listed)
    monkeypatch.setattr(landing.cleaner, "slices", folders)
    found = look(action(rig), landing)
    assert order == ["folders", "shard_lease", "batch", "interval_output"]
    assert [len(part) for part in (found.documents, found.slices, found.leases, found.batches)] == [1, 1, 1, 1]
    assert not found.empty


def test_what_has_an_owner_is_told_once_with_what_it_has(rig: Rig) -> None:
    batch_id = frozen(rig).batch_id
    owner = str(rig.owner("r1"))
    assert told(rig) == [
        ("owner", owner, "it is at work and has 1 batches and 1 leases"),
        ("batch", batch_id, "it is not decided"),
    ]
    assert told(rig, discard=True) == told(rig)[:1]
    rig.over("r1")
    assert told(rig) == [("batch", batch_id, "it is not decided")]
    assert told(rig, discard=True) == []


def test_an_owner_of_another_deployment_may_only_be_discarded(rig: Rig) -> None:
    landed(rig)
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    kinds = [kind for kind, _, _ in told(rig)]
    assert kinds == ["owner", "lease"]
    assert told(rig, discard=True) == []


def test_what_is_decided_and_done_is_no_obstacle(rig: Rig) -> None:
    batch_id = committed(rig)
    assert told(rig) == []
    assert not is_replayed(batch(rig, batch_id))
    assert is_replayed(batches.open_attempt(batch(rig, batch_id), 1))
    retired = batches.retire(batches.open_attempt(batch(rig, batch_id), 1), "gc", 2)
    assert not is_replayed(retired)


def test_a_commit_that_has_not_sent_its_event_is_at_work_until_its_run_is_over(rig: Rig) -> None:
    committed(rig)
    owner = str(rig.owner("r1"))
    rig.verdicts[owner] = Verdict.ACTIVE
    assert told(rig, discard=True) == [("owner", owner, "it is at work and has 1 events to send")]
    for verdict in (Verdict.FOREIGN, Verdict.GONE, Verdict.OVER):
        rig.verdicts[owner] = verdict
        assert told(rig) == []


def test_a_replay_is_at_work_until_its_run_is_over(rig: Rig) -> None:
    batch_id = committed(rig)
    owner = str(rig.owner("r1"))
    rig.verdicts[owner] = Verdict.ACTIVE
    sent = batches.send_event(batch(rig, batch_id), "clearing", 1)
    assert rig.store.replace(batch(rig, batch_id), sent)
    assert told(rig) == []
    assert rig.store.replace(sent, batches.open_attempt(sent, 1))
    assert told(rig, discard=True) == [("owner", owner, "it is at work and has 1 batches")]
    rig.over("r1")
    assert told(rig) == [("batch", batch_id, "a replay of it was begun and is not decided")]


def test_what_stands_in_another_folder_is_told(rig: Rig) -> None:
    batch_id = committed(rig)
    elsewhere = StagingArea(str(rig.folder.parent / "new"))
    why = "it stands in another staging folder, where its files would stay"
    assert told(rig, elsewhere) == [("batch", batch_id, why)]
    assert told(rig, StagingArea(f"file://{rig.folder}/")) == []
    assert told(rig, elsewhere, discard=True) == []


def test_slices_without_rows_are_strange_unless_it_was_removed_from_that_folder(rig: Rig) -> None:
    committed(rig)
    found = replace(look(action(rig), area(rig)), leases=(), batches=(), documents=())
    row = application(rig)
    with pytest.raises(ConfigurationError, match="neither leases nor batches"):
        require_own(area(rig), row, action(rig), found)
    require_own(area(rig), row.closed("by ann", f"file://{rig.folder}"), action(rig), found)
    with pytest.raises(ConfigurationError, match="was removed with its files in /elsewhere"):
        require_own(area(rig), row.closed("by ann", "/elsewhere"), action(rig), found)


def test_what_came_late_goes_only_if_a_person_says_so(rig: Rig) -> None:
    committed(rig)
    whole = look(action(rig), area(rig))
    found = replace(whole, leases=(), batches=(), documents=())
    row = application(rig).closed("by ann", str(rig.folder))
    assert [(item.kind, item.name, item.result) for item in late(row, found, discard=False)] == [
        ("slices", "1", "left")
    ]
    assert late(row, found, discard=True) == []
    assert late(row, whole, discard=False) == []
    assert late(row, replace(found, slices=()), discard=False) == []
    assert late(application(rig), found, discard=False) == late(None, found, discard=False) == []


def test_a_manifest_without_a_row_is_strange_even_then(rig: Rig) -> None:
    committed(rig)
    found = replace(look(action(rig), area(rig)), leases=(), batches=())
    with pytest.raises(ConfigurationError, match="neither a row nor a stamp"):
        require_own(area(rig), application(rig).closed("by ann", str(rig.folder)), action(rig), found)
