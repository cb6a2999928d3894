# SPDX-License-Identifier: Apache-2.0
"""The batch row and its transitions (PROTOCOL B)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from shardbatch.core.rows import BATCH, Columns, Key, Namespace, Row, int_or_none, text_or_none
from shardbatch.core.start import Start
from shardbatch.errors import ProtocolError

#: Applications of one attempt that its batch row names; of more, those that showed life longest ago are forgotten.
MOST_APPLICATIONS = 32
#: Between two of them.
_AND = "; "

#: ``set_aside`` of a batch that was decided without output: its slices are kept for a replay, or not any more.
KEPT, DROPPED = "kept", "dropped"
#: Characters of all that was noted on a batch.
LONGEST_NOTE = 2000
#: Claims that a batch row names; of more, the first and the latest.
MOST_CLAIMS = 32
#: ``event`` of a decided batch whose event no commit has come to send.
DUE = "due"


class BatchState(str, Enum):
    """``FROZEN`` waits for its work, ``PARKED`` for a person; ``COMMITTED`` is decided; ``VOID`` never commits."""

    FROZEN = "FROZEN"
    COMMITTED = "COMMITTED"
    PARKED = "PARKED"
    VOID = "VOID"


@dataclass(frozen=True)
class Recorded:
    """An application that stands on a batch row: its id at its cluster, and the task that it works for, if known."""

    name: str
    work: str = ""


@dataclass(frozen=True)
class Batch(Row):
    """The transaction record of one batch.

    ``attempt`` only hands out numbers; ``decided`` is the attempt of the commit that made the last decision (0 until
    the first). ``start`` has every start that this decision takes, ``roots`` every output root that a decision of this
    batch ever named, in one spelling each. ``shared`` and ``joins`` are what the author said of its outputs: that other
    applications write to its roots too, that live readers see an interval's records. An interval's batch has its bounds
    (``from_ms`` included, ``to_ms`` not) and the ``number`` of its decision among those of the interval.
    ``unparked`` is the attempt that was the latest when a person last resumed the batch; ``set_aside`` is ``kept`` or
    ``dropped`` while it is decided without output.
    ``waited_ms``, ``refused`` and ``resubscribed`` are what the service's limits cost the reads (core/waiting.py).
    ``claims`` are the claims of runs behind which it was frozen, or an attempt of it opened. ``event`` is ``due`` once
    a batch with records is committed, and then the clearing of a run in which a commit came to send its event, at
    ``event_ms``.
    ``sink`` is ``starts`` or ``own``; ``attempt_ref`` names the recorded applications of one attempt, one for each
    task, the one that showed life last first: ``attempt:id task; id task``.
    """

    namespace: Namespace
    scope: str
    batch_id: str
    owner: str
    row_count: int
    state: BatchState
    attempt: int = 0
    attempt_ref: str | None = None
    attempt_seen_ms: int | None = None
    attempt_closed: int = 0
    sink: str = "starts"
    start: tuple[Start, ...] = ()
    decided: int = 0
    manifest_uri: str | None = None
    manifest_digest: str | None = None
    records: int = 0
    bytes: int = 0
    gaps: int = 0
    created_at_ms: int = 0
    committed_at_ms: int | None = None
    note: str | None = None
    unparked: int = 0
    set_aside: str | None = None
    dropped: int = 0
    roots: tuple[str, ...] = ()
    min_arrival_ms: int | None = None
    max_arrival_ms: int | None = None
    shared: bool = False
    joins: bool = False
    from_ms: int | None = None
    to_ms: int | None = None
    number: int = 0
    waited_ms: int = 0
    refused: int = 0
    resubscribed: int = 0
    claims: tuple[str, ...] = ()
    event: str | None = None
    event_ms: int | None = None

    @property
    def interval(self) -> tuple[int, int] | None:
        """The bounds of the interval that it was read for, in milliseconds."""
        return None if self.from_ms is None or self.to_ms is None else (self.from_ms, self.to_ms)

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(BATCH, self.namespace, (self.scope, self.batch_id))

    @property
    def counter(self) -> int:
        """``row_count``."""
        return self.row_count

    @property
    def application(self) -> tuple[int, str | None]:
        """The last recorded application: its attempt, and its id at its cluster; 0 and ``None`` before there is one."""
        attempt, found = self.applications
        return attempt, found[0].name if found else None

    @property
    def applications(self) -> tuple[int, tuple[Recorded, ...]]:
        """The attempt whose applications are recorded, and these; 0 and none before there is one."""
        attempt, _, refs = (self.attempt_ref or "0:").partition(":")
        pairs = (ref.partition(" ") for ref in refs.split(_AND) if ref)
        return int(attempt), tuple(Recorded(name, work) for name, _, work in pairs)

    @property
    def possible_orphan(self) -> bool:
        """Whether its application may have left rows in the sink under an id that never commits (B6). A row does not
        say whether one ever started, so every discarded batch with records counts."""
        return self.state is BatchState.VOID and self.records > 0

    def columns(self) -> Columns:
        """All columns but the key's."""
        return {
            "owner": self.owner,
            "row_count": self.row_count,
            "state": self.state.value,
            "attempt": self.attempt,
            "attempt_ref": self.attempt_ref,
            "attempt_seen_ms": self.attempt_seen_ms,
            "attempt_closed": self.attempt_closed,
            "sink": self.sink,
            "start": json.dumps([s.to_json() for s in self.start]) if self.start else None,
            "decided": self.decided,
            "manifest_uri": self.manifest_uri,
            "manifest_digest": self.manifest_digest,
            "records": self.records,
            "bytes": self.bytes,
            "gaps": self.gaps,
            "created_at_ms": self.created_at_ms,
            "committed_at_ms": self.committed_at_ms,
            "note": self.note,
            "unparked": self.unparked,
            "set_aside": self.set_aside,
            "dropped": self.dropped,
            "roots": json.dumps(self.roots) if self.roots else None,
            "min_arrival_ms": self.min_arrival_ms,
            "max_arrival_ms": self.max_arrival_ms,
            "shared": self.shared,
            "joins": self.joins,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "number": self.number,
            "waited_ms": self.waited_ms,
            "refused": self.refused,
            "resubscribed": self.resubscribed,
            "claims": json.dumps(self.claims) if self.claims else None,
            "event": self.event,
            "event_ms": self.event_ms,
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Batch:
        """The row of its columns."""
        get = columns.get
        return cls(
            namespace=Namespace(columns["app_name"], columns["stream_name"]),
            scope=columns["scope"],
            batch_id=columns["batch_id"],
            owner=get("owner") or "",
            row_count=int(columns["row_count"]),
            state=BatchState(columns["state"]),
            attempt=int(get("attempt") or 0),
            attempt_ref=text_or_none(get("attempt_ref")),
            attempt_seen_ms=int_or_none(get("attempt_seen_ms")),
            attempt_closed=int(get("attempt_closed") or 0),
            sink=get("sink") or "starts",
            start=tuple(Start.from_json(s) for s in json.loads(get("start") or "[]")),
            decided=int(get("decided") or 0),
            manifest_uri=text_or_none(get("manifest_uri")),
            manifest_digest=text_or_none(get("manifest_digest")),
            records=int(get("records") or 0),
            bytes=int(get("bytes") or 0),
            gaps=int(get("gaps") or 0),
            created_at_ms=int(get("created_at_ms") or 0),
            committed_at_ms=int_or_none(get("committed_at_ms")),
            note=text_or_none(get("note")),
            unparked=int(get("unparked") or 0),
            # An earlier version replays without knowing of it.
            set_aside=None if get("start") else text_or_none(get("set_aside")),
            dropped=int(get("dropped") or 0),
            roots=tuple(json.loads(get("roots") or "[]")),
            min_arrival_ms=int_or_none(get("min_arrival_ms")),
            max_arrival_ms=int_or_none(get("max_arrival_ms")),
            shared=bool(get("shared")),
            joins=bool(get("joins")),
            from_ms=int_or_none(get("from_ms")),
            to_ms=int_or_none(get("to_ms")),
            number=int(get("number") or 0),
            waited_ms=int(get("waited_ms") or 0),
            refused=int(get("refused") or 0),
            resubscribed=int(get("resubscribed") or 0),
            claims=tuple(json.loads(get("claims") or "[]")),
            event=text_or_none(get("event")),
            event_ms=int_or_none(get("event_ms")),
        )

    def _next(self, **changes: Any) -> Batch:
        return replace(self, row_count=self.row_count + 1, **changes)


def _require(holds: bool, batch: Batch, what: str) -> None:
    if not holds:
        raise ProtocolError(
            "Batch {}: {} (it is {}).".format(batch.batch_id, what, batch.state.value),
            remedy="This is a fault in shardbatch; please report it with the log.",
        )


def void(namespace: Namespace, scope: str, batch_id: str, count: int, now_ms: int) -> Batch:
    """B2: a batch that was stamped and never created will never be."""
    return Batch(namespace, scope, batch_id, owner="", row_count=count, state=BatchState.VOID, created_at_ms=now_ms)


def adopt(batch: Batch, owner: str) -> Batch:
    """B3: the batch is another owner's now; its leases are not touched."""
    _require(batch.state is BatchState.FROZEN, batch, "only a frozen batch is adopted")
    return batch._next(owner=owner)


def disown(batch: Batch, note: str) -> Batch:
    """B15: a frozen batch has no owner any more, so the next claim adopts it (B3)."""
    _require(batch.state is BatchState.FROZEN, batch, "only a frozen batch is released")
    return batch._next(owner="", note=_noted(batch, note))


def open_attempt(batch: Batch, now_ms: int, claim: str = "") -> Batch:
    """B13: the next attempt of a frozen batch, or a replay of a committed one, behind a claim of its owner."""
    _require(batch.state in (BatchState.FROZEN, BatchState.COMMITTED), batch, "no attempt can be opened")
    return batch._next(attempt=batch.attempt + 1, attempt_seen_ms=now_ms, claims=_claimed(batch, claim))


def open_replay(batch: Batch, owner: str, now_ms: int, claim: str = "") -> Batch:
    """B10: a replay by another owner, behind its claim."""
    _require(batch.state is BatchState.COMMITTED, batch, "only a committed batch is replayed")
    return batch._next(owner=owner, attempt=batch.attempt + 1, attempt_seen_ms=now_ms, claims=_claimed(batch, claim))


def _claimed(batch: Batch, claim: str) -> tuple[str, ...]:
    """The claims with this one; the first stays, since the batch was frozen behind it."""
    known = batch.claims
    if not claim or claim in known:
        return known
    return (*known[:1], *known[1:][-(MOST_CLAIMS - 2) :], claim)


def heartbeat(batch: Batch, now_ms: int, application: str | None, work: str = "") -> Batch:
    """B7: the latest attempt is alive, also if one of its tasks has ended; its applications' ids are kept."""
    _require(batch.state in (BatchState.FROZEN, BatchState.COMMITTED), batch, "nobody works on it")
    ref = batch.attempt_ref
    if application is not None:
        of_attempt, known = batch.applications
        others = [item for item in known if item.work != work] if of_attempt == batch.attempt else []
        named = [Recorded(application, work), *others][:MOST_APPLICATIONS]
        ref = "{}:{}".format(batch.attempt, _AND.join("{} {}".format(item.name, item.work).strip() for item in named))
    closed = min(batch.attempt_closed, batch.attempt - 1)
    return batch._next(attempt_seen_ms=now_ms, attempt_ref=ref, attempt_closed=closed)


def close_attempt(batch: Batch, attempt: int) -> Batch:
    """B14: the task of this attempt has ended, and its application with it."""
    return batch._next(attempt_closed=max(batch.attempt_closed, attempt))


def decide(
    batch: Batch,
    start: tuple[Start, ...],
    attempt: int,
    now_ms: int,
    note: str | None = None,
    *,
    roots: tuple[str, ...] = (),
    number: int = 0,
) -> Batch:
    """B4: the decision of the commit that is bound to ``attempt``: the starts that count, and every root to be told."""
    _require(batch.state is BatchState.FROZEN, batch, "only a frozen batch is committed")
    return batch._next(
        state=BatchState.COMMITTED,
        start=start,
        decided=attempt,
        committed_at_ms=now_ms,
        note=_noted(batch, note),
        roots=roots,
        number=number,
        event=DUE if batch.records else None,
    )


def send_event(batch: Batch, clearing: str, now_ms: int) -> Batch:
    """B12: the commit of this clearing of its run has come to send the batch's event; it goes out as its task ends."""
    _require(batch.state is BatchState.COMMITTED and batch.event is not None, batch, "no event of it is due")
    return batch._next(event=clearing, event_ms=now_ms)


def redecide(
    batch: Batch,
    start: tuple[Start, ...],
    attempt: int,
    note: str | None = None,
    *,
    roots: tuple[str, ...] = (),
    number: int = 0,
) -> Batch:
    """B8: a replay's starts in place of the recorded ones, only upwards; no root is forgotten."""
    _require(batch.state is BatchState.COMMITTED and attempt > batch.decided, batch, "a replay only goes upwards")
    return batch._next(
        start=start, decided=attempt, set_aside=None, note=_noted(batch, note), roots=roots, number=number
    )


def withdraw(batch: Batch, note: str, roots: tuple[str, ...]) -> Batch:
    """B11: an interval's batch is taken back: a new attempt decides that it has no output, and all its roots are told.

    It keeps its number: what an even earlier run over the interval wrote stays hidden.
    """
    _require(
        batch.state is BatchState.COMMITTED and bool(batch.scope), batch, "only a committed interval is taken back"
    )
    attempt = batch.attempt + 1
    return batch._next(
        attempt=attempt, start=(), decided=attempt, set_aside=DROPPED, note=_noted(batch, note), roots=roots
    )


def park(batch: Batch, note: str) -> Batch:
    """B5: the batch waits for a person, its leases stay stamped."""
    _require(batch.state is BatchState.FROZEN, batch, "only a frozen batch is parked")
    return batch._next(state=BatchState.PARKED, note=_noted(batch, note))


def unpark(batch: Batch, note: str) -> Batch:
    """B5: the batch may be worked on again; attempts until now no longer count for ``max_attempts``."""
    _require(batch.state is BatchState.PARKED, batch, "only a parked batch is resumed")
    return batch._next(state=BatchState.FROZEN, unparked=batch.attempt, note=_noted(batch, note))


def discard(batch: Batch, note: str) -> Batch:
    """B6: the batch never commits; what its application wrote may be orphans in the sink."""
    _require(batch.state in (BatchState.FROZEN, BatchState.PARKED), batch, "only an undecided batch is discarded")
    return batch._next(state=BatchState.VOID, note=_noted(batch, note))


def set_aside(batch: Batch, note: str, now_ms: int) -> Batch:
    """B9: decided without output; only an attempt opened later gives it one."""
    _require(batch.state in (BatchState.FROZEN, BatchState.PARKED), batch, "only an undecided batch is set aside")
    return batch._next(
        state=BatchState.COMMITTED,
        start=(),
        decided=batch.attempt,
        committed_at_ms=now_ms,
        set_aside=KEPT,
        note=_noted(batch, note),
    )


def drop(batch: Batch, note: str) -> Batch:
    """B16: a batch that was set aside is not kept for a replay any more."""
    _require(batch.set_aside == KEPT, batch, "only a batch that is kept aside is dropped")
    return batch._next(set_aside=DROPPED, note=_noted(batch, note))


def _noted(batch: Batch, note: str | None) -> str | None:
    """What was done to the batch, one action after another; the oldest are forgotten."""
    if not note or not batch.note:
        return note or batch.note
    return "{}; {}".format(batch.note, note)[-LONGEST_NOTE:]
