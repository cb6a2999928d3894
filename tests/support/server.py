# SPDX-License-Identifier: Apache-2.0
"""One server process of a test run: started on loopback, awaited by a real call, ended with its block."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

KEEPER = Path(__file__).with_name("keeper.py")
START_TIMEOUT = 90.0


class ServerDiedError(RuntimeError):
    """A test server ended by itself; its last output is in the message."""


@contextlib.contextmanager
def running(
    command: list[str | Path],
    answers: Callable[[], object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    end_with: str = "SIGTERM",
    timeout: float = START_TIMEOUT,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server for the length of the block.

    :param command: the server; it is run by `keeper.py`, which ends it when this process is gone, too.
    :param answers: makes a real call; an exception of it means "not yet".
    :param env: the server's whole environment; default: this process's.
    :param end_with: the signal that asks it to end; killed when that did not help.
    :raises ServerDiedError: if it ended before it answered.
    """
    name = Path(command[0]).name
    with tempfile.TemporaryFile() as log:
        keeper = subprocess.Popen(
            [sys.executable, KEEPER, end_with, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,  # Ctrl-C reaches pytest only, which then ends this block
        )
        try:
            wait_until(lambda: answered(keeper, answers, log, name), timeout, f"{name} to answer")
            yield keeper
        finally:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait()


def answered(keeper: subprocess.Popen[bytes], answers: Callable[[], object], log: Any, name: str) -> bool:
    if keeper.poll() is not None:
        log.seek(0)
        tail = log.read()[-3000:].decode(errors="replace")
        raise ServerDiedError(f"{name} ended with exit code {keeper.returncode} before it answered:\n{tail}")
    try:
        answers()
    except Exception:  # noqa: BLE001 - whatever goes wrong while it starts, the deadline of the caller bounds it
        return False
    return True
