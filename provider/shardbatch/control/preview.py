# SPDX-License-Identifier: Apache-2.0
"""What a person has seen before they act: the token of a preview, without which nothing is done.

A page is not a command line: between the preview and the press of the button minutes may pass, in which another person,
or a run, changes the rows. Then the token of the preview is not that of the rows any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from shardbatch.control.verb import Argument, Verb
from shardbatch.core.batch import Batch
from shardbatch.core.lease import Lease
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Key, Namespace, Row, Table
from shardbatch.errors import ConfigurationError

#: Columns by which an owner only shows that it is alive. Without them a batch at work could hardly ever be parked: its
#: row is written every few seconds.
SIGNS_OF_LIFE = ("attempt_seen_ms", "updated_at_ms")


class Watched:
    """A lease store that remembers the rows which it has given, as they were read last."""

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        self.rows: dict[Key, Row] = {}

    def store(self) -> LeaseStore:
        """As the store that it is."""
        return cast("LeaseStore", self)

    def get(self, key: Key) -> Row | None:
        """As :meth:`LeaseStore.get`."""
        row = self._store.get(key)
        if row is not None:
            self.rows[key] = row
        return row

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        """As :meth:`LeaseStore.list`."""
        for row in self._store.list(table, namespace, scope, **equal):
            self.rows[row.key] = row
            yield row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class AsSeen:
    """A lease store in which rows are changed only from what a preview saw of them: the time between the look at the
    token and the act is short, but not nothing.

    :param rows: the rows that the preview read; those that its answer names are watched.
    :param stale: the error for a row that is another one.
    """

    def __init__(
        self, store: LeaseStore, rows: Mapping[Key, Row], answer: Sequence[Mapping[str, Any]], stale: type[Exception]
    ) -> None:
        named = {(row["kind"], row["name"]) for row in answer}
        self._store = store
        self._seen = {key: row for key, row in rows.items() if _name(row) in named}
        self._stale = stale

    def store(self) -> LeaseStore:
        """As the store that it is."""
        return cast("LeaseStore", self)

    def replace(self, seen: Row, new: Row) -> bool:
        """As :meth:`LeaseStore.replace`. What this act has changed itself it may change again."""
        before = self._seen.get(seen.key)
        if before is not None and _version(before) != _version(seen):
            raise self._stale
        done = self._store.replace(seen, new)
        if done:
            self._seen.pop(seen.key, None)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def token_of(
    verb: str,
    given: Mapping[str, Any],
    actor: str,
    answer: Sequence[Mapping[str, Any]],
    seen: Iterable[Row],
    *,
    where: Sequence[str | None] = (),
) -> str:
    """The token of a preview: the same as long as the same person asks for the same, and the rows that it names stand
    as it saw them.

    A sign of life of a row's owner does not count as a change.

    :param given: the arguments as they were given.
    :param answer: what the preview answered; each row has at least ``kind`` and ``name``.
    :param seen: the rows that it read.
    :param where: what else has to be the same, such as the store; default: nothing.
    """
    named = {(row["kind"], row["name"]) for row in answer}
    versions = sorted(json.dumps(_version(row), sort_keys=True) for row in seen if _name(row) in named)
    told = [verb, dict(given), actor, [dict(row) for row in answer], versions, list(where)]
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def chosen_of(verb: Verb, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a verb's use-case takes of arguments in JSON, by their names.

    :raises ConfigurationError: for an argument that is missing, unknown, of another kind, or cannot be read.
    """
    unknown = sorted(given.keys() - {argument.name for argument in verb.arguments})
    if unknown:
        raise ConfigurationError(
            f"{verb.name} has no argument {unknown[0]!r}.",
            remedy=f"It has {', '.join(argument.name for argument in verb.arguments)}.",
        )
    return verb.chosen(lambda argument: _value(verb, argument, given.get(argument.name)))


def _value(verb: Verb, argument: Argument, value: Any) -> Any:
    if value is None or value in ("", []):
        if argument.required:
            raise ConfigurationError(f"{verb.name} needs {argument.name}.", remedy=f"{argument.help}.")
        return [] if argument.many else argument.default
    kind: type = bool if argument.switch else list if argument.many else str
    if not isinstance(value, kind) or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
        words = {bool: "true or false", list: "a list of texts", str: "a text"}[kind]
        raise ConfigurationError(f"{argument.name} of {verb.name} must be {words}.", remedy=f"{argument.help}.")
    if argument.parse is None:
        return value
    try:
        return argument.parse(str(value))
    except ValueError as error:
        raise ConfigurationError(f"{argument.name}={value!r} cannot be read: {error}.", remedy="") from error


def _name(row: Row) -> tuple[str, str]:
    if isinstance(row, Lease):
        return "lease", row.shard_id
    if isinstance(row, Batch):
        return "batch", row.batch_id
    return row.table.name, str(row.key.namespace)


def _version(row: Row) -> dict[str, Any]:
    """What a row says, but for its counter, which every sign of life raises."""
    passed_over = (row.table.counter, *SIGNS_OF_LIFE)
    said = {name: value for name, value in row.columns().items() if name not in passed_over}
    return {"table": row.table.name, "key": row.key.values, **said}
