# SPDX-License-Identifier: Apache-2.0
"""A removal at every step of a run, and a run at every step of a removal: nothing is seen twice or in half, no run ends
green for nothing, and the next removal leaves nothing (PROTOCOL X)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.remove import remove
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.ports import LeaseStore, Verdict
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key, Namespace, Row, Table
from shardbatch.errors import ApplicationRemoved, ConfigurationError, ShardbatchError
from shardbatch.landing.area import StagingArea
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import act


class Between(OneByOne):
    """A store in which something happens before one call of its caller, of whatever kind."""

    def __init__(self, store: LeaseStore, at: int, event: Callable[[], Any]) -> None:
        self._store, self._left, self._event = store, at, event
        self.happened = False

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0 and not self.happened:
            self.happened = True
            self._event()

    def get(self, key: Key) -> Row | None:
        self._step()
        return self._store.get(key)

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        self._step()
        return iter(list(self._store.list(table, namespace, scope, **equal)))

    def create(self, row: Row) -> bool:
        self._step()
        return self._store.create(row)

    def replace(self, seen: Row, new: Row) -> bool:
        self._step()
        return self._store.replace(seen, new)

    def delete(self, seen: Row) -> bool:
        self._step()
        return self._store.delete(seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def application(folder: Path) -> Rig:
    """One that has committed of a shard that was split since: the next run reads three shards."""
    folder.mkdir()
    rig = Rig(folder / "staging", ScriptedStream(shards=1))
    rig.stream.put("a", "b")
    rig.run("r1")
    (parent,) = list(rig.stream.shards)
    rig.stream.put("c", shard_id=parent)
    for child in rig.stream.split(parent):
        rig.stream.put("d", shard_id=child)
    return rig


def removed(rig: Rig, store: LeaseStore | None = None, **chosen: Any) -> Any:
    """Airflow calls every run over: the worst that can be told of one that lives on."""
    return act(
        remove,
        store or rig.store,
        rig.namespace,
        actor="ann",
        reason="not needed",
        dry_run=False,
        liveness=lambda owner: Verdict.OVER,
        landing=StagingArea(str(rig.folder)),
        discard=True,
        **chosen,
    )


def run(rig: Rig, name: str, **changes: Any) -> bool:
    """A whole run; whether it ended as a success."""
    try:
        return rig.run(name, **changes).batch_id is not None
    except (ShardbatchError, FileNotFoundError):  # the work of a batch that was frozen late finds no files
        return False


def require_gone(rig: Rig) -> None:
    """The next removal leaves nothing, whatever came late."""
    removed(rig)
    assert [row for table in (SHARD_LEASE, BATCH) for row in rig.store.list(table, rig.namespace, None)] == []
    assert [path for path in (rig.folder / "etl").rglob("*") if path.is_file()] == []
    row: Any = rig.store.get(Key(APPLICATION, rig.namespace, ()))
    assert row.removed


def every(most: int) -> Any:
    """Each step; every fourth in the usual run of the tests, all in the long one."""
    return [pytest.param(at, marks=() if at % 4 == 0 else pytest.mark.long) for at in range(most)]


#: More calls than a run makes, and than a removal makes.
CALLS = 72


@pytest.mark.parametrize("at", every(CALLS))
def test_it_goes_at_any_step_of_a_run(tmp_path: Path, at: int) -> None:
    rig = application(tmp_path / "world")
    before = rig.sink()
    store = Between(rig.store, at, lambda: removed(rig))
    green = run(rig, "r2", store=store)
    seen = rig.sink()
    assert seen == before if not green else sorted(set(seen)) == seen and len(seen) > len(before)
    assert not rig.batches(BatchState.COMMITTED) or not store.happened
    if not store.happened:
        assert green
        removed(rig)
    require_gone(rig)
    assert rig.sink() == seen


@pytest.mark.parametrize("at", every(CALLS))
def test_a_run_comes_at_any_step_of_it(tmp_path: Path, at: int) -> None:
    rig = application(tmp_path / "world")
    before, ends = rig.sink(), list[bool]()
    closed = list[bool]()

    def come() -> None:
        row: Any = rig.store.get(Key(APPLICATION, rig.namespace, ()))
        closed.append(row.removed is not None)
        ends.append(run(rig, "r2"))

    removed(rig, Between(rig.store, at, come))
    assert ends != closed or not ends  # it is refused once the row says so, and before that it is whole
    assert len(rig.sink()) == len(set(rig.sink())) == len(before) + (3 if ends == [True] else 0)
    require_gone(rig)
    with pytest.raises(ApplicationRemoved):
        rig.claim("r3")


@pytest.mark.parametrize("at", every(CALLS))
def test_two_removals_and_an_interval_run_end_in_the_same(tmp_path: Path, at: int) -> None:
    rig = application(tmp_path / "world")
    before = rig.sink()
    span = Interval(rig.stream.now_ms - 1_000, rig.stream.now_ms + 1_000)
    rig.stream.now_ms += 200_000

    def come() -> None:
        run(rig, "side", scope="backfill", interval=span)
        removed(rig)

    with suppress(ConfigurationError):  # it had listed files whose rows the other one has removed
        removed(rig, Between(rig.store, at, come))
    require_gone(rig)
    assert rig.sink() == before
