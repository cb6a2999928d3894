# SPDX-License-Identifier: Apache-2.0
"""Engines of the SQL lease store, and what their errors say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from shardbatch.errors import ConfigurationError
from shardbatch.masking import is_secret, masked
from shardbatch.stores.time_limit import driver_limits

#: Milliseconds that SQLite waits for another writer.
BUSY_TIMEOUT_MS = 30_000


def open_engine(
    given: str | sa.URL | sa.Engine, arguments: Mapping[str, Any], seconds: float
) -> tuple[sa.Engine, tuple[str, ...]]:
    """An engine whose connections commit every statement, and the secrets that nothing said of it may show.

    :param arguments: what the driver is told beside the URL.
    :param seconds: what one call may take.
    """
    secrets: tuple[str, ...] = ()
    if isinstance(given, sa.Engine):
        engine = given
    else:
        try:
            url = sa.make_url(given)
            hidden = {name: value for name, value in url.query.items() if is_secret(name)}
            query = {name: value for name, value in url.query.items() if name not in hidden}
            limits = {
                name: value for name, value in driver_limits(_database(url), seconds).items() if name not in url.query
            }
            told = {**limits, **hidden, **arguments}
            secrets = tuple(str(value) for name, value in told.items() if is_secret(name))
            engine = sa.create_engine(url.set(query=query), hide_parameters=True, connect_args=told)
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
    if engine.url.password:
        secrets = (*secrets, str(engine.url.password))
    return engine.execution_options(isolation_level="AUTOCOMMIT"), secrets


def ask_for_password(engine: sa.Engine, password: Callable[[], str]) -> None:
    """Let each new connection of an engine sign in by a password of its own: one that lives for minutes would be over
    when the pool opens the next connection."""

    def connect(_dialect: Any, _record: Any, _args: Any, told: dict[str, Any]) -> None:
        told["password"] = password()

    sa.event.listen(engine, "do_connect", connect)


def _database(url: sa.URL) -> str:
    return url.drivername.partition("+")[0]


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


def reason_of(error: exc.SQLAlchemyError, secrets: Iterable[str] = ()) -> str:
    """The driver's own words, on one line; never the statement's values, and without secrets."""
    cause = cause_of(error)
    return masked("{}: {}".format(type(cause).__name__, " ".join(str(cause).split()).rstrip(".")), secrets)
