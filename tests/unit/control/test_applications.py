# SPDX-License-Identifier: Apache-2.0
"""The applications of a store, and which of them a mistyped name means."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.control.applications import applications, meant, nearest
from shardbatch.core.application import Application
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.errors import StoreError
from shardbatch.stores.memory import MemoryStore
from tests.unit.cli.rows import NAMESPACE

NAMES = (("orders-etl", "orders"), ("orders-etl", "orders-eu"), ("returns", "orders"), ("flights-by-day", "flights"))


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    made.prepare()
    for names in reversed(NAMES):
        assert made.create(Application(Namespace(*names), "arn", TRIM_HORIZON, 1))
    return made


def test_they_come_in_the_order_of_their_names(store: MemoryStore) -> None:
    assert [(one.app_name, one.stream_name) for one in applications(store)] == sorted(NAMES)


def test_one_of_another_version_hides_no_other(store: MemoryStore) -> None:
    later = Application(Namespace("later", "orders"), "arn", TRIM_HORIZON, 1, schema_version=99)
    assert store.create(later)
    found = {one.app_name: one for one in applications(store)}
    assert (found["later"].schema_version, found["later"].stream_id) == (99, None)
    assert (found["returns"].schema_version, found["returns"].stream_id) == (2, "arn")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (("orders-elt", "orders"), [("orders-etl", "orders"), ("orders-etl", "orders-eu")]),
        (("Orders-ETL", "order"), [("orders-etl", "orders"), ("orders-etl", "orders-eu")]),
        (("flights-by-day", "flight"), [("flights-by-day", "flights")]),
        (("orders-etl", "clicks"), []),
        (("x", "y"), []),
    ],
)
def test_the_nearest_comes_first_and_what_is_like_nothing_has_none(
    asked: tuple[str, str], found: list[tuple[str, str]]
) -> None:
    near = nearest(Namespace(*asked), [Namespace(*names) for names in NAMES])
    assert [(one.app_name, one.stream_name) for one in near] == found


def test_a_slip_of_the_pen_is_told_what_was_meant(store: MemoryStore) -> None:
    told = meant(store, Namespace("flight-by-day", "flights"))
    assert told == "Did you mean -a 'flights-by-day' -s 'flights'? 'airflow shardbatch list' shows all 4."


def test_a_name_that_is_like_none_is_told_how_many_there_are(store: MemoryStore) -> None:
    assert meant(store, Namespace("x", "y")) == "'airflow shardbatch list' shows what the store has: 4 in all."


def test_an_empty_store_says_so() -> None:
    store = MemoryStore()
    store.prepare()
    assert "no application at all" in (meant(store, NAMESPACE) or "")


def test_a_role_that_may_not_see_all_of_the_store_keeps_its_own_error() -> None:
    class Fenced(MemoryStore):
        def applications(self) -> Any:
            raise StoreError("AWS does not allow dynamodb:Scan")

    assert meant(Fenced(), NAMESPACE) is None
