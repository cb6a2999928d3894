# SPDX-License-Identifier: Apache-2.0
"""Migrate: tables and rows of an earlier version become those of this one, only ever by adding."""

from __future__ import annotations

from dataclasses import dataclass

from shardbatch.control.action import Action
from shardbatch.core.rows import SCHEMA_VERSION


@dataclass(frozen=True)
class Migrated:
    """One thing that this version wants and an earlier one did not make.

    ``what`` is a statement of the database, or an application with its schema version; ``result`` is ``would run`` or
    ``run``, for an application ``would raise`` or ``raised``, and ``already`` where there is nothing to do.
    """

    what: str
    result: str


def migrate(action: Action) -> tuple[Migrated, ...]:
    """Add what the store lacks for this version, then raise the application's schema version to it.

    The first may be done while workers of the version before are at work, because they do not use what is added. From
    the second on they refuse the application. Doing either again changes nothing.

    :raises ConfigurationError: if there is no such application, or the reason is missing and this is not a preview.
    :raises UnsupportedSchema: if its rows are of a later version than this one reads.
    :raises StoreError: with the database's own words, if it does not allow it.
    """
    store, dry_run = action.store, action.dry_run
    action.require_reason()
    statements = store.pending()
    found = [Migrated(text, "would run" if dry_run else "run") for text in statements]
    if dry_run and statements:  # the application's row cannot be read before
        return tuple(found)
    if not dry_run:
        store.prepare()
    row = action.begin()
    what = f"application {row.namespace} from schema version {row.schema_version} to {SCHEMA_VERSION}"
    if row.schema_version == SCHEMA_VERSION:
        return (*found, Migrated(f"application {row.namespace} has schema version {SCHEMA_VERSION}", "already"))
    while not dry_run and not store.replace(row, row.migrated(action.note(f"to version {SCHEMA_VERSION}"))):
        row = action.begin()
    return (*found, Migrated(what, "would raise" if dry_run else "raised"))
