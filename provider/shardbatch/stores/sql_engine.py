# SPDX-License-Identifier: Apache-2.0
"""Engines of the SQL lease store, and what their errors say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from shardbatch.errors import ConfigurationError

#: Milliseconds that SQLite waits for another writer.
BUSY_TIMEOUT_MS = 30_000


def open_engine(given: str | sa.URL | sa.Engine) -> sa.Engine:
    """An engine whose connections commit every statement."""
    if isinstance(given, sa.Engine):
        engine = given
    else:
        try:
            engine = sa.create_engine(given, hide_parameters=True)
        except (exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise ConfigurationError(
                f"The database driver that the lease store's URL names is not there: {error}.",
                remedy="Install it on every worker, or look at the URL's scheme.",
            ) from error
        except (exc.ArgumentError, ValueError):
            raise ConfigurationError(
                "The lease store's URL cannot be read.", remedy="It looks like postgresql+psycopg://user@host/database."
            ) from None
    if engine.dialect.name == "sqlite":
        if engine.url.database in (None, "", ":memory:"):
            raise ConfigurationError(
                "SQLite in memory belongs to one connection only and cannot hold leases.",
                remedy="Name a file (sqlite:////path/leases.db), or use memory:// in tests.",
            )
        if not sa.event.contains(engine, "connect", _tune_sqlite):
            sa.event.listen(engine, "connect", _tune_sqlite)
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _tune_sqlite(connection: Any, _record: Any) -> None:
    """Readers beside a writer, and writers that wait for each other."""
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()


@contextmanager
def transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection whose statements take effect together when the block ends, and not at all if it fails.

    A row that another transaction changed meanwhile is seen as it stands now; it does not fail this one.
    """
    level = "SERIALIZABLE" if engine.dialect.name == "sqlite" else "READ COMMITTED"
    with engine.connect().execution_options(isolation_level=level) as connection, connection.begin():
        yield connection


def cause_of(error: exc.SQLAlchemyError) -> BaseException:
    """The driver's own error."""
    return getattr(error, "orig", None) or error


def reason_of(error: exc.SQLAlchemyError) -> str:
    """The driver's own words, on one line; never the statement's values."""
    cause = cause_of(error)
    return "{}: {}".format(type(cause).__name__, " ".join(str(cause).split()).rstrip("."))
