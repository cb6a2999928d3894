# SPDX-License-Identifier: Apache-2.0
"""Starts of applications, the records that tasks leave at their end, and which of them a decision takes (PROTOCOL I).

A *start* is one entering of ``open_batch``. It leaves a begun marker when it begins and a done marker when it ends
well. A *work* is a task instance of the block. When a try of it ends well, it looks at the markers of its application
and leaves an *end record* that names the application's starts (:func:`resolve`). A commit goes by end records
(:func:`choose`): the starts of another application, of an older try or of a task that is not in the block any more
stand beside them and do not count.

The race, step by step. An application may outlive the try that started it, and a retry may start another one beside it:

1. A start leaves its begun marker before anything can be written to its folder. So every output
   is known.
2. It leaves its done marker after all of its output is written. A start without it is half, or still at work.
3. The try ends after its application, and leaves the end record as its last act. If the worker dies before that, there
   is no record, Airflow does not see a success, and the task runs again.
4. An application of an earlier try may begin or end a start at any time in between. Its starts carry the token of that
   earlier try, so :func:`resolve` does not take them for this try's. The exception is a try that has no starts with
   its own token: it may have gone on with the application of the try before, which was not told the new token.
5. A cluster may run one application in two driver processes, one after the other, both with the same token. All starts
   of the process that was born last count, and none of the one before.
6. The commit is bound to an attempt. A work that has left anything in a later attempt makes it refuse, in
   :func:`choose`: the commit of that attempt decides.

All of this is files that are written once, under names of their own: no write overwrites another, and a late one adds a
file that nothing names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardbatch.errors import NothingFinished, StartUnfinished


@dataclass(frozen=True)
class Start:
    """One start that ended well: its id, the attempt it belongs to, the work, and the output roots it wrote below.

    Its data stand in ``batch_id=…/start=…`` below each root.
    """

    start_id: str
    attempt: int
    work: str
    outputs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "start_id": self.start_id,
            "attempt": self.attempt,
            "work": self.work,
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Start:
        """Back from plain JSON; what a later version added is passed over."""
        return cls(value["start_id"], int(value["attempt"]), value.get("work", ""), tuple(value.get("outputs", ())))


@dataclass(frozen=True)
class Begun:
    """A start that began. ``token`` comes from the try that started its application, empty if none was passed.

    Tokens of later tries are greater. ``incarnation`` is one for each driver process and sorts by its birth;
    ``driver_attempt`` numbers the processes that a cluster started one after another for one submission, 0 where it is
    not known. ``spark_application`` is Spark's own id of it. Start ids sort by the time of their beginning.
    """

    start_id: str
    attempt: int
    work: str
    token: str = ""
    incarnation: str = ""
    driver_attempt: int = 0
    spark_application: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "start_id": self.start_id,
            "attempt": self.attempt,
            "work": self.work,
            "token": self.token,
            "incarnation": self.incarnation,
            "driver_attempt": self.driver_attempt,
            "application": self.spark_application,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Begun:
        """Back from plain JSON; what a later version added is passed over."""
        get = value.get
        return cls(
            start_id=value["start_id"],
            attempt=int(value["attempt"]),
            work=get("work", ""),
            token=get("token", ""),
            incarnation=get("incarnation", ""),
            driver_attempt=int(get("driver_attempt") or 0),
            spark_application=get("application", ""),
        )


@dataclass(frozen=True)
class EndRecord:
    """What a try of a work says at its good end: the starts of its application, none if it entered no block.

    ``try_number`` is Airflow's; the higher one ended later.
    """

    work: str
    attempt: int
    try_number: int
    token: str = ""
    starts: tuple[Start, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "work": self.work,
            "attempt": self.attempt,
            "try_number": self.try_number,
            "token": self.token,
            "starts": [start.to_json() for start in self.starts],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EndRecord:
        """Back from plain JSON; what a later version added is passed over."""
        starts = tuple(Start.from_json(start) for start in value["starts"])
        return cls(value["work"], int(value["attempt"]), int(value["try_number"]), value.get("token", ""), starts)


@dataclass(frozen=True)
class Work:
    """A task instance of the block that Airflow calls a success.

    ``given``: it may have been given the batch. ``runs``: Airflow runs it, which it does not with an EmptyOperator.
    """

    name: str
    given: bool = True
    runs: bool = True


@dataclass(frozen=True)
class Left:
    """What stands beside a manifest of one work: its end records, and the attempts in which it began a start, with the
    ids of these starts."""

    ends: tuple[EndRecord, ...] = ()
    begun: frozenset[int] = frozenset()
    started: frozenset[tuple[int, str]] = frozenset()

    @property
    def highest(self) -> int:
        """The highest attempt in which the work left anything, 0 if it left nothing."""
        return max([*self.begun, *(record.attempt for record in self.ends)], default=0)

    @property
    def last(self) -> EndRecord | None:
        """The end record of the last try of that attempt, if there is one."""
        records = [record for record in self.ends if record.attempt == self.highest]
        return max(records, key=lambda record: (record.try_number, record.token), default=None)

    @property
    def unnamed(self) -> bool:
        """Whether a start of that attempt is named by none of its end records."""
        named = {start.start_id for record in self.ends for start in record.starts}
        return any(number == self.highest and start_id not in named for number, start_id in self.started)


@dataclass(frozen=True)
class ChosenStarts:
    """The starts that a decision takes; ``entered``: some work entered a block. ``passed_over`` are works that ran,
    left no end record and do not count; ``ended`` whether any work left one."""

    starts: tuple[Start, ...] = ()
    entered: bool = False
    ended: bool = False
    passed_over: tuple[str, ...] = field(default=())


def resolve(
    work: str, attempt: int, token: str, begun: Iterable[Begun], done: Mapping[str, Start], *, sure: bool = False
) -> tuple[Start, ...]:
    """The starts of the application that a try of a work has seen end well.

    Those count that were told the try's token; of an application that its cluster began again, or that was sent twice,
    the process that was born last, with all its starts, however many blocks it entered and roots it wrote to. Where
    none was told the token, the job may be one of an earlier try that this try took up again without it.

    :param sure: the try knows that its application was told the token: then it entered no block.
    :raises StartUnfinished: if one of its starts has not ended well.
    """
    known = [start for start in begun if start.attempt == attempt]
    own = [start for start in known if start.token == token]
    if not own:  # an application that was not told any token may belong to this try
        own = [s for s in known if not s.token or (not sure and (s.token < token or not token))]
    if not own:
        return ()
    newest = max(own, key=lambda start: (start.token, start.incarnation))
    # Numbers of a cluster compare within one of its applications only: a try may have submitted another since.
    same = [s for s in own if (s.token, s.spark_application) == (newest.token, newest.spark_application)]
    last = max(same, key=lambda start: (start.driver_attempt, start.incarnation))
    mine = sorted(
        (start for start in own if (start.token, start.incarnation) == (last.token, last.incarnation)),
        key=lambda start: start.start_id,
    )
    unfinished = [start for start in mine if start.start_id not in done]
    if unfinished:
        raise StartUnfinished(
            f"The application of {work} has ended, but of {len(mine)} blocks of open_batch that it entered it left "
            f"{len(mine) - len(unfinished)} well."
        )
    return tuple(done[start.start_id] for start in mine)


def choose(works: Sequence[Work], left: Mapping[str, Left], attempt: int, *, own_sink: bool = False) -> ChosenStarts:
    """The starts that a commit bound to ``attempt`` takes, from the works that ended well.

    Of a work counts the highest attempt in which it left anything, and there the last try that left an end record.

    :param left: what stands beside the manifest, for each work.
    :param own_sink: the author's sink is atomic by itself, so a person's word that a work is done is enough.
    :raises NothingFinished: if a work has begun in a later attempt; if it did not end by itself in its highest one; or
        if it left nothing although it may have been given the batch.
    """
    starts: list[Start] = []
    passed_over: list[str] = []
    entered = ended = False
    for work in sorted(works, key=lambda item: item.name):
        found = left.get(work.name, Left())
        highest, last = found.highest, found.last
        if highest > attempt:
            raise _later(work, highest, attempt)
        if last is not None:
            starts.extend(last.starts)
            entered, ended = entered or bool(last.starts), True
        elif own_sink or not (highest or (work.given and work.runs)):
            passed_over += [work.name] if work.runs else []
        else:
            raise _by_hand(work)
    return ChosenStarts(tuple(starts), entered, ended, tuple(passed_over))


def _later(work: Work, highest: int, attempt: int) -> NothingFinished:
    return NothingFinished(
        f"{work.name} has begun in attempt {highest} already, and this commit belongs to attempt {attempt}: nothing "
        "is changed.",
        remedy="The commit of that attempt decides. If none follows, clear the task with its downstream tasks.",
    )


def _by_hand(work: Work) -> NothingFinished:
    return NothingFinished(
        f"{work.name} is a success, but it did not end by itself in this attempt: it was marked by hand, or it ended "
        "where shardbatch does not run. What its application wrote may be half, so nothing is committed.",
        remedy="Clear the task with its downstream tasks, so that it runs again and commit after it. (A task that is "
        "wired by hand leaves an end record only if record_end was called for it.)",
    )
