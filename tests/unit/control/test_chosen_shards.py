# SPDX-License-Identifier: Apache-2.0
"""Which shards a person is shown, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.status import ShardStatus, choose, shards, status
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.choices import SHARD_STATES
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.stores.memory import MemoryStore
from tests.unit.cli.rows import NAMESPACE, NOW, OTHER, OWNER, filled, fresh, landed


def names(found: Any, **chosen: Any) -> list[str]:
    return [shard.shard_id for shard in choose(found, **chosen)]


@pytest.fixture
def found() -> tuple[ShardStatus, ...]:
    return shards(filled(), NAMESPACE)


def test_all_of_them_come_in_the_order_of_their_ids(found: tuple[ShardStatus, ...]) -> None:
    assert names(found) == ["s-done", "s-free", "s-frozen", "s-held", "s-landed"]


def test_the_furthest_behind_come_first_and_what_is_completed_last(found: tuple[ShardStatus, ...]) -> None:
    assert names(found, sort="behind") == ["s-frozen", "s-landed", "s-free", "s-held", "s-done"]


def test_a_completed_shard_was_read_long_ago_and_comes_last_all_the_same(found: tuple[ShardStatus, ...]) -> None:
    old = [replace(one, millis_behind_latest=10**9) if one.state == "completed" else one for one in found]
    assert names(old, sort="behind")[-1] == "s-done"


def test_by_state_what_waits_for_somebody_comes_first(found: tuple[ShardStatus, ...]) -> None:
    assert names(found, sort="state") == ["s-landed", "s-frozen", "s-held", "s-free", "s-done"]
    assert {shard.state for shard in found} == set(SHARD_STATES)


def test_only_some_states_or_owners(found: tuple[ShardStatus, ...]) -> None:
    assert names(found, states=["held", "completed"]) == ["s-done", "s-held"]
    assert names(found, owner="staging/orders") == ["s-landed"]
    assert names(found, owner=OWNER) == ["s-frozen", "s-held"]
    assert names(found, owner=OTHER, states=["held"]) == []


def test_status_names_the_shard_that_is_furthest_behind() -> None:
    found = status(filled(), NAMESPACE)
    assert (found.furthest_shard_id, found.millis_behind_latest) == ("s-frozen", 70_000)


def test_before_the_first_read_no_shard_is_furthest_behind() -> None:
    store = MemoryStore()
    store.prepare()
    assert store.create(Application(NAMESPACE, "arn", TRIM_HORIZON, 1))
    assert store.create(fresh("s-1"))
    found = status(store, NAMESPACE)
    assert (found.furthest_shard_id, found.millis_behind_latest) == (None, None)


def test_a_shard_that_is_read_to_its_end_is_not_furthest_behind() -> None:
    store = MemoryStore()
    store.prepare()
    assert store.create(Application(NAMESPACE, "arn", TRIM_HORIZON, 1))
    for name, behind in (("s-done", 90_000), ("s-1", 0)):
        lease = leases.land(leases.take(fresh(name), OWNER, "g0", NOW), OWNER, landed(name, 4, behind), NOW)
        if name == "s-done":
            lease = leases.roll_forward(leases.stamp(lease, OWNER, "b1", NOW), "b1", NOW)
        assert store.create(lease)
    found = status(store, Namespace("orders-etl", "orders"))
    assert (found.furthest_shard_id, found.millis_behind_latest) == ("s-1", 0)
