# SPDX-License-Identifier: Apache-2.0
"""What sensors wait for, as questions to the rows of an application: asked again and again, and written as literals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast, runtime_checkable

from shardbatch.control.status import committed_up_to, shards
from shardbatch.control.stream_look import StreamLook
from shardbatch.control.tip_look import look_at_tips
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.ports import SYSTEM_CLOCK, Clock, LeaseStore
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.core.shortlist import shortlist
from shardbatch.core.watermark import Watermark
from shardbatch.errors import ConfigurationError
from shardbatch.run.batch_status import utc

#: What :class:`CommittedUpTo` may find in a window beside records that readers see.
GAPS, DROPPED, SET_ASIDE = "gaps", "dropped", "set_aside"
KINDS = (GAPS, DROPPED, SET_ASIDE)
#: Batches that an answer names.
MOST_NAMED = 5


@dataclass(frozen=True)
class Answer:
    """What the rows say: whether it is ``reached``; else what is waited for (``why``), or that it will ``never`` be.

    ``told`` are plain values for the task's output. ``then`` is what to ask from now on, where the first look has fixed
    what is meant.
    """

    reached: bool
    why: str = ""
    never: bool = False
    told: Mapping[str, Any] | None = None
    then: Question | None = None


class Question(Protocol):
    """A question of a sensor."""

    def ask(self, store: LeaseStore, namespace: Namespace) -> Answer:
        """Look at the rows.

        :raises ApplicationUnknown: if the store has no such application.
        :raises StoreError: if the store cannot be asked.
        """
        ...

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, for :func:`question_of`."""
        ...


@runtime_checkable
class StreamQuestion(Protocol):
    """A question of a sensor that may look at the stream, too."""

    def ask_with(self, store: LeaseStore, namespace: Namespace, stream: StreamLook | None) -> Answer:
        """Look at the rows, and at the stream. ``None``: only its name is known.

        :raises ApplicationUnknown: if the store has no such application.
        :raises StoreError: if the store cannot be asked.
        :raises SourceError: if the stream is needed and cannot be asked.
        """
        ...


@dataclass(frozen=True)
class CommittedUpTo:
    """Is every record that arrived before ``until_ms`` in a committed batch or a recorded gap?

    ``since_ms``: when the window that matters begins, ``None``: with the application. ``accept`` are the :data:`KINDS`
    that do not matter: recorded gaps, records that were dropped because the stream's options say so, and batches that
    a person set aside.
    """

    until_ms: int
    since_ms: int | None = None
    accept: tuple[str, ...] = KINDS

    def ask(self, store: LeaseStore, namespace: Namespace) -> Answer:
        """Look twice (PROTOCOL C7), then at the batches of the window if not everything is accepted."""
        return self.ask_with(store, namespace, None)

    def ask_with(self, store: LeaseStore, namespace: Namespace, stream: StreamLook | None) -> Answer:
        """The same; and where only idle shards hold the watermark back, look at their tips (PROTOCOL C9)."""
        found, note = committed_up_to(store, namespace), ""
        if stream is not None and found.ms is not None and found.ms < self.until_ms:
            found, note = look_at_tips(store, namespace, stream, self.until_ms, found)
        told = {"watermark_ms": found.ms, "complete_from_ms": found.complete_from_ms}
        begins = found.complete_from_ms
        first = self.until_ms if self.since_ms is None else self.since_ms
        if begins is not None and (first < begins or self.until_ms <= begins):
            text = f"{namespace} is complete from {utc(begins)} on, so nothing is promised of {utc(first)}. "
            text += "Wait for a later instant, or read what is older by an interval run."
            return Answer(False, text, never=True, told=told)
        if found.ms is None or found.ms < self.until_ms:
            return Answer(False, f"{self._waits(found)} {note}".strip(), told=told)
        return self._window(store, namespace, told)

    def _waits(self, found: Watermark) -> str:
        stands = "unknown yet" if found.ms is None else utc(found.ms)
        by = f", held back by {shortlist([hold.name for hold in found.holds])}" if found.holds else ""
        return (
            f"Committed up to: {stands}{by}. A run that reads at {utc(self.until_ms + MARGIN_MS)} or later, and then "
            f"commits, shows that all before {utc(self.until_ms)} is there."
        )

    def _window(self, store: LeaseStore, namespace: Namespace, told: Mapping[str, Any]) -> Answer:
        left = [kind for kind in KINDS if kind not in self.accept]
        if not left:
            return Answer(True, told=told)
        found: dict[str, list[str]] = {kind: [] for kind in left}
        lost = False
        for batch in cast("Iterator[Batch]", store.list(BATCH, namespace, "")):
            for kind in left:
                if batch.state is BatchState.COMMITTED and self._concerns(batch, kind):
                    found[kind].append(batch.batch_id)
                    lost = lost or kind != SET_ASIDE or batch.retired_ms is not None
        bad = {kind: names for kind, names in found.items() if names}
        if not bad:
            return Answer(True, told=told)
        words = "; ".join(f"{kind}: {shortlist(names, most=MOST_NAMED)}" for kind, names in bad.items())
        return Answer(
            False,
            f"All that arrived before {utc(self.until_ms)} is committed, but these batches of the window have what is "
            f"not accepted: {words}.",
            never=lost,  # a batch that was set aside may be replayed, until clean-up retires it
            told={**told, "batches": bad},
        )

    def _concerns(self, batch: Batch, kind: str) -> bool:
        """Whether a batch has, or may have, something of a kind in the window.

        The row's times are those of records that readers see. Dropped and lost ones may lie on either side of them, but
        arrived before the batch was made.
        """
        has = {GAPS: batch.gaps > 0, DROPPED: batch.dropped > 0, SET_ASIDE: batch.set_aside is not None}[kind]
        least, greatest = batch.min_arrival_ms, batch.max_arrival_ms
        if kind != SET_ASIDE and greatest is not None:
            greatest = max(greatest, batch.created_at_ms + CLOCKS_APART_MS)
        late = self.since_ms is None or greatest is None or greatest >= self.since_ms
        early = kind != SET_ASIDE or least is None or least < self.until_ms
        return has and late and early

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"kind": "committed_up_to", **asdict(self), "accept": list(self.accept)}


@dataclass(frozen=True)
class Backlog:
    """Is what is not committed within bounds? A bound that is ``None`` does not count; all others must hold.

    ``behind_ms``: nothing uncommitted arrived longer ago, as an upper bound by the watermark. ``landed_records``: so
    many are read and not committed. ``until_loss_ms``: so long at least until unread records may expire. ``exceeded``
    turns the question round: is one of the bounds broken?
    """

    behind_ms: int | None = None
    landed_records: int | None = None
    until_loss_ms: int | None = None
    exceeded: bool = False

    def ask(self, store: LeaseStore, namespace: Namespace, clock: Clock = SYSTEM_CLOCK) -> Answer:
        """Look at the rows. The lag of the last read says nothing of now, so it is not asked."""
        now_ms, mark = clock.now_ms(), committed_up_to(store, namespace).ms
        found = shards(store, namespace, clock=clock)
        landed = sum(shard.pending_records or 0 for shard in found)
        unread = [shard.expires_from_ms for shard in found if not shard.all_read]
        known = [ms for ms in unread if ms is not None]
        # Where no shard is open, children without a row may have records that grow old.
        unknown = not unread or len(known) < len(unread)
        left = None if unknown else min(known) - now_ms
        told = {
            "behind_ms": None if mark is None else max(0, now_ms - mark),
            "landed_records": landed,
            "until_loss_ms": left,
        }
        broken = []
        if self.behind_ms is not None and (mark is None or now_ms - mark > self.behind_ms):
            broken.append("how far it is behind is unknown" if mark is None else f"{now_ms - mark} ms behind")
        if self.landed_records is not None and landed > self.landed_records:
            broken.append(f"{landed} landed records")
        if self.until_loss_ms is not None and (left is None or left < self.until_loss_ms):
            broken.append("the time until data loss is unknown" if left is None else f"{left} ms until data loss")
        if self.exceeded:
            return Answer(bool(broken), "" if broken else "All bounds hold.", told=told)
        return Answer(not broken, f"Out of bounds: {'; '.join(broken)}." if broken else "", told=told)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"kind": "backlog", **asdict(self)}


def question_of(value: Mapping[str, Any]) -> Question:
    """The question of plain JSON.

    :raises ConfigurationError: for a kind that this version does not know.
    """
    from shardbatch.control.shard_questions import LineageComplete, ShardsEnded

    rest = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items() if name != "kind"}
    kinds: Mapping[str, Any] = {"committed_up_to": CommittedUpTo, "backlog": Backlog}
    kinds = {**kinds, "shards_ended": ShardsEnded, "lineage_complete": LineageComplete}
    made = kinds.get(str(value.get("kind")))
    if made is None:
        raise ConfigurationError(
            f"No sensor of this version asks {value.get('kind')!r}.",
            remedy="Use the same version of airflow-provider-shardbatch on workers and triggerers.",
        )
    question: Question = made(**rest)
    return question
