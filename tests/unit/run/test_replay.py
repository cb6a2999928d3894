# SPDX-License-Identifier: Apache-2.0
"""Replays by a run that was told the batch (PROTOCOL B10), and what becomes of the runs that had it before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.looks import LookAgain, Looks
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import BATCH, Key, Namespace
from shardbatch.errors import (
    ConfigurationError,
    LeaseLost,
    NothingFinished,
    ReplayRefused,
    ShardbatchError,
    SlicesGone,
    StagingError,
)
from shardbatch.run import Claim, Frozen, Outcome
from shardbatch.stores.memory import MemoryStore
from shardbatch.tasks.steps import Steps
from tests.support.markers import highest_markers
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Deaf(ScriptedStream):
    """A stream that must not be asked."""

    def identity(self) -> str:
        raise AssertionError("the stream was asked")

    list_shards = resolve = read = identity  # type: ignore[assignment]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def committed(rig: Rig, run: str = "r1") -> str:
    """A batch that a run committed, with records left in the stream behind it; its id."""
    rig.stream.put("a", "b")
    batch_id = rig.run(run).batch_id
    assert batch_id is not None
    rig.stream.put("c")
    return batch_id


def row(rig: Rig, batch_id: str) -> Batch:
    found = rig.store.get(Key(BATCH, Namespace("etl", rig.stream.name), ("", batch_id)))
    assert isinstance(found, Batch)
    return found


def replay(rig: Rig, run: str, batch_id: str, name: str = "transform") -> Any:
    """A whole run that was told the batch; what its commit answers."""
    found = rig.claim(run, replay=batch_id)
    assert found == Claim(Outcome.REPLAY, batch_id=batch_id)
    frozen = rig.freeze(run, batch_id, replay=batch_id)
    rig.work(frozen, name)
    answer = rig.commit(run, frozen, replay=batch_id)
    rig.over(run)
    return answer


def freeze_behind(rig: Rig, run: str, claim: str, **changes: Any) -> Frozen:
    """What a freeze task does that runs behind this claim of its run."""
    return Steps(rig.consumer(**changes), rig.owner(run)).freeze(changes.get("replay"), claim)


def shown(rig: Rig) -> dict[str, int]:
    """What a reader of the output root goes by: for every batch the highest decision."""
    names = [path.name for path in (rig.folder.parent / "out" / "_shardbatch").iterdir()]
    return {batch_id: decided for batch_id, (decided, _) in highest_markers(names).items()}


def test_a_run_replays_the_batch_of_another_and_moves_nothing(rig: Rig) -> None:
    batch_id = committed(rig)
    before = rig.consumer().leases()
    rig.stream = Deaf(name=rig.stream.name)
    answer = replay(rig, "again", batch_id)
    assert (answer.newly, answer.replayed, answer.decided) == (False, True, 2)
    assert rig.consumer().leases() == before
    assert rig.sink() == rig.committed()
    assert row(rig, batch_id).owner == str(rig.owner("again"))
    assert shown(rig) == {batch_id: 2}


def test_a_replay_takes_no_new_records_and_no_lease_however_much_waits(rig: Rig) -> None:
    batch_id = committed(rig)
    replay(rig, "again", batch_id)
    assert [lease.lease_owner for lease in rig.consumer().leases()] == [None]
    assert rig.run("next").records == 1


def test_a_batch_that_was_set_aside_gets_its_output(rig: Rig) -> None:
    wanted = rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    first = rig.freeze("r1")
    current = row(rig, first.batch_id or "")
    assert rig.store.replace(current, batches.set_aside(current, "poison", 1))
    rig.over("r1")
    rig.run("next")  # rolls the leases on
    assert rig.sink() == []
    answer = replay(rig, "again", first.batch_id or "")
    assert (answer.replayed, answer.decided) == (True, 2)
    assert rig.sink() == sorted(wanted, key=int)


def test_a_replay_whose_work_did_not_finish_records_nothing(rig: Rig) -> None:
    wanted = rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    first = rig.freeze("r1")
    current = row(rig, first.batch_id or "")
    rig.store.replace(current, batches.set_aside(current, "poison", 1))
    rig.over("r1")
    frozen = rig.freeze("again", replay=first.batch_id)
    with pytest.raises(NothingFinished):
        rig.commit("again", frozen)
    rig.work(frozen)
    rig.commit("again", frozen)
    assert rig.sink() == wanted


def test_the_batch_of_a_run_that_is_at_work_is_refused_with_its_name(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.verdicts[str(rig.owner("r1"))] = Verdict.ACTIVE  # cleared
    before = row(rig, batch_id)
    for step in (lambda: rig.claim("again", replay=batch_id), lambda: rig.freeze("again", replay=batch_id)):
        with pytest.raises(ReplayRefused, match=r"here/dag/r1/orders/incremental, which is not over.*clear that run"):
            step()
    assert row(rig, batch_id) == before


def test_an_owner_of_another_deployment_must_show_no_life(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    began = rig.time.ms
    # The first run's group said 5 minutes, this one says 1: the longer counts.
    frozen = rig.freeze("again", replay=batch_id, options=ClaimOptions(lease_duration=timedelta(minutes=1)))
    assert (frozen.attempt, frozen.replay) == (2, True)
    assert rig.time.ms - began >= 300_000
    assert any("nothing of here/dag/r1" in line for line in rig.said)


@pytest.mark.parametrize("alive", [False, True])
def test_a_freeze_that_can_come_back_looks_twice_instead_of_watching(rig: Rig, alive: bool) -> None:
    batch_id = committed(rig)
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    steps, before, began = Steps(rig.consumer(replay=batch_id), rig.owner("again")), row(rig, batch_id), rig.time.ms
    with pytest.raises(LookAgain) as caught:
        steps.freeze(batch_id, "its claim", looks=Looks())
    assert (caught.value.seconds, row(rig, batch_id)) == (300, before)
    if alive:
        assert rig.store.replace(before, batches.heartbeat(before, 1, None))
        with pytest.raises(ReplayRefused, match="not over"):
            steps.freeze(batch_id, "its claim", looks=caught.value.looks)
    else:
        assert steps.freeze(batch_id, "its claim", looks=caught.value.looks).attempt == 2
    assert rig.time.ms - began < 1000


def test_an_owner_of_another_deployment_that_shows_life_keeps_its_batch(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    sleep = rig.time.sleep

    def living(seconds: float) -> None:
        sleep(seconds)
        current = row(rig, batch_id)
        rig.store.replace(current, batches.heartbeat(current, rig.time.ms, None))

    rig.time.sleep = living  # type: ignore[method-assign]
    with pytest.raises(ReplayRefused, match="not over"):
        rig.freeze("again", replay=batch_id)
    assert row(rig, batch_id).owner == str(rig.owner("r1"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda batch: batches.heartbeat(batch, 1, None), "FROZEN and not committed.*The next run finishes it"),
        (lambda batch: batches.park(batch, "bad"), "PARKED.*unpark --batch"),
        (lambda batch: batches.discard(batch, "no"), "VOID.*given up"),
    ],
    ids=["frozen", "parked", "void"],
)
def test_a_batch_that_is_not_committed_is_refused_with_its_state_and_the_way_out(
    rig: Rig, change: Any, text: str
) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    batch_id = rig.freeze("r1").batch_id or ""
    rig.over("r1")
    current = row(rig, batch_id)
    rig.store.replace(current, change(current))
    before = row(rig, batch_id)
    for step in (lambda: rig.claim("again", replay=batch_id), lambda: rig.freeze("again", replay=batch_id)):
        with pytest.raises(ReplayRefused, match=text):
            step()
    assert row(rig, batch_id) == before


def test_a_batch_that_is_not_there_is_named(rig: Rig) -> None:
    committed(rig)
    with pytest.raises(ConfigurationError, match="no batch 'b0' in etl/"):
        rig.claim("again", replay="b0")


def manifest(rig: Rig) -> Path:
    return next(rig.folder.rglob("manifest.json"))


def one_file(rig: Rig) -> Path:
    return next(rig.folder.rglob("part-*.parquet"))


@pytest.mark.parametrize("which", [manifest, one_file])
@pytest.mark.parametrize("own", [True, False], ids=["cleared", "told"])
def test_files_that_are_gone_from_staging_are_named_and_nothing_is_opened(rig: Rig, which: Any, own: bool) -> None:
    batch_id = committed(rig)
    path = which(rig)
    path.unlink()
    before = row(rig, batch_id)
    told = {} if own else {"replay": batch_id}
    with pytest.raises(SlicesGone, match=rf"1 of its files.*{path.name}.*backup"):
        rig.freeze("r1" if own else "again", batch_id, **told)
    assert row(rig, batch_id) == before


def test_a_staging_folder_that_is_away_is_not_taken_for_removed_files(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.folder.rename(rig.folder.parent / "away")
    with pytest.raises(StagingError, match="does not exist") as caught:
        rig.freeze("again", replay=batch_id, landing=_unmade(rig))
    assert not isinstance(caught.value, SlicesGone)
    assert not caught.value.retryable


def _unmade(rig: Rig) -> Any:
    from shardbatch.landing.area import StagingArea

    return StagingArea(str(rig.folder), root=str(rig.folder.parent / "gone"))


def test_of_two_replays_at_once_one_has_the_batch(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.claim("one", replay=batch_id)
    rig.claim("two", replay=batch_id)
    first = rig.freeze("one", replay=batch_id)
    with pytest.raises(ReplayRefused, match="here/dag/one"):
        rig.freeze("two", replay=batch_id)
    rig.work(first)
    assert rig.commit("one", first).replayed


def test_of_two_freezes_that_read_the_row_at_once_one_wins(rig: Rig) -> None:
    batch_id = committed(rig)
    assert isinstance(rig.store, MemoryStore)
    rival = Rig(rig.folder, stream=rig.stream, store=MemoryStore(rig.store.memory), time=rig.time)
    rival.verdicts = rig.verdicts

    def overtake(when: str, write: Any) -> None:
        if when == "before":
            rig.store.fault = None  # type: ignore[attr-defined]
            rival.freeze("two", replay=batch_id)

    rig.store.fault = overtake
    with pytest.raises(ReplayRefused, match="here/dag/two"):
        rig.freeze("one", replay=batch_id)
    assert (row(rig, batch_id).owner, row(rig, batch_id).attempt) == (str(rig.owner("two")), 2)


@pytest.mark.parametrize("applied", [False, True])
def test_a_freeze_that_dies_at_its_write_is_tried_again(rig: Rig, applied: bool) -> None:
    batch_id = committed(rig)
    with pytest.raises(Killed):
        rig.freeze("again", replay=batch_id, store=MortalStore(rig.store, 0, applied=applied))
    assert rig.claim("again", replay=batch_id).batch_id == batch_id  # a retried claim finds it as well
    frozen = rig.freeze("again", replay=batch_id)
    assert frozen.attempt == (3 if applied else 2)
    rig.work(frozen)
    assert rig.commit("again", frozen).decided == frozen.attempt
    assert rig.sink() == rig.committed()


def test_a_run_that_lost_its_batch_to_a_replay_is_refused_when_it_is_cleared(rig: Rig) -> None:
    rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    first = freeze_behind(rig, "r1", "claim of r1")
    batch_id = first.batch_id or ""
    rig.work(first)
    rig.commit("r1", first)
    rig.over("r1")
    rig.stream.put("c")
    replay(rig, "again", batch_id)
    before = row(rig, batch_id)
    # Its work was cleared: freeze runs again after the claim that it had.
    with pytest.raises(LeaseLost, match="here/dag/again"):
        freeze_behind(rig, "r1", "claim of r1")
    assert freeze_behind(rig, "r1", "another claim").batch_id is None
    # A late try of its commit decides nothing, and one of an attempt that it never had is refused.
    late = rig.commit("r1", Frozen(batch_id=batch_id, attempt=1))
    assert (late.newly, late.replayed) == (False, False)
    with pytest.raises(LeaseLost):
        rig.commit("r1", Frozen(batch_id=batch_id, attempt=3))
    assert row(rig, batch_id) == before
    # Cleared as a whole it claims like a new run.
    assert rig.claim("r1").outcome is Outcome.LEASES


def test_of_two_replays_the_older_cleared_later_takes_nothing_back(rig: Rig) -> None:
    batch_id = committed(rig)
    freeze_behind(rig, "one", "earlier claim of one", replay=batch_id)
    rig.work(freeze_behind(rig, "one", "claim of one", replay=batch_id))
    rig.over("one")
    replay(rig, "two", batch_id)
    before = row(rig, batch_id)
    assert (before.owner, before.decided) == (str(rig.owner("two")), 4)
    with pytest.raises(LeaseLost, match="here/dag/two"):  # its work was cleared
        freeze_behind(rig, "one", "claim of one", replay=batch_id)
    assert row(rig, batch_id) == before
    assert replay(rig, "one", batch_id).decided == 5  # the whole run was cleared: it is told to replay once more
    assert shown(rig) == {batch_id: 5}


def test_a_replay_that_is_cleared_replays_again(rig: Rig) -> None:
    batch_id = committed(rig)
    replay(rig, "again", batch_id)
    frozen = freeze_behind(rig, "again", "its claim", replay=batch_id)
    assert frozen.attempt == 3
    rig.work(frozen)
    assert rig.commit("again", frozen).decided == 3


def test_a_commit_that_lives_on_does_not_put_the_older_output_back(rig: Rig) -> None:  # V21
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.over("r1")
    replay(rig, "again", frozen.batch_id or "")
    assert not rig.commit("r1", frozen).replayed
    assert [start.start_id for start in row(rig, frozen.batch_id or "").starts] == ["s2"]


def test_readers_keep_the_older_whole_output_until_a_replay_is_recorded(rig: Rig) -> None:
    batch_id = committed(rig)
    frozen = rig.freeze("again", replay=batch_id)
    rig.work(frozen)
    assert shown(rig) == {batch_id: 1}
    # Death between the decision and its marker: the older stays, until the run is tried again.
    with pytest.raises(Killed):
        rig.commit("again", frozen, store=MortalStore(rig.store, 0, applied=True))
    assert (row(rig, batch_id).decided, shown(rig)) == (2, {batch_id: 1})
    rig.commit("again", frozen)
    assert shown(rig) == {batch_id: 2}


def test_leases_that_the_committing_run_left_behind_move_on_with_the_replay(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    with pytest.raises(Killed):
        rig.commit("r1", frozen, store=MortalStore(rig.store, 0, applied=True))
    rig.over("r1")
    replay(rig, "again", frozen.batch_id or "")
    assert [(lease.batch_id, lease.pending) for lease in rig.consumer().leases()] == [(None, None)]
    assert row(rig, frozen.batch_id or "").state is BatchState.COMMITTED


def test_a_claim_of_a_replay_looks_for_the_files_before_anything_is_taken(rig: Rig) -> None:
    batch_id = committed(rig)
    one_file(rig).unlink()
    with pytest.raises(SlicesGone):
        rig.claim("again", replay=batch_id)


@pytest.mark.parametrize("error", [ReplayRefused, SlicesGone])
def test_trying_the_task_again_does_not_help(error: type[ShardbatchError]) -> None:
    assert not error.retryable
