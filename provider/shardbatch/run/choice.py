# SPDX-License-Identifier: Apache-2.0
"""What a decision needs before it is made: the starts that count, and roots that can get a marker (PROTOCOL I, B4, B8).

Nothing here changes a batch. A decision that cannot be written to its roots is refused here, while that costs nothing:
after the decision every later run of the application would wait for the marker that cannot be written.

The race, step by step. Applications write, tasks end, and other runs decide, all while this commit looks:

1. The commit has read the batch row. Its decision is a compare-and-set on that row (``commit._decide``). If anything
   moves the row meanwhile (a person, a new owner, a new attempt), the write fails and everything here is done again.
2. An application that outlived its task may still write. It writes to start folders of its own, and those are not
   chosen: the choice goes by the end records that tasks left (``core/start.py``), and a record names its starts.
3. A job that its task did not wait for may enter a block after the end record was left. So begun markers are looked at
   once more (:func:`_with_late_starts`). A block that begins after that look is not in the decision: its folder is
   never read.
4. Every root is looked at before anything is written (:func:`_look`).
5. Of an interval something is written before the decision: that live readers see it, to the application's row
   (``require_apart``), then its number and roots, to the interval's row (``draw_number``). Two runs over one interval
   each get a number of their own, and the higher one counts for readers, whichever decides first. A commit that dies
   after this leaves a number that is not used, and roots that are told more than they need.
6. Drawing the number may show roots of a run that has drawn since: these are looked at as well, and then the decision
   is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.policies import Sink
from shardbatch.core.shortlist import shortlist
from shardbatch.core.start import ChosenStarts, Left, Start, Work, choose, resolve
from shardbatch.errors import ConfigurationError, NothingFinished, StartUnfinished
from shardbatch.run.consumer import Consumer
from shardbatch.run.intervals import draw_number, require_apart, require_latest, roots_before
from shardbatch.run.settle import one_each, roots_of, writers_of
from shardbatch.run.staging_place import require_batch_here

#: Most bytes of the starts on a batch row: an item of DynamoDB holds 400 KB with all else.
MOST_START_BYTES = 300_000


@dataclass(frozen=True)
class Chosen:
    """The content of a decision: the starts that count, every root that gets a marker, the number for an interval.

    ``same``: the row already has all of it. ``note``: works that a person marked, or that do not count.
    """

    starts: tuple[Start, ...] = ()
    roots: tuple[str, ...] = ()
    number: int = 0
    same: bool = False
    note: str | None = None


def choose_starts(consumer: Consumer, batch: Batch, attempt: int, works: Sequence[Work]) -> Chosen:
    """The decision of a commit for an attempt of a batch, after a check that all of its roots can get a marker.

    :raises NothingFinished: if no start counts, or it is unknown which.
    :raises StagingMoved: if the batch stands in another staging folder than this run's.
    :raises StagingError: if a root cannot get a marker: it is out of reach, or the data are not seen there.
    :raises OutputTaken: if a root belongs to another application.
    :raises ReplayRefused: if a later run over the same interval has decided, or is about to.
    :raises ConfigurationError: if an interval would join live readers who may have its records already.
    """
    if batch.records == 0:
        return Chosen(number=batch.number, roots=batch.roots)
    require_batch_here(consumer, batch)
    choice = _choose(consumer, batch, attempt, works)
    own_sink = batch.sink == Sink.OWN.value
    decided = batch.state is BatchState.COMMITTED
    same = decided and batch.set_aside is None and set(choice.starts) == set(batch.starts) and not own_sink
    if same:
        return Chosen(batch.starts, batch.roots, batch.number, same=True)
    _require_room(batch, choice.starts)
    require_latest(consumer, batch)
    outputs = [output for start in choice.starts for output in start.outputs]
    earlier = [*roots_of(consumer.landing, batch), *roots_before(consumer, batch)]
    roots = one_each(consumer.landing, [*earlier, *outputs])
    _look(consumer, batch, choice.starts, roots)
    require_apart(consumer, batch)
    # What comes after this write may fail. Then the next try draws a higher number, or, of a replay, the same.
    number, told = draw_number(consumer, batch, roots)
    _look(consumer, batch, choice.starts, set(told) - set(roots))  # those of a run that has drawn since
    return Chosen(choice.starts, told, number, note=_note(choice, own_sink=own_sink))


def _look(consumer: Consumer, batch: Batch, starts: Sequence[Start], roots: Iterable[str]) -> None:
    """Check that all of these roots can get a marker."""
    writers, outputs = writers_of(consumer.landing, starts), consumer.landing.outputs
    for root in roots:
        folders = [outputs.folder(batch.batch_id, start.start_id) for start in writers.get(outputs.place(root), [])]
        outputs.look(root, folders, str(batch.namespace), shared=batch.shared)


def _choose(consumer: Consumer, batch: Batch, attempt: int, works: Sequence[Work]) -> ChosenStarts:
    own_sink = batch.sink == Sink.OWN.value
    left = consumer.landing.left_by(batch.namespace, batch.batch_id, [work.name for work in works])
    left = {name: _with_late_starts(consumer, batch, name, found) for name, found in left.items()}
    choice = choose(works, left, attempt, own_sink=own_sink)
    if own_sink:
        return choice
    if not works:
        raise NothingFinished(
            f"This commit names no work, so nothing of batch {batch.batch_id} is committed.",
            remedy="Give CommitOperator(work=[...]) the ids of the tasks that work on the batch.",
        )
    if not choice.entered:
        text = (
            "None of the work of batch {} has entered a block of open_batch up to attempt {}, so nothing is committed"
        )
        raise _nothing_entered(text.format(batch.batch_id, attempt), choice.passed_over)
    newest = max(start.attempt for start in choice.starts)
    if batch.set_aside is not None and newest <= batch.decided:
        raise NothingFinished(
            f"Batch {batch.batch_id} was set aside; attempt {newest} ran before that and is not recorded.",
            remedy="Clear the work of its run with its downstream tasks: an attempt that is opened later counts.",
        )
    return choice


def _with_late_starts(consumer: Consumer, batch: Batch, work: str, found: Left) -> Left:
    """Adds the starts that an application has begun since its task ended: the task submitted a job and did not wait.

    :raises StartUnfinished: if the application is still in a block, or left one with an error. Another task of the
        block has to wait for it.
    """
    last = found.last
    if last is None or not last.token or not found.unnamed:
        return found
    begun, done = consumer.landing.starts_of(batch.namespace, batch.batch_id, work, last.attempt)
    if not any(start.token == last.token for start in begun):
        return found
    try:
        starts = resolve(work, last.attempt, last.token, begun, done, sure=True)
    except StartUnfinished as error:
        raise StartUnfinished(
            f"The application of {work} is in a block of open_batch, or has left one badly, though its task has ended.",
            remedy="Let a task of the block wait for its end (a sensor, or wait_for_completion=True).",
        ) from error
    others = tuple(record for record in found.ends if record is not last)
    return replace(found, ends=(*others, replace(last, starts=starts)))


def _nothing_entered(text: str, silent: Sequence[str]) -> NothingFinished:
    """The error if no work has entered a block. ``silent`` are works that left nothing, as when a person marked
    them."""
    if not silent:
        return NothingFinished(text + ".")
    names = "{} is a success and has left nothing" if len(silent) == 1 else "{} are a success and have left nothing"
    return NothingFinished(
        f"{text}: {names.format(shortlist(silent))}.",
        remedy="If a person marked it as a success, clear it with its downstream tasks, so that it runs and commit "
        "after it; to let the shards go on without output, use 'airflow shardbatch set-aside --batch'. If it ran: "
        + NothingFinished.remedy,
    )


def _note(choice: ChosenStarts, *, own_sink: bool) -> str | None:
    if own_sink and choice.passed_over and not choice.ended:
        return "committed_by_hand"
    return "not counted: {}".format(", ".join(choice.passed_over)) if choice.passed_over else None


def _require_room(batch: Batch, starts: Sequence[Start]) -> None:
    outputs = {output for start in starts for output in start.outputs}
    size = len(json.dumps([start.to_json() for start in starts])) + len(json.dumps([*outputs, *batch.roots]))
    if size > MOST_START_BYTES:
        raise ConfigurationError(
            f"The {len(starts)} starts of batch {batch.batch_id} take {size} bytes of its row, which may have "
            f"{MOST_START_BYTES}.",
            remedy="Let fewer mapped tasks work on one batch, or each of them enter fewer blocks of open_batch.",
        )
