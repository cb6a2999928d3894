# SPDX-License-Identifier: Apache-2.0
"""The applications of a lease store, and which of them a mistyped name may mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher

from shardbatch.core.application import Application, Group
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Columns, Namespace
from shardbatch.errors import ApplicationUnknown, ShardbatchError, UnsupportedSchema

#: Names less similar than this (0 to 1) are not suggested.
LIKE = 0.6
#: The most names that are suggested.
NAMED = 3


@dataclass(frozen=True)
class ApplicationStatus:
    """One application of a store, from its own row alone. Of one whose rows have a version that this code does not read
    only the names and that version are known.
    """

    app_name: str
    stream_name: str
    schema_version: int
    stream_id: str | None = None
    start_position: str | None = None
    deployments: tuple[str, ...] = ()
    claimed_by: tuple[Group, ...] = ()
    last_action: str | None = None


def applications(store: LeaseStore) -> tuple[ApplicationStatus, ...]:
    """All applications of a store, in the order of their names and their streams'."""
    found = (_status(columns) for columns in store.applications())
    return tuple(sorted(found, key=lambda one: (one.app_name, one.stream_name)))


def _status(columns: Columns) -> ApplicationStatus:
    app_name, stream_name = columns["app_name"], columns["stream_name"]
    try:
        row = Application.from_columns(columns)
    except UnsupportedSchema:
        return ApplicationStatus(app_name, stream_name, int(columns["schema_version"]))
    return ApplicationStatus(
        app_name=app_name,
        stream_name=stream_name,
        schema_version=row.schema_version,
        stream_id=row.stream_id,
        start_position=str(row.start_position),
        deployments=row.deployments,
        claimed_by=row.claimed_by,
        last_action=row.last_action,
    )


@contextmanager
def near_names(store: LeaseStore, asked: Namespace) -> Iterator[None]:
    """What is asked of an application that the store does not have fails with the names that are spelled like its own.

    :raises ApplicationUnknown: with these names.
    """
    try:
        yield
    except ApplicationUnknown as error:
        raise ApplicationUnknown(
            f"There is no application {asked} in this lease store.", remedy=meant(store, asked) or error.remedy
        ) from None


def meant(store: LeaseStore, asked: Namespace) -> str | None:
    """What to say of a name that the store does not know: the nearest that it knows; ``None`` if it may not be asked.

    :param asked: an application that is not in the store.
    """
    try:
        known = [Namespace(columns["app_name"], columns["stream_name"]) for columns in store.applications()]
    except ShardbatchError:  # on DynamoDB a role may be fenced off from all but its own rows
        return None
    if not known:
        return "The store has no application at all: check which store is named. An application's first claim makes it."
    near = nearest(asked, known)
    if not near:
        return f"'airflow shardbatch list' shows what the store has: {len(known)} in all."
    names = " or ".join(f"-a '{one.app_name}' -s '{one.stream_name}'" for one in near)
    return f"Did you mean {names}? 'airflow shardbatch list' shows all {len(known)}."


def nearest(asked: Namespace, known: Iterable[Namespace]) -> list[Namespace]:
    """The namespaces that are spelled most like one, the nearest first; none if none is like it."""

    def like(one: Namespace) -> float:
        pairs = ((one.app_name, asked.app_name), (one.stream_name, asked.stream_name))
        return min(SequenceMatcher(None, known.lower(), text.lower()).ratio() for known, text in pairs)

    found = sorted(known, key=lambda one: (-like(one), str(one)))
    return [one for one in found[:NAMED] if like(one) >= LIKE]
