# SPDX-License-Identifier: Apache-2.0
"""Positions become leases of a new application in any format; all is checked before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import Done
from shardbatch.control.import_positions import import_positions
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.errors import ConfigurationError, ImportUnfinished, InvalidStream, InvalidToken, SourceError
from tests.support.mortal import Killed, MortalStore
from tests.support.plain_positions import PlainPlaces
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    made.store.prepare()
    return made


def bring(rig: Rig, positions: Any, **more: Any) -> list[Done]:
    given = {"source": rig.stream, "form": PlainPlaces(), "positions": positions, "clock": rig.time.clock(), **more}
    return told(import_positions, rig, **given)


def results(found: list[Done]) -> dict[str, str]:
    return {item.name: item.result for item in found}


def half(rig: Rig) -> tuple[dict[str, str], list[str]]:
    """Places in two shards, and the records behind them."""
    one, two = rig.stream.shards
    first, *left = rig.stream.put("a", "b", "c", shard_id=one)
    left += rig.stream.put("d", shard_id=two)
    return {one: first, two: "TRIM_HORIZON"}, left


def drained(rig: Rig) -> list[str]:
    for number in range(3):
        rig.run(f"drain{number}")
    return sorted(rig.committed(), key=int)


def test_every_record_behind_the_positions_is_read_once(rig: Rig) -> None:
    places, left = half(rig)
    before = everything(rig)
    assert set(results(bring(rig, places, dry_run=True, reason="")).values()) == {"would import"}
    assert everything(rig) == before
    found = bring(rig, places, reason="moving")
    assert set(results(found).values()) == {"imported"}
    assert "ann imported 2 places: moving" in (application(rig).last_action or "")
    assert set(results(bring(rig, places)).values()) == {"already"}
    assert drained(rig) == left


def test_an_application_that_stands_elsewhere_is_left(rig: Rig) -> None:
    places, _ = half(rig)
    rig.run("r1")
    before = everything(rig)
    with pytest.raises(ConfigurationError, match="does not stand where the list does"):
        bring(rig, places)
    assert everything(rig) == before


def test_a_place_whose_record_has_expired_is_told_and_becomes_a_gap(rig: Rig) -> None:
    places, _ = half(rig)
    one, _ = rig.stream.shards
    rig.stream.trim(one, 1)
    effects = {item.name: item.effect for item in bring(rig, places)}
    assert "has expired: what else has, becomes a gap" in effects[one]
    assert rig.run("r1", policies=Policies(gap=GapPolicy.RECORD)).gaps == 1
    assert len(rig.committed()) == 2


def test_a_place_that_the_service_refuses_leaves_all(rig: Rig) -> None:
    places, _ = half(rig)
    one, two = rig.stream.shards
    places[two] = places[one]
    rig.stream.failing[two] = SourceError("It does not belong to this shard.", retryable=False)
    found = bring(rig, places)
    assert results(found) == {two: "left"}
    assert "does not belong" in found[0].why
    assert rig.consumer().application() is None
    rig.stream.failing[two] = SourceError("It is busy.")
    with pytest.raises(SourceError, match="busy"):
        bring(rig, places)
    assert rig.consumer().application() is None


def test_a_shard_that_left_the_stream_is_not_asked_for(rig: Rig) -> None:
    places, _ = half(rig)
    one, _ = rig.stream.shards
    rig.stream.forget(one)
    rig.stream.reads.clear()
    bring(rig, places)
    assert one not in dict(rig.stream.reads)


def test_the_present_tip_is_taken_before_the_listing(rig: Rig) -> None:
    one, two = rig.stream.shards
    listed = rig.stream.list_shards

    def later() -> Any:
        rig.stream.now_ms += 60_000
        return listed()

    rig.stream.list_shards = later  # type: ignore[method-assign]
    now = rig.stream.now_ms
    bring(rig, {one: "LATEST", two: "TRIM_HORIZON"})
    row = rig.consumer().lease(one)
    assert row is not None
    assert row.checkpoint == at_timestamp(now)


def test_a_start_is_that_of_shards_without_a_place(rig: Rig) -> None:
    one, two = rig.stream.shards
    (first,) = rig.stream.put("a", shard_id=two)
    bring(rig, {one: "LATEST", two: first}, start=TRIM_HORIZON)
    rows = {row.shard_id: row.checkpoint for row in rig.consumer().leases()}
    assert rows == {one: TRIM_HORIZON, two: after(first)}


@pytest.mark.parametrize(
    ("positions", "chosen", "error", "words"),
    [
        ("{", {}, InvalidToken, "not JSON"),
        ({"s": 7}, {}, InvalidToken, "no places"),
        ({"s": "5"}, {}, InvalidStream, "None of the places"),
        ({"s": "5"}, {"start": after("5")}, ConfigurationError, "cannot all begin at 5"),
        ({"s": "5"}, {"reason": " "}, ConfigurationError, "needs a reason"),
    ],
)
def test_what_makes_no_sense_is_refused(
    rig: Rig, positions: Any, chosen: dict[str, Any], error: type[Exception], words: str
) -> None:
    before = everything(rig)
    with pytest.raises(error, match=words):
        bring(rig, positions, **chosen)
    assert everything(rig) == before


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("at", range(4))
def test_an_import_that_dies_is_finished_by_another(rig: Rig, at: int, *, applied: bool) -> None:
    places, left = half(rig)
    with pytest.raises(Killed):
        bring(rig, places, store=MortalStore(rig.store, at, applied=applied))
    began, ended = at > 0 or applied, at == 3 and applied
    if began and not ended:
        with pytest.raises(ImportUnfinished, match="began to import 2 places"):
            rig.claim("r1")
    assert set(results(bring(rig, places)).values()) <= {"imported", "already"}
    assert drained(rig) == left


def test_two_imports_at_once_are_one(rig: Rig) -> None:
    places, left = half(rig)
    store = Interrupted(rig.store, SHARD_LEASE, lambda: bring(rig, places))
    assert set(results(bring(rig, places, store=store)).values()) == {"imported", "already"}
    assert drained(rig) == left
