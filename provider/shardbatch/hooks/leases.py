# SPDX-License-Identifier: Apache-2.0
"""Where leases and batches are kept, as a DAG author declares it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.arns import region_for, require_one_region
from shardbatch.hooks.connections import (
    SQL_EXTRAS,
    aws_client,
    connection,
    refuse_generic,
    require_id,
    sql_target,
)

if TYPE_CHECKING:
    from shardbatch.core.ports import LeaseStore

TABLE_ARN = re.compile(r"arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[A-Za-z0-9_.-]{3,255}")


@dataclass(frozen=True)
class DynamoDBLeases:
    """A DynamoDB table. All texts may be templates.

    :param table: its name, or its ARN (for a table of another account or region); several applications may share it.
    :param aws_conn_id: Airflow's AWS connection, default ``aws_default``; ``None``: the worker's own credentials.
    :param region_name: default: the ARN's, else the connection's. Another one than the ARN's is refused.
    :param create: create the table (on demand) if it is missing, default yes. A table that is named by its ARN is never
        created.
    :raises ConfigurationError: for a table without a name, a URL, an ARN of something other than a table, or a region
        that is not the ARN's.
    """

    table: str
    aws_conn_id: str | None = "aws_default"
    region_name: str | None = None
    create: bool = True

    def __post_init__(self) -> None:
        if not self.table:
            raise ConfigurationError("DynamoDBLeases has no table.", remedy="Give the table's name.")
        require_id("DynamoDBLeases(table)", self.table)
        require_id("DynamoDBLeases(aws_conn_id)", self.aws_conn_id)
        self._require_table()

    def _require_table(self) -> None:
        if self.table.startswith("arn:") and "{{" not in self.table and not TABLE_ARN.fullmatch(self.table):
            raise ConfigurationError(
                f"DynamoDBLeases({self.table!r}) is not the ARN of a DynamoDB table.",
                remedy="It looks like arn:aws:dynamodb:REGION:ACCOUNT:table/NAME.",
            )
        require_one_region("DynamoDBLeases", self.table, self.region_name)

    def rendered(self, render: Callable[[str], str]) -> DynamoDBLeases:
        """With its templates rendered.

        :raises ConfigurationError: for a text that rendering left unusable.
        """
        return replace(
            self,
            table=render(self.table),
            aws_conn_id=None if self.aws_conn_id is None else render(self.aws_conn_id),
            region_name=None if self.region_name is None else render(self.region_name),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, for :func:`leases_from`."""
        return {"kind": "dynamodb", **asdict(self)}

    def shared(self) -> bool:
        """Whether several Airflow deployments may use this store."""
        return True

    def open(self) -> LeaseStore:
        """The store; no call is made yet.

        :raises ConfigurationError: if the connection or a library is missing.
        """
        region_name = region_for(self.table, self.region_name)
        client = aws_client("dynamodb", self.aws_conn_id, region_name, max_pool_connections=32)
        from shardbatch.stores import open_store

        return open_store(f"dynamodb://{self.table}", client=client, create=self.create)


@dataclass(frozen=True)
class SQLLeases:
    """Four tables in a SQL database: PostgreSQL, MySQL, MariaDB, or SQLite for one machine. The id may be a template.

    :param conn_id: Airflow's connection to it, of its type (``postgres``, ``mysql``, ``sqlite``). Not Airflow's own
        metadata database: its tasks cannot reach it, and its upgrades must not meet foreign tables.
    :param create: make missing tables, default yes.
    :raises ConfigurationError: for an empty id, or a URL.
    """

    conn_id: str
    create: bool = True

    def __post_init__(self) -> None:
        if not self.conn_id:
            raise ConfigurationError("SQLLeases has no conn_id.", remedy="Give the id of a connection.")
        require_id("SQLLeases(conn_id)", self.conn_id)

    def rendered(self, render: Callable[[str], str]) -> SQLLeases:
        """With its templates rendered."""
        return replace(self, conn_id=render(self.conn_id))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, for :func:`leases_from`."""
        return {"kind": "sql", **asdict(self)}

    def shared(self) -> bool:
        """Whether several Airflow deployments may use this store: true for every store except a SQLite file.

        :raises ConfigurationError: if there is no such connection, or its type is not known.
        """
        found = connection(self.conn_id)
        refuse_generic(found, SQL_EXTRAS)
        return found.conn_type != "sqlite"

    def open(self) -> LeaseStore:
        """The store; no call is made yet.

        :raises ConfigurationError: if the connection or a driver is missing, the connection is not a SQL database, or
            its extra has a field that the driver does not accept.
        """
        target = sql_target(self.conn_id)
        from shardbatch.hooks.settings import seconds_setting
        from shardbatch.stores.sql import SQLStore

        limit = seconds_setting("store_timeout")
        return SQLStore(
            target.url,
            create=self.create,
            arguments=target.arguments,
            password=target.password,
            time_limit=limit,
        )


Leases: TypeAlias = DynamoDBLeases | SQLLeases

#: The classes of lease stores by the word that stands for them in plain JSON. An author may write one of his own.
KINDS: Mapping[str, type[Leases]] = {"dynamodb": DynamoDBLeases, "sql": SQLLeases}


def store_digest(leases: Leases) -> str:
    """The short name of a lease store in addresses of the Streams page: 12 characters, which show nothing of it.

    Two that differ only in whether tables may be made are one store.
    """
    said = replace(leases, create=True).to_json()
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


def leases_from(value: Mapping[str, Any]) -> Leases:
    """The lease store of plain JSON.

    :raises ConfigurationError: for a kind that this version does not know.
    """
    kind = KINDS.get(str(value.get("kind")))
    if kind is None:
        raise ConfigurationError(
            f"No lease store of this version is {value.get('kind')!r}.",
            remedy="Use the same version of airflow-provider-shardbatch on workers and triggerers.",
        )
    return kind(**{name: item for name, item in value.items() if name != "kind"})


@contextmanager
def existing_store(leases: Leases) -> Iterator[LeaseStore]:
    """The store for one who looks, or changes rows that are there: no table is made. It is closed at the end.

    :raises ConfigurationError: if the connection or a library is missing.
    :raises StoreNotFound: if the store has no tables.
    """
    store = replace(leases, create=False).open()
    try:
        store.prepare()
        yield store
    finally:
        store.close()
