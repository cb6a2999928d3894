# SPDX-License-Identifier: Apache-2.0
"""Any lineage and any rows: the token says what is left to read, to an empty application and to Bloop alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shardbatch.bloop.reading import plan_token
from shardbatch.bloop.token import Token
from shardbatch.bloop.writing import write_token
from shardbatch.control.place_look import Seen
from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Kind, Position, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from tests.support.bloop_model import read_by_bloop
from tests.support.tokens import ARN

NAMESPACE = Namespace("etl", "orders")


@dataclass(frozen=True)
class Scene:
    """A stream with its records, and the rows of an application on it."""

    shards: dict[str, Shard]
    gone: frozenset[str]
    records: dict[str, list[int]]
    rows: list[Lease]

    @property
    def listing(self) -> list[Shard]:
        return [shard for name, shard in self.shards.items() if name not in self.gone]

    def look(self, shard_id: str, place: Position) -> Seen:
        left = self.left(shard_id, place)
        return Seen(str(left[0]) if left else None)

    def left(self, shard_id: str, place: Position) -> list[int]:
        """The records of a shard from a place on; an instant is the number of the first that is wanted."""
        if place.kind is Kind.SHARD_END:
            return []
        wanted = max(int(place.sequence_number or 0) + 1, place.timestamp_ms or 0)
        return [number for number in self.records[shard_id] if number >= wanted]

    def unread(self) -> dict[str, list[int]]:
        return {row.shard_id: self.left(row.shard_id, row.checkpoint) for row in self.rows}


def row_of(shard: Shard, place: Position, moved: bool) -> Lease:
    made = leases.add_imported(NAMESPACE, shard, place, 1, 0, "")
    return replace(made, begins=TRIM_HORIZON if moved else place)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Roots, rolls and splits; the oldest of them gone; a place for each shard, also where no run would leave one."""
    shards: dict[str, Shard] = {}
    children: dict[str, int] = {}
    for index in range(draw(st.integers(1, 9))):
        name = f"s{index}"
        parent = draw(st.sampled_from([None, *(known for known in shards if children[known] < 2)]))
        shards[name] = Shard(name, (parent,) if parent else ())
        children[name] = 0
        if parent:
            children[parent] += 1
    gone: set[str] = set()
    for name, shard in shards.items():
        closed = children[name] > 0 or draw(st.booleans())
        shards[name] = replace(shard, closed=closed)
        if closed and all(parent in gone for parent in shard.parent_shard_ids) and draw(st.booleans()):
            gone.add(name)
    numbers = st.sets(st.integers(1, 40), max_size=5)
    records = {name: sorted(1000 * at + number for number in draw(numbers)) for at, name in enumerate(shards, 1)}
    rows = []
    for index, shard in enumerate(shards.values(), 1):
        number = 1000 * index + draw(st.integers(0, 41))
        places = [TRIM_HORIZON, after(str(number)), at_timestamp(number), after(str(number - 3), 0, number)]
        place = draw(st.sampled_from([*places, *([SHARD_END] if shard.closed else [])]))
        rows.append(row_of(shard, place, draw(st.booleans())))
    return Scene(shards, frozenset(gone), records, rows)


def exported(scene: Scene) -> tuple[dict[str, Any], set[str]]:
    listed = {shard.shard_id for shard in scene.listing}
    token, remarks = write_token(ARN, scene.rows, listed, scene.look)
    return token.to_json(), {remark.name for remark in remarks}


def imported(scene: Scene, token: dict[str, Any]) -> dict[str, Lease]:
    plan = plan_token(Token.parse(token), ARN, scene.listing, None, lambda: at_timestamp(10**9))
    assert not [taken for taken in plan if taken.refused]
    return {taken.shard.shard_id: row_of(taken.shard, taken.position, False) for taken in plan}


@given(scenes())
@settings(max_examples=400, deadline=None)
def test_an_empty_application_reads_what_was_left_to_read(scene: Scene) -> None:
    token, told = exported(scene)
    assume(any(shard["shard_id"] not in scene.gone for shard in token["shards"]))
    rows = imported(scene, token)
    for name, left in scene.unread().items():
        if name in scene.gone and name not in rows:
            assert not left
            continue
        found = scene.left(name, rows[name].checkpoint)
        assert set(found) >= set(left), name
        assert found == left or name in told, name


@given(scenes())
@settings(max_examples=400, deadline=None)
def test_bloop_reads_what_was_left_to_read(scene: Scene) -> None:
    token, told = exported(scene)
    assume(any(shard["shard_id"] not in scene.gone for shard in token["shards"]))
    found = read_by_bloop(token, scene.listing, scene.records)
    for name, left in scene.unread().items():
        read = found.get(name, [])
        assert len(read) == len(set(read)), name
        if name not in scene.gone:
            assert set(read) >= set(left), name
            assert read == left or name in told, name


@given(scenes())
@settings(max_examples=400, deadline=None)
def test_a_token_that_came_in_goes_out_with_the_same_meaning(scene: Scene) -> None:
    token, _ = exported(scene)
    assume(any(shard["shard_id"] not in scene.gone for shard in token["shards"]))
    rows = imported(scene, token)
    again = replace(scene, rows=list(rows.values()))
    second, told = exported(again)
    assert told <= {name for name, row in rows.items() if row.checkpoint.timestamp_ms is not None}
    assert {name: again.left(name, row.checkpoint) for name, row in imported(again, second).items()} == {
        name: again.left(name, row.checkpoint) for name, row in rows.items()
    }
