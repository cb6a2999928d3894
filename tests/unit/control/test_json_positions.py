# SPDX-License-Identifier: Apache-2.0
"""An application as JSON: its copy reads what it would have read itself, whatever happened before."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbatch.control.action import Done
from shardbatch.control.export_positions import export_positions
from shardbatch.control.import_positions import import_positions
from shardbatch.control.json_positions import JsonPositions, stream_of
from shardbatch.control.reset import reset
from shardbatch.control.verbs import IMPORT_POSITIONS
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Outputs, Policies
from shardbatch.core.position import LATEST, TRIM_HORIZON, at_timestamp
from shardbatch.core.rows import INTERVAL, SHARD_LEASE
from shardbatch.errors import ConfigurationError, ImportUnfinished, InvalidStream, InvalidToken
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import done

HOUR = 3_600_000


def rig_in(folder: Path, stream: ScriptedStream, *, app: str = "etl", like: Rig | None = None) -> Rig:
    folder.mkdir(parents=True)  # output roots stand beside staging
    made = Rig(folder / "staging", stream, app=app, options={"policies": Policies(gap=GapPolicy.RECORD)})
    if like is not None:
        made.time = like.time
    made.store.prepare()
    return made


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_in(tmp_path / "first", ScriptedStream(shards=2))


def exported(rig: Rig) -> dict[str, Any]:
    found = export_positions(rig.consumer(), source=rig.stream, form=JsonPositions())
    text = json.dumps(found.positions)
    back: dict[str, Any] = json.loads(text)
    assert back == found.positions
    return back


def bring(rig: Rig, positions: Any, **more: Any) -> list[Done]:
    given: dict[str, Any] = {"actor": "ann", "reason": "copying", "dry_run": False, "clock": rig.time.clock(), **more}
    store = given.pop("store", rig.store)
    form, source = JsonPositions(), rig.stream
    found = IMPORT_POSITIONS.act(store, rig.namespace, source=source, form=form, positions=positions, **given)
    assert IMPORT_POSITIONS.use_case is not None
    assert IMPORT_POSITIONS.use_case() is import_positions
    return list(found)


def copied(rig: Rig, folder: Path, *, app: str = "copy") -> Rig:
    other = rig_in(folder, rig.stream, app=app, like=rig)
    bring(other, exported(rig))
    return other


def drained(rig: Rig, name: str) -> Counter[str]:
    """Every record that is committed once nothing is left to read."""
    for number in range(4):
        rig.run(f"{name}{number}")
    return Counter(rig.committed())


def gaps(rig: Rig) -> int:
    return sum(batch.gaps for batch in rig.batches(BatchState.COMMITTED))


# ------------------------------------------------------------------ any history


STEPS = ("put", "pack", "split", "merge", "run", "short", "landed", "frozen", "reset", "skip", "lose", "wait")


class History:
    """A stream and an application to which anything may have happened."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.stream, self.runs = rig, rig.stream, 0

    def _run(self) -> str:
        self.runs += 1
        return f"run{self.runs}"

    def _open(self) -> list[str]:
        return sorted(name for name, shard in self.stream.shards.items() if not shard.closed)

    def put(self, pick: int) -> None:
        self.stream.put("a", "b", shard_id=self._open()[pick % len(self._open())])

    def pack(self, pick: int) -> None:
        self.stream.pack("a", "b", "c", shard_id=self._open()[pick % len(self._open())])

    def split(self, pick: int) -> None:
        if len(self.stream.shards) < 10:
            self.stream.split(self._open()[pick % len(self._open())])

    def merge(self, pick: int) -> None:
        there = sorted(self._open(), key=lambda name: self.stream.shards[name].hash_range.start)
        if len(there) > 1 and len(self.stream.shards) < 10:
            at = pick % (len(there) - 1)
            self.stream.merge(there[at], there[at + 1])

    def run(self, pick: int) -> None:
        self.rig.run(self._run())

    def short(self, pick: int) -> None:
        self.rig.run(self._run(), limits=ReadLimits(records=1 + pick % 2))

    def landed(self, pick: int) -> None:
        name = self._run()
        found = self.rig.claim(name)
        if not found.batch_id:
            self.rig.land(name, found)
        self.rig.over(name)

    def frozen(self, pick: int) -> None:
        name = self._run()
        found = self.rig.claim(name)
        self.rig.land(name, found)
        self.rig.freeze(name, found.batch_id)
        self.rig.over(name)

    def reset(self, pick: int) -> None:
        self._reset(TRIM_HORIZON, pick)

    def skip(self, pick: int) -> None:
        self.wait(pick)
        self._reset(at_timestamp(self.stream.now_ms), pick)

    def _reset(self, to: Any, pick: int) -> None:
        rows = self.rig.consumer().leases()
        if rows and self.rig.app == "etl":
            name = rows[pick % len(rows)].shard_id
            done(reset, self.rig, shards=[name], to=to, force=True, landing=self.rig.consumer().landing)

    def lose(self, pick: int) -> None:
        """What is landed the application still has, and a copy does not: so nothing may be landed then."""
        if any(row.pending for row in self.rig.consumer().leases()):
            return
        self.stream.trim(sorted(self.stream.shards)[pick % len(self.stream.shards)], 1)
        self.rig.time.ms += 30 * HOUR
        self.stream.now_ms += 30 * HOUR

    def wait(self, pick: int) -> None:
        self.rig.time.ms += 60_000 + pick
        self.stream.now_ms += 60_000 + pick


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=12), st.booleans())
def test_a_copy_reads_what_the_application_would_have_read(steps: list[tuple[str, int]], at_tip: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = rig_in(Path(folder) / "first", ScriptedStream(shards=2))
        rig.options["start"] = LATEST if at_tip else TRIM_HORIZON
        history = History(rig)
        rig.run("begin")
        for step, pick in steps:
            getattr(history, step)(pick)
        before, gaps_before = Counter(rig.committed()), gaps(rig)
        landed = any(row.pending for row in rig.consumer().leases())
        other = copied(rig, Path(folder) / "second")
        assert exported(other)["shards"] == [
            {**shard, **_own(other, shard["shard_id"])} for shard in exported(rig)["shards"]
        ]
        history.split(1)
        history.put(0)
        mine, its = drained(rig, "mine"), drained(other, "its")
        assert its == mine - before
        told = gaps(rig) - gaps_before
        # A slice that is pending hides what was seen before it, so that a copy may tell a gap that is none.
        assert gaps(other) >= told if landed else gaps(other) == told


def _own(rig: Rig, name: str) -> dict[str, Any]:
    """Where a shard of a copy begins, which has read nothing before."""
    row = rig.consumer().lease(name)
    assert row is not None
    return {"begins": str(row.begins)}


# ------------------------------------------------------------------ what goes along


def test_a_copy_in_the_middle_of_an_aggregate_goes_on_there(rig: Rig, tmp_path: Path) -> None:
    one, _ = rig.stream.shards
    packed = rig.stream.pack("a", "b", "c", "d", "e", shard_id=one)
    rig.run("r1", limits=ReadLimits(records=1))
    read = Counter(rig.committed())
    positions = {shard["shard_id"]: shard["position"] for shard in exported(rig)["shards"]}
    assert "/" in positions[one]
    other = drained(copied(rig, tmp_path / "second"), "its")
    assert read
    assert read + other == Counter(drained(rig, "mine"))
    assert (read + other).total() == len(packed)


def test_a_loss_on_the_way_is_a_gap_of_the_copy(rig: Rig, tmp_path: Path) -> None:  # W1, W3
    one, _ = rig.stream.shards
    rig.stream.put("a", shard_id=one)
    rig.run("r1")
    written = exported(rig)
    rig.stream.put("b", "c", shard_id=one)
    rig.stream.trim(one, 1)
    rig.time.ms += 30 * HOUR
    rig.stream.now_ms += 30 * HOUR
    rig.stream.retention = timedelta(days=7)  # raised since: it brings nothing back
    other = rig_in(tmp_path / "second", rig.stream, app="copy", like=rig)
    bring(other, written)
    assert other.run("r1").gaps == rig.run("r2").gaps == 2  # the other shard may have lost what nobody saw


def test_what_is_known_of_expiry_is_not_forgotten(rig: Rig, tmp_path: Path) -> None:  # W1
    rig.run("r1")
    rig.stream.retention = timedelta(days=7)
    rig.run("r2")
    first = rig.consumer().application()
    second = copied(rig, tmp_path / "second").consumer().application()
    assert first is not None
    assert second is not None
    assert first.gone_before_ms
    kept = ("start_position", "retention_ms", "gone_before_ms", "longest_retention_ms")
    assert [getattr(first, name) for name in kept] == [getattr(second, name) for name in kept]


@pytest.mark.parametrize("during", ["the shards are listed", "the leases are listed"])
def test_what_runs_note_while_positions_are_exported_goes_along(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    """With the places of one time and the bounds of another, the copy would let an interval join what readers see."""
    rig.run("r1")
    noted: list[str] = []

    def noting(answer: Any) -> Any:
        def answers(*asked: Any, **more: Any) -> Any:
            found = answer(*asked, **more)
            row = rig.consumer().application()
            assert row is not None
            if not noted and (asked[:1] == (SHARD_LEASE,) or not asked):
                noted.append(during)
                found = list(found)
                assert rig.store.replace(row, row.showing((1000, 2000)))
            return found

        return answers

    place, name = (rig.stream, "list_shards") if during == "the shards are listed" else (rig.store, "list")
    monkeypatch.setattr(place, name, noting(getattr(place, name)))
    assert exported(rig)["application"]["shown_intervals"] == [[1000, 2000]]
    assert noted


def test_the_tips_of_a_stream_without_instants_go_along(rig: Rig, tmp_path: Path) -> None:  # F4
    rig.run("r1")
    row = rig.consumer().application()
    assert row is not None
    places = (("shardId-9", TRIM_HORIZON),)
    assert rig.store.replace(row, replace(row.acted("x"), start_position=LATEST, start_places=places))
    made = copied(rig, tmp_path / "second").consumer().application()
    assert made is not None
    assert (made.start_position, made.start_places) == (LATEST, places)


@pytest.mark.parametrize("app", ["etl", "copy"])
def test_the_numbers_of_intervals_go_on_in_the_same_application_only(rig: Rig, tmp_path: Path, app: str) -> None:  # H3
    rig.stream.put("a", "b")
    start = rig.stream.now_ms - 5_000
    rig.time.ms += HOUR
    rig.stream.now_ms += HOUR
    interval = Interval(start, start + 60_000)
    scope = str(rig.owner("i1"))
    rig.run("i1", interval=interval, scope=scope, outputs=Outputs())
    rig.run("live")
    (row,) = rig.store.list(INTERVAL, rig.namespace, None)
    other = copied(rig, tmp_path / "second", app=app)
    found = [(each.interval, each.number, each.roots) for each in other.store.list(INTERVAL, other.namespace, None)]  # type: ignore[attr-defined]
    assert found == ([(row.interval, 1, row.roots)] if app == "etl" else [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(("app", "begins"), [("etl", "TRIM_HORIZON"), ("copy", None)])
def test_only_the_same_application_has_read_from_where_it_began(  # H4
    rig: Rig, tmp_path: Path, app: str, begins: str | None
) -> None:
    one, _ = rig.stream.shards
    (number,) = rig.stream.put("a", shard_id=one)
    rig.run("r1")
    row = copied(rig, tmp_path / "second", app=app).consumer().lease(one)
    assert row is not None
    assert str(row.begins) == (begins or number)


def test_an_import_that_dies_is_finished_by_another(rig: Rig, tmp_path: Path) -> None:
    one, _ = rig.stream.shards
    rig.stream.put("a", shard_id=one)
    rig.run("r1")
    left = rig.stream.put("b", shard_id=one)
    written = exported(rig)
    for applied in (False, True):
        for at in range(4):
            other = rig_in(tmp_path / f"second{at}{applied}", rig.stream, app="copy", like=rig)
            with pytest.raises(Killed):
                bring(other, written, store=MortalStore(other.store, at, applied=applied))
            row = other.consumer().application()
            if row is not None and row.importing:
                with pytest.raises(ImportUnfinished):
                    other.claim("r1")
            bring(other, written)
            assert drained(other, "r") == Counter(left)


# ------------------------------------------------------------------ what is refused


def test_an_application_that_is_there_is_left(rig: Rig, tmp_path: Path) -> None:
    rig.stream.put("a")
    rig.run("r1")
    written = exported(rig)
    assert {item.result for item in bring(rig, written)} == {"already"}
    rig.stream.put("b", "c")
    rig.run("r2")
    with pytest.raises(ConfigurationError, match="is there already"):
        bring(rig, written)


def test_positions_without_a_shard_do_not_say_that_an_application_stands_there(rig: Rig, tmp_path: Path) -> None:
    rig.run("r1")
    none = {**exported(rig), "shards": []}
    with pytest.raises(ConfigurationError, match="is there already"):
        bring(rig, none)
    other = rig_in(tmp_path / "second", rig.stream, like=rig)
    assert [item.result for item in bring(other, none)] == ["imported"]
    bring(other, none)  # twice changes nothing


def test_positions_of_another_stream_are_refused(rig: Rig, tmp_path: Path) -> None:
    rig.run("r1")
    written = exported(rig)
    assert stream_of(written) == rig.stream.identity()
    rig.stream.created_ms += 1
    other = rig_in(tmp_path / "second", rig.stream, app="copy", like=rig)
    with pytest.raises(InvalidStream, match="are of the stream"):
        bring(other, written)
    assert other.consumer().application() is None


def test_a_start_that_would_not_be_applied_is_refused(rig: Rig, tmp_path: Path) -> None:
    rig.run("r1")
    other = rig_in(tmp_path / "second", rig.stream, app="copy", like=rig)
    with pytest.raises(ConfigurationError, match="name the place of every shard"):
        bring(other, exported(rig), start=TRIM_HORIZON)
    assert other.consumer().application() is None


def _edited(rig: Rig, **changes: Any) -> dict[str, Any]:
    rig.run("r1")
    return {**exported(rig), **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "bloop"}, "not written by shardbatch"),
        ({"version": 2}, "have version 2; this shardbatch reads version 1"),
        ({"version": True}, "have version True"),
        ({"more": 1}, "has \\['more'\\], which this version does not know"),
        ({"shards": {}}, "'shards' of the positions is not a list"),
        ({"shards": [{"shard_id": "a"}]}, "lacks \\['position'\\]"),
        ({"shards": [{"shard_id": "a", "position": "LATEST"}]}, "LATEST, which is not a place"),
        ({"shards": [{"shard_id": "a", "position": "5/x"}]}, "not a place"),
        ({"shards": [{"shard_id": "a", "position": "5"}] * 2}, "shard a twice"),
        ({"shards": [{"shard_id": "a", "position": "5", "arrival_ms": -1}]}, "not a whole number"),
        ({"shards": [{"shard_id": "a", "position": "5", "at_tip": 1}]}, "not true or false"),
        ({"shards": [{"shard_id": "a", "position": "5", "keys": "9-1"}]}, "cannot be read"),
        ({"shards": [{"shard_id": "a", "position": "5", "parents": ["a"]}]}, "circle"),
        ({"shards": [{"shard_id": "a", "position": "5", "skipped": [{}]}]}, "lacks \\['after'\\]"),
        *(
            ({"shards": [{"shard_id": "a", "position": "5", "skipped": [{"after": "3", **odd}]}]}, words)
            for odd, words in (
                ({"from_ms": "soon"}, "'from_ms' of a gap"),
                ({"records": 10**30}, "'records' of a gap"),
                ({"until": 7}, "'until' of a gap"),
                ({"accepted": ["ann"]}, "'accepted' of a gap"),
            )
        ),
        ({"stream": ""}, "not a text"),
        ({"intervals": [{"from_ms": 1, "to_ms": 2, "number": 1}]}, "lacks \\['roots'\\]"),
        ({"application": {"app_name": "a/b", "stream_name": "s", "start": "LATEST"}}, "without a slash"),
    ],
)
def test_what_is_no_application_is_refused(rig: Rig, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidToken, match=words):
        JsonPositions().read(_edited(rig, **changes))


def test_a_shard_that_has_other_parents_is_refused(rig: Rig, tmp_path: Path) -> None:
    one, two = rig.stream.shards
    rig.stream.split(one)
    for number in range(2):
        rig.run(f"r{number}")
    written = exported(rig)
    for shard in written["shards"]:
        shard["parents"] = [two] if shard["parents"] else []
    other = rig_in(tmp_path / "second", rig.stream, app="copy", like=rig)
    with pytest.raises(InvalidStream, match="the parents of"):
        bring(other, written)
