# SPDX-License-Identifier: Apache-2.0
"""A real MariaDB or MySQL, if one is installed: none comes in a wheel (Debian: the package mariadb-server-core)."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.ports import LOOPBACK, free_port
from tests.support.server import running

USER = "leases"
PASSWORD = "swordfish-and-chips"
#: Why a test is skipped where there is no server or no driver.
ABSENT = "no mariadbd or mysqld on the PATH or in /usr/sbin, or no pymysql"


@dataclass(frozen=True)
class MysqlServer:
    """A running server on loopback; `dialect` is `mariadb` or `mysql`, as it says of itself."""

    port: int
    dialect: str

    def url(self, database: str = "mysql") -> str:
        """A SQLAlchemy URL."""
        return f"{self.dialect}+pymysql://{USER}:{PASSWORD}@{LOOPBACK}:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Makes an empty database; returns its SQLAlchemy URL."""
        with contextlib.closing(self.connect()) as session, session.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}`")
        return self.url(name)

    def connect(self) -> Any:
        import pymysql

        return pymysql.connect(
            host=LOOPBACK, port=self.port, user=USER, password=PASSWORD, connect_timeout=5, autocommit=True
        )


def program() -> str | None:
    """The server's program, if it is installed; Debian keeps it where only root's PATH leads."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/libexec"))
    return next((found for name in ("mariadbd", "mysqld") if (found := shutil.which(name, path=path))), None)


def is_mariadb(server: str) -> bool:
    """Whether this is MariaDB's server and not MySQL's."""
    told = subprocess.run([server, "--no-defaults", "--version"], capture_output=True, text=True, check=True)
    return "MariaDB" in told.stdout


@contextlib.contextmanager
def mysql_server(server: str) -> Iterator[MysqlServer]:
    """A new, empty server; its folder is removed with it."""
    mariadb = is_mariadb(server)
    made = MysqlServer(free_port(), "mariadb" if mariadb else "mysql")
    with tempfile.TemporaryDirectory(prefix="my-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data = folder / "data"
        common = [f"--datadir={data}", f"--user={getpass.getuser()}"]
        create(server, common, folder, mariadb=mariadb)
        (folder / "users.sql").write_text(
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO '{USER}'@'%';\n"
        )
        settings = {
            "bind-address": LOOPBACK,
            "port": str(made.port),
            "socket": str(folder / "s"),
            "pid-file": str(folder / "pid"),
            "init-file": str(folder / "users.sql"),
            "innodb-flush-log-at-trx-commit": "0",
            "max-connections": "200",
        }
        command = [server, "--no-defaults", *common, "--skip-name-resolve"]
        command += [f"--{key}={value}" for key, value in settings.items()]
        with running(command, lambda: made.connect().close(), cwd=folder):
            yield made


def create(server: str, common: list[str], folder: Path, *, mariadb: bool) -> None:
    if mariadb:
        base = Path(server).resolve().parents[1]
        makes = str(base / "bin" / "mariadb-install-db")
        command = [makes, "--no-defaults", f"--basedir={base}", *common, "--auth-root-authentication-method=normal"]
    else:
        command = [server, "--no-defaults", "--initialize-insecure", *common]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the database could not be made, exit code {done.returncode}:\n{done.stderr[-2000:]}")
