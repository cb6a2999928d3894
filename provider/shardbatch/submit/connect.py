# SPDX-License-Identifier: Apache-2.0
"""Spark Connect as the batch sees it: the server of a connection, and the session that each try draws for itself."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from shardbatch.errors import ConfigurationError, ConnectionUnknown
from shardbatch.hooks.connections import connection, refuse_generic

if TYPE_CHECKING:
    from airflow.sdk import Connection

#: The kind of a reference, before its first colon.
KIND = "connect"
DEFAULT_PORT = 15002
#: What pyspark needs for Connect: the name to import, and the package that brings it.
PACKAGES = {
    "pyspark.sql.connect": "pyspark-client",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
}
#: The name of a token in the environment, where pyspark's client looks for it too.
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
#: A name, or an address of either kind. A reference keeps it as it is.
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+")
_REFERENCE = re.compile(rf"{KIND}:(\[[^]]+\]|[^:]+):(\d+):([^:]*):([0-9a-f-]{{36}})")


@dataclass(frozen=True)
class Server:
    """The Spark Connect server of a connection. Without a ``user`` each worker's own is taken, as pyspark does."""

    host: str
    port: int
    user: str = ""
    token: str = field(default="", repr=False)
    use_ssl: bool = False

    @property
    def place(self) -> str:
        """Where it listens, for people and for gRPC."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Session:
    """A session of one try at a server. No other try takes it up."""

    host: str
    port: int
    user: str
    session_id: str

    @property
    def reference(self) -> str:
        """The text that stands in a batch row for the application that works in this session."""
        return f"{KIND}:{self.host}:{self.port}:{quote(self.user, safe='')}:{self.session_id}"

    def at(self, server: Server) -> bool:
        """Whether a server is this session's: only that one is asked to end it, and only that one gets the token."""
        return (server.host, server.port) == (self.host, self.port) and server.user in ("", self.user)


def draw(server: Server) -> Session:
    """A new session; the server learns of it with the first call."""
    user = server.user or os.environ.get("SPARK_USER") or os.environ.get("USER") or "shardbatch"
    return Session(server.host, server.port, user, str(uuid.uuid4()))


def parse(text: str) -> Session | None:
    """The session of a :attr:`Session.reference`; ``None`` for another text."""
    found = _REFERENCE.fullmatch(text)
    return None if found is None else Session(found[1], int(found[2]), unquote(found[3]), found[4])


def remote(server: Server, session: Session) -> str:
    """The value of ``SPARK_REMOTE`` with which a script works in a session. It may hold the token: it stands in the
    environment of the script and nowhere else."""
    parameters = {"user_id": session.user, "session_id": session.session_id}
    if server.token:
        parameters["token"] = server.token
    if server.use_ssl:
        parameters["use_ssl"] = "true"
    told = ";".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"sc://{server.place}/;{told}"


def server_of(conn_id: str) -> Server:
    """The server of an Airflow connection of type Spark Connect: its host (also as ``sc://HOST:PORT``), port (15002 if
    it has none), login (the user), password (the token) and ``use_ssl`` of its extra.

    :raises ConnectionUnknown: if there is none, or what keeps connections does not answer.
    :raises ConfigurationError: if it is of another type, or names no server.
    """
    try:
        found = connection(conn_id)
    except ConnectionUnknown as error:
        raise ConnectionUnknown(
            f"There is no Spark Connect connection {conn_id!r}, or what keeps connections did not answer.",
            remedy=(
                "Create it (type Spark Connect, host and port of the server, token as password) or give conn_id= the "
                f"one to use. {ConnectionUnknown.remedy}"
            ),
        ) from error.__cause__
    refuse_generic(found, "[spark]")
    if found.conn_type != "spark_connect":
        raise ConfigurationError(
            f"The connection {conn_id!r} is of type {found.conn_type!r}, not spark_connect.",
            remedy="Name one of type Spark Connect, or use SparkSubmitBatchOperator for one of type Spark.",
        )
    return _server(found)


def _server(found: Connection) -> Server:
    text = (found.host or "").strip()
    if text.count(":") > 1 and "://" not in text and not text.startswith("["):
        text = f"[{text}]"  # Airflow takes the brackets from the address of a connection that is given as a URI
    try:
        url = urlsplit(text if "://" in text else f"sc://{text}")
        named, host = url.port, url.hostname or ""
        whole = url.scheme == "sc" and url.path in ("", "/") and not (url.query or url.fragment)
        whole = whole and url.username is None and _HOST.fullmatch(host) is not None
    except ValueError:
        whole = False
    if not whole:
        raise ConfigurationError(
            f"The connection {found.conn_id!r} names no Spark Connect server.",
            remedy='Give its host and its port (15002 if it has none), as in {"conn_type": "spark_connect", "host": '
            '"spark.example", "port": 15002}.',
        )
    return Server(
        host=f"[{host}]" if ":" in host else host,
        port=found.port or named or DEFAULT_PORT,
        user=found.login or "",
        token=found.password or os.environ.get(TOKEN_VARIABLE, ""),
        use_ssl=str(found.extra_dejson.get("use_ssl", "")).lower() == "true",
    )


def require_packages(names: dict[str, str] | None = None) -> None:
    """See that this Python has what a script needs to reach a server.

    :param names: what to import and the packages that bring it, default: all that pyspark needs.
    :raises ConfigurationError: naming what is missing.
    """
    missing = sorted({package for name, package in (names or PACKAGES).items() if not _found(name)})
    if missing:
        raise ConfigurationError(
            f"Spark Connect needs the Python packages {', '.join(missing)}, which this worker's Python lacks.",
            remedy="Install airflow-provider-shardbatch[spark] on every worker (pip install "
            "'airflow-provider-shardbatch[spark]').",
        )


def _found(name: str) -> bool:
    # Of pyspark only the folder is looked for: importing its parents takes seconds.
    top, *below = name.split(".")
    spec = find_spec(top)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return spec is not None and (not below or any(os.path.isdir(os.path.join(each, *below)) for each in folders))
