# SPDX-License-Identifier: Apache-2.0
"""The lease store suite's fixtures: a backend, two stores over it, and the row of KV-3."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from shardbatch.core.lease import Lease
from shardbatch.core.rows import Namespace
from tests.contract.stores import backends
from tests.contract.stores.rows import fresh

#: Whatever of the two is installed, if any; its races take minutes.
MYSQL = pytest.param("mysql", marks=pytest.mark.long)


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgresql", MYSQL, "dynalite", "ministack"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Where the rows stand. Shared by all tests of this module: each has a namespace of its own."""
    made = backends.made(request, tmp_path_factory.mktemp("leases"))
    opened = made.open()
    opened.prepare()
    opened.close()
    return made


@pytest.fixture
def store(backend: Any) -> Iterator[Any]:
    opened = backend.open(page_size=3)
    yield opened
    opened.close()


@pytest.fixture
def other(backend: Any) -> Iterator[Any]:
    opened = backend.open(page_size=3)
    yield opened
    opened.close()


@pytest.fixture
def namespace() -> Namespace:
    return Namespace(f"app-{uuid.uuid4().hex[:12]}", "orders")


@pytest.fixture
def row(store: Any, namespace: Namespace) -> Lease:
    """The row of KV-3: owner w1, count 1."""
    made = dataclasses.replace(fresh(namespace, "shardId-000"), lease_owner="w1")
    assert store.create(made)
    return made
