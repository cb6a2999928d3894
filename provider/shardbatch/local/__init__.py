# SPDX-License-Identifier: Apache-2.0
"""An embedded stream server: Kinesis and DynamoDB Streams on loopback, for tests and demonstrations.

``python -m shardbatch.local`` runs it as a process; in a test, :class:`StreamServer` is a context manager.
"""

from __future__ import annotations

from shardbatch.local.calls import Call, Calls
from shardbatch.local.clock import Clock
from shardbatch.local.dynamodb.control import TableControl
from shardbatch.local.faults import Fault, FaultKind, Faults
from shardbatch.local.fill import FillError, fill_stream
from shardbatch.local.options import Options
from shardbatch.local.server import StreamServer

__all__ = [
    "Call",
    "Calls",
    "Clock",
    "Fault",
    "FaultKind",
    "Faults",
    "FillError",
    "Options",
    "StreamServer",
    "TableControl",
    "fill_stream",
]
