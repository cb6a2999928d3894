# SPDX-License-Identifier: Apache-2.0
"""A call on its way through the server."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardbatch.local.faults import Fault, FaultKind
from shardbatch.local.fields import Fields


@dataclass
class Request:
    """One call: who asks for what, which faults hit it, and what it turned out to touch."""

    operation: str
    fields: Fields
    account: str
    region: str
    stream: str | None = None
    shard: str | None = None
    records: int = 0
    shards: int = 0
    faults: list[Fault] = field(default_factory=list)

    def fault(self, kind: FaultKind) -> Fault | None:
        """The first fault of that kind, if one hits this call."""
        return next((fault for fault in self.faults if fault.kind is kind), None)
