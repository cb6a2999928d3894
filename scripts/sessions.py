# SPDX-License-Identifier: Apache-2.0
"""Ends sessions of processes with all their descendants; standard library only.

A process that is started with `start_new_session=True` is the first of a session. All its descendants belong to it, in
whatever process group they are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

KEEPER = """
import sys
sys.path.insert(0, sys.argv[1])
from scripts.sessions import end_sessions
sessions = [int(line) for line in sys.stdin]
end_sessions(sessions)
"""


class Keeper:
    """A process that ends sessions when the program that started them is gone, however it went."""

    def __init__(self) -> None:
        root = str(Path(__file__).resolve().parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-c", KEEPER, root], stdin=subprocess.PIPE, cwd=root, start_new_session=True
        )

    def keep(self, session: int) -> None:
        """Add a session, by the id of its first process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{session}\n".encode())
        self._process.stdin.flush()

    def close(self) -> None:
        """Forget all sessions, which have ended: their numbers may be given to others from now on."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


def members(sessions: list[int]) -> list[int]:
    """The processes that belong to sessions."""
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True).stdout
    found = []
    for pid in map(int, listed.split()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) in sessions:
                found.append(pid)
    return found


def end_sessions(sessions: list[int], grace: float = 5.0) -> None:
    """Ends all processes of sessions: asks first, and after `grace` seconds no more."""
    for sign, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        left = members(sessions)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = [pid for pid in members(sessions) if not _zombie(pid)]
        if not left:
            return


def _zombie(pid: int) -> bool:
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not shown.strip() or shown.strip().startswith("Z")
