# SPDX-License-Identifier: Apache-2.0
"""The three lease stores that schedules are played over, each with a namespace of its own for every schedule."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.stores.dynamodb import DynamoDBStore
from shardbatch.stores.memory import MemoryStore
from shardbatch.stores.sql import SQLStore
from tests.support.dynamodb import dynalite

_numbers = itertools.count(1)


def namespace() -> Namespace:
    return Namespace(f"etl{next(_numbers)}", "orders")


@contextlib.contextmanager
def memory() -> Iterator[LeaseStore]:
    yield ready(MemoryStore())


@contextlib.contextmanager
def sqlite() -> Iterator[LeaseStore]:
    with tempfile.TemporaryDirectory() as folder:
        store = SQLStore(f"sqlite:///{Path(folder) / 'leases.db'}")
        yield ready(store)
        store.close()


@contextlib.contextmanager
def dynamodb() -> Iterator[LeaseStore]:
    with dynalite() as server:
        yield ready(DynamoDBStore(server.client("dynamodb"), "leases"))


def ready(store: Any) -> LeaseStore:
    store.prepare()
    store._writes.backoff = 0.0  # a lost answer is a fate, not a busy server
    return store  # type: ignore[no-any-return]
