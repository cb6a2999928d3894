# SPDX-License-Identifier: Apache-2.0
"""A running demo, as a person starts it, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil

from scripts.airflow_client import wait_until

ROOT = Path(__file__).resolve().parents[2]
MARK = "SHARDBATCH_TEST_MARK"


class Demo:
    """A running demo; everything that it starts inherits a mark by which it is found."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scripts.demo", *arguments],
                cwd=ROOT,
                env=os.environ | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait_for(self, words: str, timeout: float = 400) -> None:
        def seen() -> bool:
            assert self.process.poll() is None, f"the demo ended before {words!r}:\n{self.text()}"
            return words in self.text()

        wait_until(seen, timeout, lambda: f"{words!r} did not come:\n{self.text()}")

    def left(self) -> list[psutil.Process]:
        """Processes that it started and that are still there."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


@contextlib.contextmanager
def running(log: Path, *arguments: str) -> Iterator[Demo]:
    demo = Demo(log, *arguments)
    try:
        yield demo
    finally:
        demo.end()
