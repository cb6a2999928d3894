# SPDX-License-Identifier: Apache-2.0
"""The verbs of a person over a rig: with an actor, a reason, and not as a preview unless told so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardbatch.control.action import Done
from shardbatch.control.verb import Verb
from shardbatch.control.verbs import VERBS
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import APPLICATION, TABLES, Columns, Key, Namespace, Row, Table
from shardbatch.kcl.verbs import IMPORT_KCL
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig


def namespace(rig: Rig) -> Namespace:
    return Namespace("etl", rig.stream.name)


def verb_of(use_case: Callable[..., Sequence[Any]]) -> Verb:
    """The verb that a use-case does."""
    known = (*VERBS.values(), IMPORT_KCL)
    (found,) = [verb for verb in known if verb.use_case is not None and verb.use_case() is use_case]
    return found


def act(
    use_case: Callable[..., Sequence[Any]], store: LeaseStore, namespace: Namespace, *words: Any, **given: Any
) -> tuple[Any, ...]:
    """What a verb's use-case answers, called as the ways in call it."""
    return verb_of(use_case).act(store, namespace, *words, **given)


def told(verb: Callable[..., Sequence[Done]], rig: Rig, *words: Any, **chosen: Any) -> list[Done]:
    """What a verb answers."""
    settings: dict[str, Any] = {"actor": "ann", "reason": "bad data", "dry_run": False, **chosen}
    store = settings.pop("store", rig.store)
    if verb_of(verb) is VERBS["reset"]:
        settings.setdefault("clock", rig.time.clock())
    return list(act(verb, store, namespace(rig), *words, **settings))


def done(verb: Callable[..., Sequence[Done]], rig: Rig, *words: Any, **chosen: Any) -> list[tuple[str, str]]:
    """What became of each row, in short."""
    return [(item.name, item.result) for item in told(verb, rig, *words, **chosen)]


def application(rig: Rig) -> Application:
    row = rig.store.get(Key(APPLICATION, namespace(rig), ()))
    assert isinstance(row, Application)
    return row


def batch(rig: Rig, batch_id: str) -> Batch:
    row = rig.consumer().batch(batch_id)
    assert row is not None
    return row


def everything(rig: Rig) -> dict[str, list[Columns]]:
    """All rows as they stand, to see that a preview changes none."""
    return {table.name: [row.columns() for row in rig.store.list(table, namespace(rig))] for table in TABLES}


class Interrupted(OneByOne):
    """A store that lets something happen before the first write to a table."""

    def __init__(self, store: LeaseStore, table: Table, event: Callable[[], Any], *, always: bool = False) -> None:
        self._store, self._table, self._event, self._always = store, table, event, always

    def _happen(self, row: Row) -> None:
        if row.key.table is self._table and self._event is not None:
            event, self._event = self._event, self._event if self._always else lambda: None
            event()

    def create(self, row: Row) -> bool:
        self._happen(row)
        return self._store.create(row)

    def replace(self, seen: Row, new: Row) -> bool:
        self._happen(seen)
        return self._store.replace(seen, new)

    def delete(self, seen: Row) -> bool:
        self._happen(seen)
        return self._store.delete(seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
