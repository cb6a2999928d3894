# SPDX-License-Identifier: Apache-2.0
"""Leases of a new application made of what another library kept; tests of KCL's import go through it, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Action, Done
from shardbatch.control.import_leases import Import, import_leases
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after, at_timestamp
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Taken
from shardbatch.errors import ConfigurationError, ImportUnfinished, StreamRecreated
from shardbatch.kcl.verbs import IMPORT_KCL
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import application, everything


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", ScriptedStream(shards=2))


def bring(rig: Rig, *plan: Taken, dry_run: bool = False, **more: Any) -> dict[str, str]:
    action = Action(
        verb=IMPORT_KCL, namespace=rig.namespace, store=rig.store, actor="ann", reason="moving", dry_run=dry_run
    )
    brought = Import(rig.stream.identity(), plan, "two places", "the other", **more)
    return {item.name: item.result for item in told(import_leases(action, brought))}


def told(found: tuple[Done, ...]) -> tuple[Done, ...]:
    assert all(item.why if item.result == "left" else item.effect for item in found)
    return found


def plan(rig: Rig, *places: Any) -> list[Taken]:
    return [Taken(Shard(name), place, "as said") for name, place in zip(rig.stream.shards, places, strict=True)]


def test_each_shard_stands_where_it_was_said(rig: Rig) -> None:
    first, second = rig.stream.shards
    places = plan(rig, after("500"), SHARD_END)
    rig.store.prepare()
    before = everything(rig)
    assert set(bring(rig, *places, dry_run=True).values()) == {"would import"}
    assert everything(rig) == before
    assert set(bring(rig, *places).values()) == {"imported"}
    rows = {row.shard_id: row for row in rig.consumer().leases()}
    assert (rows[first].checkpoint, rows[first].completed) == (after("500"), False)
    assert (rows[second].checkpoint, rows[second].completed) == (SHARD_END, True)
    assert "ann imported two places: moving" in (application(rig).last_action or "")
    assert bring(rig, *places) == {first: "already", second: "already"}


def test_one_that_is_refused_leaves_all(rig: Rig) -> None:
    first, second = plan(rig, after("500"), TRIM_HORIZON)
    refused = replace(second, refused="no place")
    assert bring(rig, first, refused) == {second.shard.shard_id: "left"}
    assert rig.consumer().application() is None


def test_a_place_that_was_chosen_may_be_another_the_next_time(rig: Rig) -> None:
    first, second = plan(rig, after("500"), at_timestamp(1_000))
    assert set(bring(rig, first, replace(second, chosen=True)).values()) == {"imported"}
    later = replace(second, position=at_timestamp(2_000), chosen=True)
    assert set(bring(rig, first, later).values()) == {"already"}
    with pytest.raises(ConfigurationError, match="does not stand where the other does"):
        bring(rig, first, replace(later, chosen=False))


def test_what_looks_before_and_last_stops_it(rig: Rig) -> None:
    def stop() -> None:
        raise ConfigurationError("It lives.")

    places = plan(rig, after("500"), TRIM_HORIZON)
    with pytest.raises(ConfigurationError, match="lives"):
        bring(rig, *places, before=stop)
    assert rig.consumer().application() is None
    with pytest.raises(ConfigurationError, match="lives"):
        bring(rig, *places, last=stop)
    with pytest.raises(ImportUnfinished):
        rig.claim("r1")
    assert set(bring(rig, *places).values()) == {"imported", "already"}


def test_another_stream_of_the_name_is_refused(rig: Rig) -> None:
    bring(rig, *plan(rig, after("500"), TRIM_HORIZON))
    rig.stream.created_ms = 2
    with pytest.raises(StreamRecreated):
        bring(rig, *plan(rig, after("500"), TRIM_HORIZON))
