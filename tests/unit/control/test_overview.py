# SPDX-License-Identifier: Apache-2.0
"""An application in a few numbers, without a look at its history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.overview import last_commit, look, overview
from shardbatch.control.status import status
from shardbatch.core.batch import BatchState
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.errors import ApplicationUnknown
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import FakeTime
from tests.unit.cli.rows import NAMESPACE, NOW, OTHER, OWNER, filled, frozen_batch, of_interval

CLOCK = FakeTime(NOW).clock()


def test_the_numbers_are_those_of_the_status() -> None:
    store = filled()
    store.create(frozen_batch("b3", OTHER, BatchState.PARKED))
    found, whole = overview(look(store, NAMESPACE), CLOCK), status(store, NAMESPACE, CLOCK)
    assert (found.behind_ms, found.expires_from_ms) == (whole.millis_behind_latest, whole.expires_from_ms)
    assert (found.open_shards, found.held_shards) == (whole.open_shards, whole.held_shards)
    assert (found.unfinished, found.parked, found.last_commit_ms) == (2, 1, whole.last_commit_ms)
    assert found.waiting == (("b2", OWNER),)
    assert found.owners == tuple(one.owner for one in whole.owners)
    assert (found.watermark_ms, found.complete_from_ms) == (whole.watermark.ms, whole.watermark.complete_from_ms)


def test_the_batches_of_interval_runs_count_too_where_a_person_has_to_know() -> None:
    store = filled()
    store.create(of_interval("i1", "file:///out", state=BatchState.FROZEN))
    store.create(replace(of_interval("i2", "file:///out"), set_aside="kept", starts=()))
    found = overview(look(store, NAMESPACE), CLOCK)
    assert (found.unfinished, found.set_aside) == (2, 1)


def test_no_history_is_read() -> None:
    class Watched(MemoryStore):
        """Sees what is read of batches."""

        def list(self, table: Any, namespace: Namespace, scope: str | None = "", **equal: str) -> Any:
            assert table is not BATCH or equal, "all batches were read"
            return super().list(table, namespace, scope, **equal)

    overview(look(Watched(filled().memory), NAMESPACE), CLOCK)


def test_the_last_commit_is_that_of_the_live_application() -> None:
    store = filled()
    store.create(of_interval("z9", "file:///out"))
    assert last_commit(store, NAMESPACE) == NOW - 300_000
    assert last_commit(store, Namespace("orders-etl", "other")) is None


def test_an_application_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ApplicationUnknown):
        look(filled(), Namespace("orders-etl", "other"))
