# SPDX-License-Identifier: Apache-2.0
"""The demo's folder: a fresh one for every run, below `.shardbatch` of the checkout."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import IO

from scripts.environment import ROOT

HOME = ROOT / ".shardbatch"


class DemoFolder:
    """A context manager. The folder stays to be looked at, until the next demo starts; one in use is never removed."""

    def __init__(self, home: Path = HOME) -> None:
        self._home = home
        self._lock: IO[str] | None = None
        self.path = home

    def __enter__(self) -> DemoFolder:
        self._home.mkdir(exist_ok=True)
        self._sweep()
        self.path = Path(tempfile.mkdtemp(prefix="demo-", dir=self._home)).resolve()
        # The system drops the lock with the process, so a folder without one belongs to nobody.
        self._lock = (self.path / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for name in ("airflow", "dags/jobs", "flights/staging", "spark"):
            (self.path / name).mkdir(parents=True)
        for dag in ("flights_connect.py", "jobs/flights.py", ".airflowignore"):
            shutil.copy(ROOT / "dags" / dag, self.path / "dags" / dag)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def _sweep(self) -> None:
        for old in self._home.glob("demo-*"):
            lock = old / "lock"
            with contextlib.suppress(FileNotFoundError, PermissionError, BlockingIOError), lock.open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)

    @property
    def leases(self) -> Path:
        """The SQLite file of the leases."""
        return self.path / "leases.db"

    @property
    def spark(self) -> Path:
        """Where the Spark Connect server has its log and its warehouse."""
        return self.path / "spark"

    @property
    def flights(self) -> Path:
        """The DAG's folder, with staging and output."""
        return self.path / "flights"

    @property
    def output(self) -> Path:
        """Where the DAG's Spark job writes."""
        return self.flights / "over_connect"
