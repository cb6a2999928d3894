# SPDX-License-Identifier: Apache-2.0
"""An application is removed: what goes, what stays, who is refused, and what a death anywhere leaves (PROTOCOL X)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.clean_up import Cleaned
from shardbatch.control.drop import drop
from shardbatch.control.park import park
from shardbatch.control.remove import remove
from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import committed_up_to, status
from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import BATCH, INTERVAL, SHARD_LEASE, TABLES, Namespace
from shardbatch.errors import (
    ApplicationRemoved,
    ApplicationUnknown,
    ConfigurationError,
    OwnerUnknown,
    ShardbatchError,
    SourceError,
    StagingError,
)
from shardbatch.landing.area import StagingArea
from shardbatch.run import freeze
from shardbatch.stores.memory import MemoryStore
from tests.support.clean_rig import clean, committed, documents, frozen, landed, left, slices
from tests.support.mortal import Killed, MortalStore
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def removed(rig: Rig, **changes: Any) -> list[Any]:
    changes = {"landing": StagingArea(str(rig.folder)), "clock": rig.time.clock(), "liveness": rig.verdict, **changes}
    return told(remove, rig, **changes)


def numbers(found: list[Any]) -> dict[str, int]:
    """How many of each kind went, or would go."""
    return {item.kind: item.number for item in found if isinstance(item, Cleaned)}


def rows(rig: Rig) -> int:
    """The rows that a removal removes."""
    return sum(1 for table in (SHARD_LEASE, BATCH) for _ in rig.store.list(table, rig.namespace, None))


def is_gone(rig: Rig) -> bool:
    return (rows(rig), slices(rig), documents(rig), bool(application(rig).removed)) == (0, [], [], True)


def interval(rig: Rig) -> dict[str, Any]:
    span = Interval(rig.stream.now_ms - 1_000, rig.stream.now_ms + 1_000)
    rig.stream.now_ms += 200_000
    return {"scope": "backfill", "interval": span}


# ------------------------------------------------------------------ what goes, and what stays


def test_its_rows_and_files_go_and_what_it_committed_is_still_read(rig: Rig) -> None:
    batch_id = committed(rig)
    read = rig.sink()
    found = removed(rig)
    assert [(item.kind, item.result) for item in found] == [
        *(("leases", "removed"), ("batches", "removed"), ("slices", "removed"), ("documents", "removed")),
        ("application", "removed"),
    ]
    assert numbers(found) == {"leases": 1, "batches": 1, "slices": 1, "documents": 1, "application": 1}
    assert is_gone(rig)
    assert rig.sink() == read == ["100", "101"]
    assert batch_id in rig.decisions()
    assert "ann removed: bad data" in (application(rig).removed or "")


def test_a_preview_says_how_many_rows_files_and_bytes_and_changes_nothing(rig: Rig) -> None:
    committed(rig)
    before = everything(rig), slices(rig), documents(rig)
    found = removed(rig, dry_run=True, reason="")
    assert (everything(rig), slices(rig), documents(rig)) == before
    assert {item.result for item in found} == {"would remove"}
    size = sum(path.stat().st_size for path in rig.folder.rglob("part-*"))
    (line,) = [item for item in found if item.kind == "slices"]
    assert (line.number, line.bytes) == (1, size)
    assert "1 files" in line.effect
    assert numbers(found) == numbers(removed(rig))


def test_nothing_of_another_application_or_stream_goes(rig: Rig) -> None:
    others = [
        Rig(rig.folder, stream=rig.stream, store=rig.store, app="other"),
        Rig(rig.folder, stream=ScriptedStream(name="clicks"), store=rig.store),
    ]
    for other in others:
        landed(other)
    committed(rig)
    kept = [
        (everything_of(other), list(other.folder.glob(f"{other.app}/{other.stream.name}/slices/*/*")))
        for other in others
    ]
    removed(rig)
    assert is_gone(rig)
    found = [
        (everything_of(other), list(other.folder.glob(f"{other.app}/{other.stream.name}/slices/*/*")))
        for other in others
    ]
    assert found == kept
    assert all(files for _, files in kept)


def everything_of(rig: Rig) -> list[Any]:
    return [row.columns() for table in TABLES for row in rig.store.list(table, rig.namespace, None)]


def files_of(rig: Rig) -> list[Path]:
    return sorted((rig.folder / rig.app / rig.stream.name / "slices").glob("*/*"))


def test_rows_of_intervals_go_and_their_numbers_stay(rig: Rig) -> None:
    rig.stream.put("a", "b")
    side = interval(rig)
    rig.run("r1", **side)
    (number,) = rig.store.list(INTERVAL, rig.namespace)
    found = removed(rig)  # an interval may be read where no live run ever was
    assert ("intervals", "kept") in [(item.kind, item.result) for item in found]
    assert is_gone(rig)
    assert isinstance(number, IntervalOutput)
    assert list(rig.store.list(INTERVAL, rig.namespace)) == [number]
    with pytest.raises(ApplicationRemoved):
        rig.claim("r2", **side)


def test_it_says_so_where_it_was_removed_before_and_where_it_never_was(rig: Rig) -> None:
    rig.folder.mkdir()
    rig.store.prepare()
    with pytest.raises(ApplicationUnknown):
        removed(rig)
    committed(rig)
    removed(rig)
    before = everything(rig)
    for dry_run in (True, False):
        (said,) = removed(rig, dry_run=dry_run)
        assert (said.result, said.why) == ("already", "it was removed before")
    assert everything(rig) == before


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("state", ["landed", "frozen", "parked", "kept", "replayed"])
def test_what_is_unfinished_keeps_it_unless_it_is_discarded(rig: Rig, state: str) -> None:
    if state == "landed":
        landed(rig)
    elif state == "replayed":
        rig.freeze("r1", committed(rig))
    else:
        batch_id = frozen(rig).batch_id or ""
        rig.over("r1")
        if state == "parked":
            told(park, rig, batch_id)
        if state == "kept":
            told(set_aside, rig, batch_id, liveness=rig.verdict)
    rig.over("r1")
    before = everything(rig), slices(rig), documents(rig)
    found = removed(rig)
    assert [item.result for item in found] == ["left"]
    assert "--discard" in found[0].why
    assert (everything(rig), slices(rig), documents(rig)) == before
    removed(rig, discard=True)
    assert is_gone(rig)


@pytest.mark.parametrize("state", ["taken", "landed", "frozen", "replayed"])
def test_an_owner_at_work_always_keeps_it(rig: Rig, state: str) -> None:
    if state == "taken":
        rig.stream.put("a")
        rig.claim("r1")
    elif state == "landed":
        landed(rig)
    elif state == "frozen":
        frozen(rig)
    else:
        rig.freeze("r1", committed(rig))
        rig.verdicts.clear()
    before = everything(rig)
    found = removed(rig, discard=True)
    assert list(left(found)) == [str(rig.owner("r1"))]
    assert everything(rig) == before


@pytest.mark.parametrize("verdict", [Verdict.FOREIGN, Verdict.GONE])
def test_an_owner_that_airflow_cannot_judge_keeps_it_unless_it_is_discarded(rig: Rig, verdict: Verdict) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = verdict
    assert list(left(removed(rig))) == [str(rig.owner("r1"))]
    removed(rig, discard=True)
    assert is_gone(rig)


def test_airflow_that_gives_no_answer_keeps_it(rig: Rig) -> None:
    def silent(owner: str) -> Verdict:
        raise OwnerUnknown("no answer")

    rig.stream.put("a")
    rig.claim("r1")
    (said,) = removed(rig, discard=True, liveness=silent)
    assert said.unknown


def test_what_a_dead_reset_holds_keeps_it_unless_it_is_discarded(rig: Rig) -> None:
    committed(rig)
    row = only(rig)
    assert rig.store.replace(row, leases.seize(row, str(ResetHolder("aa")), None, 1))
    assert "a reset holds 1 leases" in next(iter(left(removed(rig)).values()))
    removed(rig, discard=True)
    assert is_gone(rig)


def test_a_batch_in_another_staging_folder_keeps_it_unless_it_is_discarded(rig: Rig) -> None:
    committed(rig)
    other = StagingArea(str(rig.folder.parent / "new"))
    other.make()
    assert "another staging folder" in next(iter(left(removed(rig, landing=other)).values()))
    assert application(rig).removed is None


def test_a_run_that_begins_meanwhile_takes_the_removal_back(rig: Rig) -> None:
    committed(rig)
    rig.stream.put("c")
    before = only(rig)
    looks = []

    class Late(StagingArea):
        """Another run claims between the first look and the second one."""

        def __init__(self, uri: str) -> None:
            super().__init__(uri)
            known = self.cleaner.slices

            def slices(namespace: Namespace) -> Any:
                looks.append(namespace)
                if len(looks) == 2:
                    assert rig.store.replace(only(rig), leases.take(only(rig), str(rig.owner("r2")), "000", 1))
                return known(namespace)

            self.cleaner.slices = slices  # type: ignore[method-assign]

    found = removed(rig, landing=Late(str(rig.folder)))
    assert list(left(found)) == [str(rig.owner("r2"))]
    row = application(rig)
    assert (row.removed, row.removed_from) == (None, None)
    assert "did not remove what a run is at work on" in (row.last_action or "")
    assert only(rig).checkpoint == before.checkpoint
    rig.land("r2", rig.claim("r2"))
    assert rig.freeze("r2").record_count == 1


def test_a_store_that_is_not_that_of_the_runs_removes_nothing(rig: Rig) -> None:
    committed(rig)
    wrong = Rig(rig.folder, stream=rig.stream, store=MemoryStore())
    wrong.folder = rig.folder.parent / "elsewhere"
    committed(wrong)
    files = slices(rig)
    with pytest.raises(ConfigurationError, match="neither a row nor a stamp"):
        removed(rig, store=wrong.store, discard=True)
    empty = MemoryStore()
    empty.prepare()
    with pytest.raises(ApplicationUnknown):
        removed(rig, store=empty, discard=True)
    assert slices(rig) == files


def test_another_folder_is_refused_once_it_is_removed_from_one(rig: Rig) -> None:
    committed(rig)
    with pytest.raises(Killed):
        removed(rig, store=MortalStore(rig.store, 2, applied=True))
    other = StagingArea(str(rig.folder.parent / "new"))
    other.make()
    with pytest.raises(ConfigurationError, match="was removed with its files in"):
        removed(rig, landing=other, discard=True)
    removed(rig, landing=StagingArea(f"file://{rig.folder}/"))
    assert is_gone(rig)


def test_it_needs_a_reason_and_staging(rig: Rig) -> None:
    committed(rig)
    with pytest.raises(ConfigurationError, match="needs a reason"):
        removed(rig, reason=" ")
    with pytest.raises(ConfigurationError, match="none is given"):
        removed(rig, landing=None)
    assert application(rig).removed is None


# ------------------------------------------------------------------ who comes late


def steps_of_a_run(rig: Rig) -> list[tuple[str, Callable[[], Any]]]:
    """What a run may still do that had begun before."""
    found = rig.claim("r1")
    rig.land("r1", found)
    ready = rig.freeze("r1")
    rig.work(ready)
    rig.over("r1")
    return [
        ("claim", lambda: rig.claim("r2")),
        ("freeze", lambda: rig.freeze("r1")),
        ("freeze of what was handed over", lambda: rig.freeze("r1", ready.batch_id)),
        ("commit", lambda: rig.commit("r1", ready)),
        ("commit of nothing", lambda: rig.commit("r1", replace(ready, batch_id=None))),
        ("interval", lambda: rig.claim("r3", **interval(rig))),
    ]


@pytest.mark.parametrize("which", range(6))
def test_no_step_of_a_run_goes_on_once_it_is_removed(rig: Rig, which: int) -> None:
    rig.stream.put("a", "b")
    _, step = steps_of_a_run(rig)[which]
    removed(rig, discard=True)
    with pytest.raises(ApplicationRemoved, match="ann removed: bad data"):
        step()
    assert is_gone(rig)
    assert rig.decisions() == {}


def test_a_claim_that_had_read_the_row_before_makes_no_lease_anew(rig: Rig) -> None:
    """It would make all shards' leases at the old start, and all records would be read again."""
    committed(rig)

    class Slow(Interrupted):
        """The application goes just before a claim lists its leases."""

        def list(self, table: Any, *words: Any, **equal: Any) -> Any:
            if table is SHARD_LEASE and self._event is not None:
                event, self._event = self._event, None  # type: ignore[assignment]
                event()
            return self._store.list(table, *words, **equal)

    slow = Slow(rig.store, SHARD_LEASE, lambda: None)
    slow._event = lambda: removed(rig)
    with pytest.raises(ApplicationRemoved):
        rig.claim("r2", store=slow)
    assert is_gone(rig)


def test_a_freeze_whose_leases_go_under_its_hands_fails_and_does_not_end_green(rig: Rig) -> None:
    landed(rig)
    rig.over("r1")
    store = Interrupted(rig.store, SHARD_LEASE, lambda: removed(rig, discard=True))
    with pytest.raises(ApplicationRemoved):
        freeze(rig.consumer(store=store), rig.owner("r1"))
    assert is_gone(rig)


def test_a_batch_that_is_frozen_late_is_never_decided_and_goes_next_time(rig: Rig) -> None:
    landed(rig)
    rig.over("r1")
    store = Interrupted(rig.store, BATCH, lambda: removed(rig, discard=True))
    late = freeze(rig.consumer(store=store), rig.owner("r1"))
    assert late.batch_id is not None
    assert rows(rig) == 1
    with pytest.raises(ApplicationRemoved):
        rig.commit("r1", late)
    removed(rig, discard=True)
    assert is_gone(rig)


def test_a_slice_that_is_read_late_goes_if_a_person_says_that_it_is_ours(rig: Rig) -> None:
    """Whether it was read by runs of another lease store, to which the application was moved, cannot be seen."""
    rig.stream.put("a")
    rig.claim("r1")
    rig.over("r1")
    row = only(rig)
    removed(rig)
    writer = StagingArea(str(rig.folder)).slice(rig.namespace, row.shard_id, row.checkpoint, row.tenure)
    writer.write(rig.stream._batch(rig.stream.shards[row.shard_id].items))
    writer.finish()
    assert (rows(rig), len(slices(rig))) == (0, 1)
    for dry_run in (True, False):
        assert "in another lease store" in next(iter(left(removed(rig, dry_run=dry_run)).values()))
    assert len(slices(rig)) == 1
    assert numbers(removed(rig, discard=True))["slices"] == 1
    assert is_gone(rig)


def test_a_commit_that_decides_late_is_told_in_its_root_before_its_row_goes(rig: Rig) -> None:
    landed(rig)
    ready = rig.freeze("r1")
    rig.work(ready)
    rig.over("r1")

    def decide() -> None:
        row = rig.consumer().batch(ready.batch_id or "")
        assert row is not None
        starts = StagingArea(str(rig.folder)).finished_starts(rig.namespace, row.batch_id)
        roots = starts[0].outputs
        assert rig.store.replace(row, batches.decide(row, tuple(starts), 1, 5, None, roots=roots, number=0))

    removed(rig, discard=True, store=Interrupted(rig.store, BATCH, decide))
    assert is_gone(rig)
    assert list(rig.decisions()) == [ready.batch_id]
    assert rig.sink() == ["100", "101"]


def test_what_waits_for_it_is_told_at_once(rig: Rig) -> None:
    committed(rig)
    committed_up_to(rig.store, rig.namespace)
    removed(rig)
    with pytest.raises(ApplicationRemoved):
        committed_up_to(rig.store, rig.namespace)
    with pytest.raises(ApplicationRemoved):
        clean(rig)
    assert status(rig.store, rig.namespace).watermark.ms is None  # who looks at it, sees that it is removed


def test_a_freed_name_begins_anew(rig: Rig) -> None:
    committed(rig)
    found = removed(rig, free_name=True)
    assert "a first claim begins anew" in found[-1].effect
    assert everything_of(rig) == []
    rig.stream.put("c")
    assert rig.run("r9").records == 3


def test_a_name_is_freed_later_too(rig: Rig) -> None:
    committed(rig)
    removed(rig)
    assert [item.kind for item in removed(rig, free_name=True)] == ["application"]
    assert everything_of(rig) == []


# ------------------------------------------------------------------ deaths


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("state", ["committed", "stamped", "interval", "kept"])
def test_a_removal_that_died_at_any_write_is_finished_by_the_next(tmp_path: Path, state: str, applied: bool) -> None:
    at, alive = 0, False
    while not alive:
        rig = new_rig(tmp_path, at)
        read = prepared(rig, state)
        try:
            removed(rig, discard=True, store=MortalStore(rig.store, at, applied=applied))
            alive = True
        except Killed:
            if state != "interval" or at or applied:
                refused(rig, application(rig).removed is not None)
            removed(rig, discard=True)
        assert is_gone(rig), at
        assert rig.sink() == read
        at += 1
    assert at > 4


def new_rig(folder: Path, at: int) -> Rig:
    (folder / str(at)).mkdir()
    return Rig(folder / str(at) / "staging")


def prepared(rig: Rig, state: str) -> list[str]:
    """An application in some state; what readers see of it once all that it decided is told."""
    if state == "interval":
        rig.stream.put("a")
        side = interval(rig)
        rig.land("r1", rig.claim("r1", **side), **side)
        rig.freeze("r1", **side)
    elif state == "kept":
        told(set_aside, rig, frozen(rig).batch_id, force=True)
    elif state == "committed":
        committed(rig)
        ready = frozen(rig, "r2")
        rig.work(ready)
        with pytest.raises(Killed):  # it decided, and told no root of it
            rig.commit("r2", ready, store=MortalStore(rig.store, 0, applied=True))
    else:
        landed(rig)
        row = only(rig)
        assert rig.store.replace(row, leases.stamp(row, str(rig.owner("r1")), "20260101t000000000-aa", 1))
    for run in ("r1", "r2"):
        rig.over(run)
    return ["100", "101", "102", "103"] if state == "committed" else []


def refused(rig: Rig, closed: bool) -> None:
    """Whoever comes while a removal is half done changes nothing that counts."""
    if closed:
        with pytest.raises(ApplicationRemoved):
            rig.claim("r8")


def test_a_removal_that_died_among_the_files_is_finished_by_the_next(tmp_path: Path) -> None:
    at, alive = 0, False
    while not alive:
        rig = new_rig(tmp_path, at)
        for run in ("r1", "r2"):
            committed(rig, run)
        area = Mortal(str(rig.folder), at)
        try:
            removed(rig, landing=area)
            alive = True
        except Killed:
            removed(rig)
        assert is_gone(rig), at
        assert rig.sink() == ["100", "101", "102", "103"]
        at += 1
    assert at == 5


class Mortal(StagingArea):
    """Its caller dies at one removal of files."""

    def __init__(self, uri: str, at: int) -> None:
        super().__init__(uri)
        found: Any = self.cleaner

        class Dying:
            left = at

            def __getattr__(self, name: str) -> Any:
                if name in ("remove_slice", "remove_batch"):
                    Dying.left -= 1
                    if Dying.left < 0:
                        raise Killed
                return getattr(found, name)

        self.cleaner: Any = Dying()


def test_a_root_that_cannot_be_told_keeps_the_rows_until_it_is_forgotten(rig: Rig) -> None:
    landed(rig)
    ready = rig.freeze("r1")
    rig.work(ready)
    with pytest.raises(Killed):  # it decided, and told no root of it
        rig.commit("r1", ready, store=MortalStore(rig.store, 0, applied=True))
    rig.over("r1")
    (rig.folder.parent / "out" / "_shardbatch").rename(rig.folder.parent / "kept")
    (rig.folder.parent / "out" / "_shardbatch").write_text("in the way")
    found = removed(rig)
    assert "cannot be told" in next(iter(left(found).values()))
    assert rows(rig) == 2
    assert slices(rig)
    (rig.folder.parent / "out" / "_shardbatch").unlink()
    (rig.folder.parent / "kept").rename(rig.folder.parent / "out" / "_shardbatch")
    removed(rig)
    assert is_gone(rig)
    assert rig.sink() == ["100", "101"]


def test_files_that_cannot_be_removed_keep_their_rows(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(rig)
    area = StagingArea(str(rig.folder))
    kind = type(area.cleaner)

    def refuse(*words: Any) -> None:
        raise StagingError("read only")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "remove_batch", refuse)
        found = removed(rig)
    assert [item.result for item in found] == ["removed", "left"]
    assert [batch.state for batch in rig.batches()] == [BatchState.COMMITTED]
    assert application(rig).removed_from == area.uri
    removed(rig)
    assert is_gone(rig)


def test_a_batch_of_an_interval_that_was_taken_back_is_told(rig: Rig) -> None:
    rig.stream.put("a")
    side = interval(rig)
    done = rig.run("r1", **side)
    row = rig.consumer(**side).batch(done.batch_id or "")
    assert row is not None
    assert rig.store.replace(row, batches.retire(row, "gc", 1))
    told(drop, rig, done.batch_id, landing=StagingArea(str(rig.folder)))
    for marker in (rig.folder.parent / "out" / "_shardbatch").glob(f"{done.batch_id}.2.json"):
        marker.unlink()  # as if it had died before it told
    assert rig.decisions()[done.batch_id or ""].starts
    removed(rig)
    assert is_gone(rig)
    assert not rig.decisions()[done.batch_id or ""].starts


# ------------------------------------------------------------------ the consumer of fan-out


class Consumers:
    """What a stream has registered."""

    name = "shardbatch-etl"

    def __init__(self, there: bool = True, error: ShardbatchError | None = None) -> None:
        self.there, self.error = there, error

    def stands(self) -> bool:
        if self.error:
            raise self.error
        return self.there

    def take_away(self) -> bool:
        found, self.there = self.stands(), False
        return found


def test_its_consumer_is_taken_away_once_its_rows_are_gone(rig: Rig) -> None:
    committed(rig)
    consumers = Consumers()
    preview = removed(rig, dry_run=True, registered=consumers)
    assert ("consumer", "would remove") in [(item.kind, item.result) for item in preview]
    assert consumers.there
    found = removed(rig, registered=consumers)
    assert ("consumer", "removed") in [(item.kind, item.result) for item in found]
    assert not consumers.there
    assert [item.kind for item in removed(rig, registered=consumers)] == ["application"]
    consumers.there = True
    assert [item.kind for item in removed(rig, registered=consumers)] == ["consumer"]


def test_a_consumer_that_cannot_be_removed_is_left_and_asked_for_again(rig: Rig) -> None:
    committed(rig)
    found = removed(rig, registered=Consumers(error=SourceError("denied")))
    assert [(item.kind, item.result) for item in found if item.result == "left"] == [("consumer", "left")]
    assert rows(rig) == 0
    removed(rig, registered=Consumers(there=False))
    assert is_gone(rig)
