# SPDX-License-Identifier: Apache-2.0
"""Runs one server and ends it when standard input closes, so that no server outlives the test run, however that ends.

``keeper.py SIGNAL COMMAND...``: SIGNAL is how to ask it to end; what has not ended GRACE seconds later is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

GRACE = 2


def main(signal_name: str, command: list[str]) -> None:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def follow() -> None:
        code = child.wait()
        os._exit(code if code >= 0 else 128 - code)

    threading.Thread(target=follow, daemon=True).start()
    sys.stdin.buffer.read()
    child.send_signal(signal.Signals[signal_name])
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
