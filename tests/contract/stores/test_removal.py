# SPDX-License-Identifier: Apache-2.0
"""An application is removed from every store, whole pages of rows of all scopes, wherever the removal dies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.remove import remove
from shardbatch.core.application import Application
from shardbatch.core.interval import Interval
from shardbatch.core.rows import APPLICATION, BATCH, INTERVAL, SHARD_LEASE, TABLES, Key, Namespace
from shardbatch.errors import ApplicationRemoved
from shardbatch.landing.area import StagingArea
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import act


def rig_of(store: Any, namespace: Namespace, folder: Path) -> Rig:
    """An application with more rows than a page of the suite's stores: of a live run, and of an interval."""
    rig = Rig(folder / "staging", ScriptedStream(shards=5), store, app=namespace.app_name)
    for shard_id in list(rig.stream.shards):
        rig.stream.put("a", shard_id=shard_id)
    span = Interval(rig.stream.now_ms - 1_000, rig.stream.now_ms + 1_000)
    rig.run("r1")
    rig.stream.now_ms += 200_000
    side = {"scope": "backfill", "interval": span}
    rig.land("r2", rig.claim("r2", **side), **side)
    rig.freeze("r2", **side)
    rig.over("r2")
    return rig


def removed(rig: Rig, store: Any, **chosen: Any) -> Sequence[Any]:
    return act(
        remove,
        store,
        rig.namespace,
        actor="ann",
        reason="not needed",
        dry_run=False,
        liveness=rig.verdict,
        landing=StagingArea(str(rig.folder)),
        **chosen,
    )


def left(store: Any, namespace: Namespace) -> int:
    return sum(1 for table in (SHARD_LEASE, BATCH) for _ in store.list(table, namespace, None))


@pytest.mark.parametrize("at", [0, 2, 7, 11, 13])
def test_all_rows_of_an_application_go_and_no_other_ones(
    store: Any, namespace: Namespace, tmp_path: Path, at: int
) -> None:
    rig = rig_of(store, namespace, tmp_path)
    other = Namespace(f"{namespace.app_name}-2", namespace.stream_name)
    (tmp_path / "other").mkdir()
    beside = rig_of(store, other, tmp_path / "other")
    kept = [row.columns() for table in TABLES for row in store.list(table, other, None)]
    numbers = list(store.list(INTERVAL, namespace))
    assert left(store, namespace) == 12
    with pytest.raises(Killed):
        removed(rig, MortalStore(store, at, applied=bool(at % 2)), discard=True)
    removed(rig, store, discard=True)
    assert left(store, namespace) == 0
    assert list(store.list(INTERVAL, namespace)) == numbers
    row = store.get(Key(APPLICATION, namespace, ()))
    assert isinstance(row, Application)
    assert row.removed
    with pytest.raises(ApplicationRemoved):
        rig.claim("r3")
    assert [row.columns() for table in TABLES for row in store.list(table, other, None)] == kept
    assert len(list(beside.folder.rglob("part-*"))) == 10
    removed(rig, store, free_name=True)
    assert store.get(Key(APPLICATION, namespace, ())) is None
