# SPDX-License-Identifier: Apache-2.0
"""Requests and answers that are lost or late: the caller learns what became of the write."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardbatch.core import lease
from shardbatch.core.lease import Lease
from shardbatch.core.rows import Namespace
from shardbatch.errors import StoreError
from tests.contract.stores.rows import fresh, losing


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["create", "replace", "delete"])
def test_a_lost_request_or_answer_is_made_good(
    backend: Any, store: Any, other: Any, row: Lease, verb: str, moment: str, times: int
) -> None:
    # R44, K-26
    new = fresh(row.namespace, "s-2") if verb == "create" else lease.renew(row, "w1", 8)
    act = {
        "create": lambda: store.create(new),
        "replace": lambda: store.replace(row, new),
        "delete": lambda: store.delete(row),
    }[verb]
    sent = store.writes
    with backend.tap(store, losing(moment, times)):
        assert act()
    assert store.writes > sent
    assert other.get(new.key) == (None if verb == "delete" else new)
    assert not act()


def test_a_write_lost_before_another_one_came_has_lost_the_race(
    backend: Any, store: Any, other: Any, row: Lease
) -> None:
    theirs = lease.take(row, "w2", None, 9)

    def hook(moment: str) -> None:
        if moment == "before" and other.get(row.key) == row:
            assert other.replace(row, theirs)
            raise TimeoutError("lost by the test")

    with backend.tap(store, hook):
        assert not store.replace(row, lease.renew(row, "w1", 8))
    assert store.get(row.key) == theirs


def test_a_create_lost_before_another_one_came_has_lost_the_race(
    backend: Any, store: Any, other: Any, namespace: Namespace
) -> None:
    mine = dataclasses.replace(fresh(namespace, "s-9"), lease_owner="w1")
    theirs = dataclasses.replace(mine, lease_owner="w2")

    def hook(moment: str) -> None:
        if moment == "before" and other.create(theirs):
            raise TimeoutError("lost by the test")

    with backend.tap(store, hook):
        assert not store.create(mine)
    assert store.get(mine.key) == theirs


@pytest.mark.parametrize("verb", ["replace", "delete"])
def test_a_delayed_write_loses_against_what_came_before_it(
    backend: Any, store: Any, other: Any, row: Lease, verb: str
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def hold(moment: str) -> None:
        if moment == "before":
            arrived.set()
            assert go_on.wait(60)

    theirs = lease.take(row, "w2", None, 9)
    with backend.tap(store, hold), ThreadPoolExecutor(1) as pool:
        late = pool.submit(store.replace, row, lease.renew(row, "w1", 8)) if verb == "replace" else pool.submit(
            store.delete, row
        )  # fmt: skip
        assert arrived.wait(60)
        assert other.replace(row, theirs)
        go_on.set()
        assert late.result(60) is False
    assert other.get(row.key) == theirs


def test_an_outcome_that_cannot_be_learned_is_said(backend: Any, store: Any, row: Lease) -> None:
    def hook(now: str) -> None:
        if now == "before":
            raise TimeoutError("never arrives")

    sent = store.writes
    with backend.tap(store, hook), pytest.raises(StoreError, match=r"outcome of the replace .* is unknown"):
        store.replace(row, lease.renew(row, "w1", 8))
    assert 2 <= store.writes - sent <= 10
    assert store.get(row.key) == row
