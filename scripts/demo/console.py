# SPDX-License-Identifier: Apache-2.0
"""What the demo says while it goes on: one line an event, with the seconds since it began."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence


class DemoError(RuntimeError):
    """The demo cannot go on; the message says why and what to do."""


class Console:
    """Lines on standard output; may be used by many threads."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._lock = threading.Lock()

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        """Print an event."""
        self.show(f"[{self.elapsed:6.1f}s] {text}")

    def show(self, text: str = "") -> None:
        """Print a line as it is."""
        with self._lock:
            print(text, flush=True)

    def table(self, rows: Iterable[Sequence[object]], heads: Sequence[str]) -> None:
        """Print rows under their heads; a column whose head begins with a blank is aligned to the right."""
        texts = [[str(cell) for cell in row] for row in rows]
        widths = [max(len(text) for text in column) for column in zip(heads, *texts, strict=True)]
        for line in ([*heads], *texts):
            cells = [
                cell.rjust(width) if head.startswith(" ") else cell.ljust(width)
                for cell, width, head in zip(line, widths, heads, strict=True)
            ]
            self.show("    " + "  ".join(cells).rstrip())
