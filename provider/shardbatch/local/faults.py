# SPDX-License-Identifier: Apache-2.0
"""Faults on demand: what the next calls of an operation shall suffer."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    """What happens to a call."""

    ERROR = "error"
    """The call is answered with an error of the service."""
    RESET = "reset"
    """The connection is reset instead of an answer."""
    CUT = "cut"
    """The answer's body stops short of its Content-Length and the connection is closed."""
    LATENCY = "latency"
    """The answer comes later."""
    PARTIAL = "partial"
    """PutRecords refuses the last of its entries."""
    EMPTY = "empty"
    """GetRecords finds nothing this time; the iterator moves on."""
    NO_ITERATOR = "no_iterator"
    """The answer of GetRecords has its records, and no NextShardIterator and no ChildShards; an event has no
    ContinuationSequenceNumber."""
    OPEN_PARENT = "open_parent"
    """Listings show closed shards as if they were still open, beside their children."""
    HIDE_CHILDREN = "hide_children"
    """Listings do not show the children of listed shards yet."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"{value!r} is not a kind of fault; choose one of {', '.join(cls)}")


@dataclass(frozen=True)
class Fault:
    """One fault, for the next ``times`` calls that match."""

    operation: str
    """Name such as ``GetRecords``, or ``*`` for every operation; ``SubscribeToShardEvent`` stands for one event."""
    kind: FaultKind | str
    """What happens to the call, as the enum or its text."""
    times: int = 1
    """How many matching calls it hits; 1 or more."""
    after: int = 0
    """How many matching calls it lets pass first; 0 or more."""
    stream: str | None = None
    """Only calls on this stream; default any."""
    shard: str | None = None
    """Only calls on this shard (GetRecords, GetShardIterator); for listings: the parent concerned. Default any."""
    error: str = "InternalFailure"
    """Error name for kinds ``error`` and ``partial``."""
    status: int | None = None
    """HTTP status for kind ``error``; default by the name."""
    message: str = "a fault that the test asked for"
    """Error text for kind ``error``."""
    seconds: float = 1.0
    """Delay for kind ``latency``, in real seconds."""
    keep: float = 0.5
    """Part of the body that is sent for kind ``cut``, or of the entries that are taken for ``partial``, from 0 to below
    1."""
    applied: bool = False
    """For kinds ``error`` and ``reset``: the call takes effect although its caller is not told."""
    id: int = 0
    """Set by the server."""
    hits: int = 0
    """Calls hit so far."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", FaultKind(self.kind))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "kind": str(self.kind)}


LISTING_KINDS = (FaultKind.OPEN_PARENT, FaultKind.HIDE_CHILDREN)


class Faults:
    """The faults that still wait for calls. Several may hit one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self._serial = 0

    def add(self, operation: str, kind: FaultKind | str, **details: Any) -> Fault:
        """Plan a fault; ``details`` are the other fields of :class:`Fault`.

        :raises ValueError: an unknown kind or field, or a number out of its range
        """
        try:
            fault = Fault(operation=operation, kind=kind, **details)
        except TypeError as error:
            raise ValueError(f"{error}; a fault has the fields of shardbatch.local.Fault") from None
        if fault.times < 1 or fault.after < 0 or fault.seconds < 0 or not 0 <= fault.keep < 1:
            raise ValueError("a fault needs times >= 1, after >= 0, seconds >= 0 and keep from 0 to below 1")
        with self._lock:
            self._serial += 1
            fault = replace(fault, id=self._serial, hits=0)
            self._waiting.append(fault)
        return fault

    def take(self, operation: str, stream: str | None, shard: str | None) -> list[Fault]:
        """The faults that hit this call; each is one hit nearer to its end."""
        if not self._waiting:
            return []
        hit: list[Fault] = []
        with self._lock:
            left: list[Fault] = []
            for fault in self._waiting:
                if not _matches(fault, operation, stream, shard):
                    left.append(fault)
                elif fault.after:
                    left.append(replace(fault, after=fault.after - 1))
                else:
                    fault = replace(fault, hits=fault.hits + 1)
                    hit.append(fault)
                    if fault.hits < fault.times:
                        left.append(fault)
            self._waiting = left
        return hit

    def waiting(self) -> list[Fault]:
        """Faults that have hits left."""
        with self._lock:
            return list(self._waiting)

    def clear(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._waiting = []


def _matches(fault: Fault, operation: str, stream: str | None, shard: str | None) -> bool:
    if fault.operation not in ("*", operation) or fault.stream not in (None, stream):
        return False
    return fault.shard is None or fault.kind in LISTING_KINDS or fault.shard == shard
