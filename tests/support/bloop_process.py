# SPDX-License-Identifier: Apache-2.0
"""Bloop 3.1.1 beside our source: a child process of its own environment that reads the stream of a table."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.aws import REGION
from tests.support.prepare import bloop_python

READER = Path(__file__).with_name("bloop_reader.py")
Record = dict[str, Any]
COLUMNS = {"id": "text", "v": "text"}


class BloopError(Exception):
    """Bloop raised; ``kind`` is the name of its exception."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Bloop:
    """One Bloop stream at a time; ``logged`` is what Bloop has logged since it was opened."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.logged: list[str] = []
        assert self._answer() == "3.1.1"

    def open(
        self, endpoint: str, table: str, view: str = "NEW_AND_OLD_IMAGES", columns: Mapping[str, str] = COLUMNS
    ) -> Bloop:
        """A stream of a table's latest stream, at no position yet.

        :param columns: the attributes that the model has, with their types as `bloop_reader.py` names them.
        """
        self._ask("open", endpoint=endpoint, table=table, view=view, columns=dict(columns))
        self.logged.clear()
        return self

    def move_to(self, position: str) -> None:
        """ "trim_horizon" or "latest"."""
        self._ask("move_to", position=position)

    def move_to_time(self, seconds: float) -> None:
        self._ask("move_to_time", seconds=seconds)

    def resume(self, token: dict[str, Any]) -> None:
        """Begin anew with a token, as another process would."""
        self._ask("resume", token=json.loads(json.dumps(token)))

    def next(self) -> Record | None:
        found: Record | None = self._ask("next")
        return found

    def take(self, count: int) -> list[Record]:
        """So many records, which must be there."""
        found = [self.next() for _ in range(count)]
        assert None not in found
        return [record for record in found if record]

    def drain(self, nothing: int = 8) -> list[Record]:
        """Records until ``next`` has had none so often in a row: a chain of closed shards costs one each."""
        found: list[Record] = self._ask("drain", nothing=nothing)
        return found

    def count(self, records: int) -> tuple[float, float]:
        """Take so many records; the seconds of CPU and of the clock that Bloop took for it."""
        cpu_s, wall_s = self._ask("count", records=records)
        return cpu_s, wall_s

    def token(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("token")
        return found

    def heartbeat(self) -> None:
        self._ask("heartbeat")

    def buffered(self) -> int:
        found: int = self._ask("buffered")
        return found

    def _ask(self, what: str, **how: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps({"do": what, **how}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Bloop's process ended with exit code {self._process.wait()}; its output is above.")
        said = json.loads(line)
        self.logged += said["logged"]
        if "error" in said:
            raise BloopError(said["error"], said["text"])
        return said["answer"]


@contextlib.contextmanager
def bloop_process(region: str = REGION) -> Iterator[Bloop]:
    """Bloop in a process that lives as long as the block."""
    command: list[str | Path] = [bloop_python(), "-I", READER, region]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Bloop(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the reader ends with it
