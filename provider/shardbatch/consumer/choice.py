# SPDX-License-Identifier: Apache-2.0
"""What a decision needs before it is made: the starts that count, and roots that can be told (PROTOCOL I, B4, B8).

Nothing here changes a batch. What cannot be told to readers is refused while that still costs nothing: after the
decision every later run of the application would wait for the marker that cannot be written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from shardbatch.consumer.consumer import Consumer, first_count
from shardbatch.consumer.settle import one_each, roots_of, starts_at
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.interval_output import IntervalOutput, key_of
from shardbatch.core.lease import Lease
from shardbatch.core.policies import Sink
from shardbatch.core.position import Kind, after
from shardbatch.core.start import Choice, Start, Work, choose
from shardbatch.errors import ConfigurationError, NothingFinished, ReplayRefused

#: Most bytes of the starts on a batch row: an item of DynamoDB holds 400 KB with all else.
MOST_START_BYTES = 300_000


@dataclass(frozen=True)
class Chosen:
    """What a decision will say: the starts that count, every root to be told, the number of an interval's decision.

    ``same``: the row says all of it already. ``note``: works that a person marked, or that do not count.
    """

    starts: tuple[Start, ...] = ()
    roots: tuple[str, ...] = ()
    number: int = 0
    same: bool = False
    note: str | None = None


def choose_starts(consumer: Consumer, batch: Batch, attempt: int, works: Sequence[Work]) -> Chosen:
    """What the commit of an attempt decides for a batch, once it is seen that all of its roots can be told.

    :raises NothingFinished: if no start counts, or it is not known which.
    :raises StagingError: if a root cannot be told: out of reach, or the data are not seen there.
    :raises OutputTaken: if a root belongs to another application.
    :raises ReplayRefused: if a later run over the same interval has decided.
    """
    if batch.records == 0:
        return Chosen(number=batch.number, roots=batch.roots)
    choice = _choose(consumer, batch, attempt, works)
    own_sink = batch.sink == Sink.OWN.value
    decided = batch.state is BatchState.COMMITTED
    same = decided and batch.set_aside is None and set(choice.starts) == set(batch.start) and not own_sink
    if same:
        return Chosen(batch.start, batch.roots, batch.number, same=True)
    _require_room(batch, choice.starts)
    _require_apart(consumer, batch)
    outputs = [output for start in choice.starts for output in start.outputs]
    roots = one_each(consumer.landing, [*roots_of(consumer.landing, batch), *outputs])
    for root in roots:
        folders = [_folder(batch, start) for start in starts_at(consumer.landing, choice.starts, root)]
        consumer.landing.outputs.look(root, folders, str(batch.namespace), shared=batch.shared)
    number, roots = _number(consumer, batch, roots)
    return Chosen(choice.starts, roots, number, note=_note(choice, own_sink=own_sink))


def _choose(consumer: Consumer, batch: Batch, attempt: int, works: Sequence[Work]) -> Choice:
    own_sink = batch.sink == Sink.OWN.value
    left = consumer.landing.left_by(batch.namespace, batch.batch_id, [work.name for work in works])
    choice = choose(works, left, attempt, own_sink=own_sink)
    if own_sink:
        return choice
    if not choice.entered:
        raise NothingFinished(
            "None of the work of batch {} has entered a block of open_batch up to attempt {}, so nothing is "
            "committed.".format(batch.batch_id, attempt)
        )
    newest = max(start.attempt for start in choice.starts)
    if batch.set_aside is not None and newest <= batch.decided:
        raise NothingFinished(
            "Batch {} was set aside; attempt {} ran before that and is not recorded.".format(batch.batch_id, newest),
            remedy="Clear the work of its run with its downstream tasks: an attempt that is opened later counts.",
        )
    return choice


def _note(choice: Choice, *, own_sink: bool) -> str | None:
    if own_sink and choice.passed_over and not choice.ended:
        return "committed_by_hand"
    return "not counted: {}".format(", ".join(choice.passed_over)) if choice.passed_over else None


def _folder(batch: Batch, start: Start) -> str:
    return "batch_id={}/start={}".format(batch.batch_id, start.start_id)


def _require_room(batch: Batch, starts: Sequence[Start]) -> None:
    size = len(json.dumps([start.to_json() for start in starts]))
    if size > MOST_START_BYTES:
        raise ConfigurationError(
            "The {} starts of batch {} take {} bytes of its row, which may have {}.".format(
                len(starts), batch.batch_id, size, MOST_START_BYTES
            ),
            remedy="Let fewer mapped tasks work on one batch, or each of them enter fewer blocks of open_batch.",
        )


# ------------------------------------------------------------------ intervals


def _number(consumer: Consumer, batch: Batch, roots: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """The number of an interval's decision and the roots that it is told in: its own and those of earlier runs.

    It is drawn before the decision: of two runs over one interval that decide at once, one has the higher, whoever
    writes first. A batch keeps its number, so a replay of it does not come before a later run.
    """
    if batch.interval is None:
        return 0, roots
    while True:
        row = interval_row(consumer, batch.interval)
        if row is not None and batch.number and batch.number < row.number:
            raise ReplayRefused(
                "A later run read the interval of batch {} again, and readers see its output.".format(batch.batch_id),
                remedy="Clear that run, or drop its batch first; 'airflow shardbatch batches' lists both.",
            )
        known = row or IntervalOutput(batch.namespace, batch.interval, first_count())
        number = batch.number or known.number + 1
        widened = known.widened(max(number, known.number), one_each(consumer.landing, [*known.roots, *roots]))
        if consumer.store.replace(row, widened) if row is not None else consumer.store.create(widened):
            return number, widened.roots


def interval_row(consumer: Consumer, interval: tuple[int, int]) -> IntervalOutput | None:
    """The row of an interval's outputs as it stands now."""
    return cast("IntervalOutput | None", consumer.store.get(key_of(consumer.namespace, interval)))


def _require_apart(consumer: Consumer, batch: Batch) -> None:
    """See that an interval whose records live readers see has none that they see already (ROOTS 12).

    Its bounds are put on the application's row by compare-and-set first, so that of two that overlap one is refused.
    Against the live application it is compared by the first position that each lease ever had, not by what is committed
    so far: a live run may be at work.
    """
    if batch.interval is None or not batch.joins:
        return
    start, end = batch.interval
    while True:
        row = consumer.expect_application()
        if batch.interval in row.shown_intervals:
            break
        others = [other for other in row.shown_intervals if other[0] < end and start < other[1]]
        if others:
            raise _overlaps(batch, "those of the interval from {} to {} (ms)".format(*others[0]))
        if consumer.store.replace(row, row.showing(batch.interval)):
            break
    begins = {lease.shard_id: lease for lease in replace(consumer, scope="").leases()}
    for lease in consumer.leases():
        pending = lease.pending
        if pending is None or not pending.records:
            continue
        live = begins.get(lease.shard_id)
        if live is None or live.begins is None or not _before(lease, live, end):
            raise _overlaps(batch, "shard {} from its first position on".format(lease.shard_id))


def _before(side: Lease, live: Lease, end_ms: int) -> bool:
    assert side.pending is not None
    assert live.begins is not None
    if live.begins.kind is Kind.AT_TIMESTAMP:
        return end_ms + MARGIN_MS <= (live.begins.timestamp_ms or 0)
    return live.begins.exact and side.pending.last is not None and after(side.pending.last) <= live.begins


def _overlaps(batch: Batch, what: str) -> ConfigurationError:
    return ConfigurationError(
        "Batch {} of an interval would join what live readers see, but they may have its records already: {}.".format(
            batch.batch_id, what
        ),
        remedy='Leave out Outputs(intervals="join"): then readers name the interval to see its output. Only what '
        "arrived before the application's start can join.",
    )
