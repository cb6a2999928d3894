# SPDX-License-Identifier: Apache-2.0
"""A person's verb between any two writes of a run, and a run between any two writes of a verb: no record is lost, none
is doubled but by a reset, and a child never comes before its parents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.park import park, unpark
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import BatchState
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Row
from shardbatch.errors import ShardbatchError
from tests.integration.control.test_verb_kills import drained
from tests.integration.run.test_kills import resharded
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.verbs import told

#: Writes of one run over the resharded stream, and some more.
RUN_WRITES = 30


class Meanwhile(OneByOne):
    """A store that lets something happen before the n-th write of its caller."""

    def __init__(self, store: Any, at: int, event: Callable[[], Any]) -> None:
        self._store, self._left, self._event = store, at, event
        self.happened = False

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0 and not self.happened:
            self.happened = True
            self._event()

    def create(self, row: Row) -> bool:
        self._step()
        return bool(self._store.create(row))

    def replace(self, seen: Row, new: Row) -> bool:
        self._step()
        return bool(self._store.replace(seen, new))

    def delete(self, seen: Row) -> bool:
        self._step()
        return bool(self._store.delete(seen))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def attempted(rig: Rig, run: str, **changes: Any) -> None:
    """A run that may fail of what happens to it; over when this returns."""
    try:
        rig.run(run, **changes)
    except ShardbatchError:
        rig.over(run)


def on_every_batch(verb: Callable[..., Any]) -> Callable[[Rig], None]:
    def act(rig: Rig) -> None:
        for state in (BatchState.FROZEN, BatchState.PARKED):
            for batch in rig.batches(state):
                told(verb, rig, batch.batch_id)

    return act


def reset_first(rig: Rig) -> None:
    first = next(iter(rig.stream.shards))
    if rig.consumer().lease(first) is not None:
        told(reset, rig, shards=[first], to=TRIM_HORIZON, force=True, landing=rig.consumer().landing)


def reset_all(rig: Rig) -> None:
    told(reset, rig, every=True, to=TRIM_HORIZON, force=True, landing=rig.consumer().landing)


def park_and_unpark(rig: Rig) -> None:
    on_every_batch(park)(rig)
    on_every_batch(unpark)(rig)


VERBS: dict[str, Callable[[Rig], None]] = {
    "park and unpark": park_and_unpark,
    "set aside": on_every_batch(set_aside),
    "drop": on_every_batch(drop),
    "reset one": reset_first,
    "reset all": reset_all,
}


def writes(most: int) -> pytest.MarkDecorator:
    """Before which write it happens: every third in the usual run of the tests, all in the long one."""
    cases = [pytest.param(at, marks=[pytest.mark.long] if at % 3 else []) for at in range(most)]
    return pytest.mark.parametrize("at", cases)


VERB = pytest.mark.parametrize("name", VERBS)


def begun(folder: Path) -> tuple[Rig, list[str]]:
    """A stream of several generations, of which the oldest is committed and more has come."""
    rig, sent = resharded(folder)
    rig.run("r0", options=rig.consumer().options.__class__(max_shards=2, drain_lineage=False))
    return rig, sent + rig.stream.put("x", "y", "z")


def holds(rig: Rig, sent: list[str], *, twice: bool) -> None:
    """Nothing lost, nothing doubled unless by a reset, parents before children, and the sink is what is committed."""
    counts = Counter(rig.committed())
    assert sorted(counts, key=int) == sent
    assert max(counts.values()) <= (2 if twice else 1)
    done = sorted(rig.batches(BatchState.COMMITTED), key=lambda batch: batch.batch_id)
    last = {number: at for at, batch in enumerate(done) for number in rig.records(batch.batch_id)}
    place = {str(i.sequence_number): name for name, shard in rig.stream.shards.items() for i in shard.items}
    for child, at in last.items():
        for parent, before in last.items():
            if place[parent] in rig.stream.shards[place[child]].parents:
                assert before <= at, (parent, child)
    aside = [batch for batch in done if batch.set_aside]
    hidden = Counter(number for batch in aside for number in rig.records(batch.batch_id))
    assert Counter(rig.sink()) == counts - hidden


@VERB
@writes(RUN_WRITES)
def test_a_verb_between_two_writes_of_a_run(tmp_path: Path, name: str, at: int) -> None:
    rig, sent = begun(tmp_path / "staging")
    attempted(rig, "r1", store=Meanwhile(rig.store, at, lambda: VERBS[name](rig)))
    for batch in rig.batches(BatchState.PARKED):
        told(unpark, rig, batch.batch_id)
    drained(rig)
    holds(rig, sent, twice=name.startswith("reset"))


@VERB
@writes(16)
def test_a_run_between_two_writes_of_a_verb(tmp_path: Path, name: str, at: int) -> None:
    rig, sent = begun(tmp_path / "staging")
    found = rig.claim("r1")
    rig.land("r1", found)
    rig.freeze("r1")
    rig.over("r1")
    real = rig.store

    def run() -> None:
        rig.store = real
        attempted(rig, "r2")

    rig.store = Meanwhile(real, at, run)
    VERBS[name](rig)
    rig.store = real
    for batch in rig.batches(BatchState.PARKED):
        told(unpark, rig, batch.batch_id)
    drained(rig)
    holds(rig, sent, twice=name.startswith("reset"))
