# SPDX-License-Identifier: Apache-2.0
"""The batch row and its transitions (PROTOCOL B)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from shardbatch.core.rows import BATCH, BOOL, INT, TEXT, TEXTS_IF_ANY, Key, Namespace, Row, column
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


#: A batch in one of these states waits for its work, or for a person.
UNDECIDED = (BatchState.FROZEN, BatchState.PARKED)


@dataclass(frozen=True)
class Recorded:
    """An application that stands on a batch row: its id at its cluster, and the task that it works for, if known."""

    name: str
    work: str = ""


def _write_starts(starts: Sequence[Start]) -> str | None:
    return json.dumps([start.to_json() for start in starts]) if starts else None


def _read_starts(text: str) -> tuple[Start, ...]:
    return tuple(map(Start.from_json, json.loads(text)))


@dataclass(frozen=True)
class Batch(Row):
    """The transaction record of one batch.

    ``attempt`` only hands out numbers; ``decided`` is the attempt of the commit that made the last decision (0 until
    the first). ``starts`` has every start that this decision takes, ``roots`` every output root that a decision of this
    batch ever named, in one spelling each. ``shared`` and ``joins`` are what the author said of its outputs: that other
    applications write to its roots too, that live readers see an interval's records. An interval's batch has its bounds
    (``from_ms`` included, ``to_ms`` not) and the ``number`` of its decision among those of the interval.
    ``unparked`` is the attempt that was the latest when a person last resumed the batch; ``set_aside`` is ``kept`` or
    ``dropped`` while it is decided without output.
    ``waited_ms``, ``refused`` and ``resubscribed`` are what the service's limits cost the reads (core/waiting.py).
    ``claims`` are the claims of runs behind which it was frozen, or an attempt of it opened. ``event`` is ``due`` once
    a batch with records is committed, and then the clearing of a run in which a commit came to send its event, at
    ``event_ms``. ``retired_ms`` is when clean-up retired it: its files may be gone, and it is never worked on again.
    ``sink`` is ``starts`` or ``own``; ``attempt_ref`` names the recorded applications of one attempt, one for each
    task, the one that showed life last first: ``attempt:id task; id task``.
    """

    table = BATCH

    namespace: Namespace
    scope: str
    batch_id: str
    owner: str = field(metadata=column("text", str, absent=""))
    row_count: int = field(metadata=INT)
    state: BatchState = field(metadata=column("text", BatchState, lambda state: state.value))
    attempt: int = field(default=0, metadata=INT)
    attempt_ref: str | None = field(default=None, metadata=TEXT)
    attempt_seen_ms: int | None = field(default=None, metadata=INT)
    attempt_closed: int = field(default=0, metadata=INT)
    sink: str = field(default="starts", metadata=TEXT)
    starts: tuple[Start, ...] = field(default=(), metadata=column("text", _read_starts, _write_starts, name="start"))
    decided: int = field(default=0, metadata=INT)
    manifest_uri: str | None = field(default=None, metadata=TEXT)
    manifest_digest: str | None = field(default=None, metadata=TEXT)
    records: int = field(default=0, metadata=INT)
    bytes: int = field(default=0, metadata=INT)
    gaps: int = field(default=0, metadata=INT)
    created_at_ms: int = field(default=0, metadata=INT)
    committed_at_ms: int | None = field(default=None, metadata=INT)
    note: str | None = field(default=None, metadata=TEXT)
    unparked: int = field(default=0, metadata=INT)
    set_aside: str | None = field(default=None, metadata=TEXT)
    dropped: int = field(default=0, metadata=INT)
    roots: tuple[str, ...] = field(default=(), metadata=TEXTS_IF_ANY)
    min_arrival_ms: int | None = field(default=None, metadata=INT)
    max_arrival_ms: int | None = field(default=None, metadata=INT)
    shared: bool = field(default=False, metadata=BOOL)
    joins: bool = field(default=False, metadata=BOOL)
    from_ms: int | None = field(default=None, metadata=INT)
    to_ms: int | None = field(default=None, metadata=INT)
    number: int = field(default=0, metadata=INT)
    waited_ms: int = field(default=0, metadata=INT)
    refused: int = field(default=0, metadata=INT)
    resubscribed: int = field(default=0, metadata=INT)
    claims: tuple[str, ...] = field(default=(), metadata=TEXTS_IF_ANY)
    event: str | None = field(default=None, metadata=TEXT)
    event_ms: int | None = field(default=None, metadata=INT)
    retired_ms: int | None = field(default=None, metadata=INT)

    @property
    def interval(self) -> tuple[int, int] | None:
        """The bounds of the interval that it was read for, in milliseconds."""
        return None if self.from_ms is None or self.to_ms is None else (self.from_ms, self.to_ms)

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(BATCH, self.namespace, (self.scope, self.batch_id))

    @property
    def spark_application(self) -> tuple[int, str | None]:
        """The last recorded application: its attempt, and its id at its cluster; 0 and ``None`` before there is one."""
        attempt, found = self.spark_applications
        return attempt, found[0].name if found else None

    @property
    def spark_applications(self) -> tuple[int, tuple[Recorded, ...]]:
        """The attempt whose applications are recorded, and these; 0 and none before there is one."""
        attempt, _, refs = (self.attempt_ref or "0:").partition(":")
        pairs = (ref.partition(" ") for ref in refs.split(_AND) if ref)
        return int(attempt), tuple(Recorded(name, work) for name, _, work in pairs)

    @property
    def told(self) -> bool:
        """Whether some root is told of its decision, also if that is that nothing is there (O4)."""
        return bool(self.starts or self.roots)

    @property
    def last_used_ms(self) -> int:
        """When it was last decided or worked on, as far as its row tells; what is archived counts from then."""
        return max(self.created_at_ms, self.committed_at_ms or 0, self.attempt_seen_ms or 0)

    @property
    def possible_orphan(self) -> bool:
        """Whether its application may have left rows in the sink under an id that never commits (B6). A row does not
        say whether one ever started, so every discarded batch with records counts."""
        return self.state is BatchState.VOID and self.records > 0

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Batch:
        """The row of its columns."""
        if columns.get("start"):  # an earlier version replays without knowing of it
            columns = {**columns, "set_aside": None}
        return super().from_columns(columns)

    def _next(self, **changes: Any) -> Batch:
        return replace(self, row_count=self.row_count + 1, **changes)


def _require(holds: bool, batch: Batch, what: str) -> None:
    if not holds:
        raise ProtocolError(
            f"Batch {batch.batch_id}: {what} (it is {batch.state.value}).",
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
    live = batch.state in (BatchState.FROZEN, BatchState.COMMITTED) and batch.retired_ms is None
    _require(live, batch, "no attempt can be opened")
    return batch._next(attempt=batch.attempt + 1, attempt_seen_ms=now_ms, claims=_claimed(batch, claim))


def open_replay(batch: Batch, owner: str, now_ms: int, claim: str = "") -> Batch:
    """B10: a replay by another owner, behind its claim."""
    kept = batch.state is BatchState.COMMITTED and batch.retired_ms is None
    _require(kept, batch, "only a committed batch is replayed, before it is retired")
    return batch._next(owner=owner, attempt=batch.attempt + 1, attempt_seen_ms=now_ms, claims=_claimed(batch, claim))


def _claimed(batch: Batch, claim: str) -> tuple[str, ...]:
    """The claims with this one; the first stays, since the batch was frozen behind it."""
    known = batch.claims
    if not claim or claim in known:
        return known
    return (*known[:1], *known[1:][-(MOST_CLAIMS - 2) :], claim)


def heartbeat(batch: Batch, now_ms: int, application: str | None, work: str = "") -> Batch:
    """B7: the latest attempt is alive, also if one of its tasks has ended; its applications' ids are kept."""
    _require(batch.state in (BatchState.FROZEN, BatchState.COMMITTED), batch, "it is neither frozen nor committed")
    ref = batch.attempt_ref
    if application is not None:
        of_attempt, known = batch.spark_applications
        others = [item for item in known if item.work != work] if of_attempt == batch.attempt else []
        named = [Recorded(application, work), *others][:MOST_APPLICATIONS]
        ref = "{}:{}".format(batch.attempt, _AND.join(f"{item.name} {item.work}".strip() for item in named))
    closed = min(batch.attempt_closed, batch.attempt - 1)
    return batch._next(attempt_seen_ms=now_ms, attempt_ref=ref, attempt_closed=closed)


def close_attempt(batch: Batch, attempt: int) -> Batch:
    """B14: the task of this attempt has ended, and its application with it."""
    return batch._next(attempt_closed=max(batch.attempt_closed, attempt))


def decide(
    batch: Batch,
    starts: tuple[Start, ...],
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
        starts=starts,
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
    starts: tuple[Start, ...],
    attempt: int,
    note: str | None = None,
    *,
    roots: tuple[str, ...] = (),
    number: int = 0,
) -> Batch:
    """B8: a replay's starts in place of the recorded ones, only upwards; no root is forgotten."""
    kept = batch.state is BatchState.COMMITTED and batch.retired_ms is None
    _require(kept and attempt > batch.decided, batch, "a replay only goes upwards, before its batch is retired")
    return batch._next(
        starts=starts, decided=attempt, set_aside=None, note=_noted(batch, note), roots=roots, number=number
    )


def withdraw(batch: Batch, note: str, roots: tuple[str, ...], now_ms: int) -> Batch:
    """B11: an interval's batch is taken back: a new attempt decides that it has no output, and all its roots are told.

    It keeps its number: what an even earlier run over the interval wrote stays hidden.
    """
    _require(
        batch.state is BatchState.COMMITTED and bool(batch.scope), batch, "only a committed interval is taken back"
    )
    attempt = batch.attempt + 1
    return batch._next(
        attempt=attempt,
        decided=attempt,
        attempt_seen_ms=now_ms,
        starts=(),
        roots=roots,
        set_aside=DROPPED,
        note=_noted(batch, note),
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
        starts=(),
        decided=batch.attempt,
        committed_at_ms=now_ms,
        set_aside=KEPT,
        note=_noted(batch, note),
    )


def drop(batch: Batch, note: str) -> Batch:
    """B16: a batch that was set aside is not kept for a replay any more."""
    _require(batch.set_aside == KEPT, batch, "only a batch that is kept aside is dropped")
    return batch._next(set_aside=DROPPED, note=_noted(batch, note))


def retire(batch: Batch, note: str, now_ms: int) -> Batch:
    """B17: a committed batch is never worked on again, so that its files may go; this is final."""
    done = batch.state is BatchState.COMMITTED and batch.set_aside != KEPT and batch.retired_ms is None
    _require(done, batch, "only a committed batch that is not kept aside is retired, once")
    return batch._next(retired_ms=now_ms, note=_noted(batch, note))


def _noted(batch: Batch, note: str | None) -> str | None:
    """What was done to the batch, one action after another; the oldest are forgotten."""
    if not note or not batch.note:
        return note or batch.note
    return f"{batch.note}; {note}"[-LONGEST_NOTE:]
