# SPDX-License-Identifier: Apache-2.0
"""Loopback ports that were free a moment ago."""

from __future__ import annotations

import contextlib
import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A loopback port that nobody listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """That many different ports; all are held while they are drawn, so that none comes twice."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
