# SPDX-License-Identifier: Apache-2.0
"""A person's verb that dies at any of its writes: the next run, or the same verb again, leaves every record once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import BatchState
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
from shardbatch.run import Frozen
from tests.integration.run.test_kills import resharded
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import application, told

AGAIN = pytest.mark.parametrize("again", [False, True], ids=["next run", "verb again"])


def each_write(most: int) -> pytest.MarkDecorator:
    """After which write it dies: every other in the usual run of the tests, all in the long one."""
    cases = [pytest.param(at, marks=pytest.mark.long if at % 2 else ()) for at in range(most)]
    return pytest.mark.parametrize("at", cases)


def killed(verb: Callable[..., Any], rig: Rig, at: int, *words: Any, **chosen: Any) -> bool:
    """Whether the verb died after its ``at``-th write, which is before the next; with any later number it ends."""
    try:
        told(verb, rig, *words, store=MortalStore(rig.store, at, applied=True), **chosen)
    except Killed:
        return True
    return False


def frozen(rig: Rig) -> Frozen:
    """A batch of several shards, a parent and its child among them, whose run is over."""
    found = rig.claim("r0")
    rig.land("r0", found)
    made = rig.freeze("r0")
    rig.over("r0")
    assert made.batch_id is not None
    return made


def drained(rig: Rig, runs: int = 6) -> None:
    for number in range(runs):
        rig.run(f"{rig.time.ms}-{number}")
    for row in rig.consumer().leases():
        assert (row.lease_owner, row.pending, row.batch_id) == (None, None, None)
        assert row.completed == (row.checkpoint == SHARD_END)
    assert not rig.batches(BatchState.FROZEN)


@AGAIN
@each_write(8)  # the note, the decision, four leases
def test_a_batch_is_set_aside_as_a_whole_or_not(tmp_path: Path, at: int, again: bool) -> None:
    rig, sent = resharded(tmp_path / "staging")
    made = frozen(rig)
    held = rig.records(str(made.batch_id))
    killed(set_aside, rig, at, made.batch_id)
    if again:
        assert told(set_aside, rig, made.batch_id)[0].result in ("set aside", "already")
    later = rig.stream.put("x", "y", "z")
    drained(rig)
    assert sorted(rig.committed(), key=int) == sent + later
    (row,) = [row for row in rig.batches() if row.batch_id == made.batch_id]
    whole = row.set_aside == "kept"
    assert whole or not again
    assert rig.sink() == (sorted(set(sent + later) - set(held), key=int) if whole else sent + later)


@AGAIN
@each_write(8)
def test_a_dropped_batch_never_commits_and_its_records_do_once(tmp_path: Path, at: int, again: bool) -> None:
    rig, sent = resharded(tmp_path / "staging")
    made = frozen(rig)
    rig.work(made)
    killed(drop, rig, at, made.batch_id)
    if again:
        assert told(drop, rig, made.batch_id)[0].result in ("dropped", "already")
        assert all(row.batch_id is None for row in rig.consumer().leases())
    drained(rig)
    assert sorted(rig.committed(), key=int) == sent
    assert rig.sink() == sent


#: As many writes as the reset below makes, and some more: a note, a batch, leases taken, rewritten, freed.
RESET_WRITES = 28


@pytest.mark.parametrize("undecided", [False, True], ids=["committed", "frozen"])
@each_write(RESET_WRITES)
def test_a_reset_that_died_is_finished_by_another(tmp_path: Path, at: int, undecided: bool) -> None:
    rig, sent = resharded(tmp_path / "staging")
    rig.run("r0")
    rig.run("r1")
    assert sorted(rig.committed(), key=int) == sent
    later = rig.stream.put("x", "y", "z")
    if undecided:
        frozen_later(rig)
    first, _ = list(rig.stream.shards)[:2]
    chosen: dict[str, Any] = {"shards": [first], "to": TRIM_HORIZON, "force": True}
    died = killed(reset, rig, at, **chosen)
    half = [row for row in rig.consumer().leases() if ResetHolder.parse(row.lease_owner)]
    before = {row.shard_id: row.lease_count for row in half}
    rig.run("between")  # must not begin a half of it
    assert {row.shard_id: row.lease_count for row in rig.consumer().leases() if row.shard_id in before} == before
    rewound = [row for row in rig.consumer().leases() if "reset to" in (row.note or "")]
    if died and (half or not rewound):
        results = {item.result for item in told(reset, rig, **chosen)}
        assert results <= {"reset", "dropped", "finished"}, results
    drained(rig)
    assert not [row for row in rig.consumer().leases() if ResetHolder.parse(row.lease_owner)]
    counts = Counter(rig.committed())
    assert sorted(counts, key=int) == sent + later  # nothing is lost
    lineage = records_of(rig, first)
    for number, count in counts.items():
        twice = number in lineage and number in sent
        assert count == 2 if twice else count == 1 or (count == 2 and number in lineage)


def frozen_later(rig: Rig) -> None:
    found = rig.claim("r2")
    rig.land("r2", found)
    assert rig.freeze("r2").batch_id is not None
    rig.over("r2")


def records_of(rig: Rig, shard_id: str) -> set[str]:
    """The records of a shard and its descendants."""
    found: set[str] = set()
    todo = {shard_id}
    while todo:
        found |= todo
        todo = {name for name, shard in rig.stream.shards.items() if set(shard.parents) & todo} - found
    return {str(item.sequence_number) for name in found for item in rig.stream.shards[name].items}


@each_write(16)
def test_a_restart_on_a_new_stream_that_died_is_done_by_calling_it_again(tmp_path: Path, at: int) -> None:
    rig, sent = resharded(tmp_path / "staging")
    rig.run("r0")
    rig.run("r1")
    rig.stream = ScriptedStream(shards=2)
    rig.stream.created_ms = 7
    rig.stream._next_sequence = 5000
    fresh = rig.stream.put(*"abcdef")
    chosen: dict[str, Any] = {"every": True, "stream_id": rig.stream.identity()}
    died = killed(reset, rig, at, **chosen)
    if died:
        results = {item.result for item in told(reset, rig, **chosen)}
        assert results <= {"reset", "deleted", "already"}
    assert application(rig).stream_id == rig.stream.identity()
    drained(rig)
    assert sorted(rig.committed(), key=int) == sent + fresh


def test_the_cases_reach_from_the_first_write_to_the_last(tmp_path: Path) -> None:
    for name, verb, most in (("aside", set_aside, 8), ("drop", drop, 8)):
        rig, _ = resharded(tmp_path / name)
        made = frozen(rig)
        assert killed(verb, rig, 0, made.batch_id)
        assert not killed(verb, rig, most, made.batch_id)
    rig, _ = resharded(tmp_path / "reset")
    rig.run("r0")
    rig.stream.put("x", "y", "z")
    frozen_later(rig)
    chosen: dict[str, Any] = {"shards": [next(iter(rig.stream.shards))], "to": TRIM_HORIZON, "force": True}
    assert killed(reset, rig, 8, **chosen)
    assert not killed(reset, rig, RESET_WRITES, **chosen)
