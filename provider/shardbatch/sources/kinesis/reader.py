# SPDX-License-Identifier: Apache-2.0
"""Reads one shard, in whichever way: places, and the believed end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from shardbatch.core.ports import Page
from shardbatch.core.position import Kind, Position
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Oddities
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import InvalidAnswer, IteratorExpired, ShardNotFound, SourceError, Throttled
from shardbatch.sources.aws.refusals import Unreachable
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.deaggregation import AskRange, Piece, fresh, pieces
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.end_proof import EndProof, Found
from shardbatch.sources.kinesis.ending import Ending, confirmed, judge
from shardbatch.sources.kinesis.listing import list_all
from shardbatch.sources.kinesis.polling import Polling, Wait, Way
from shardbatch.sources.kinesis.refusals import PlaceRefused, malformed
from shardbatch.sources.records import empty

#: Steps of the proof of an end between two pages; more than most proofs have.
SILENT_STEPS = 20
EPOCH = datetime.fromtimestamp(0, UTC)
NOT_A_PLACE = (
    "The checkpoint does not belong to this shard, or lies beyond its last record. If the stream was replaced by "
    "another one, choose another app_name; else 'airflow shardbatch reset --shard {} --to TRIM_HORIZON' reads all "
    "that the shard still holds, some of it again."
)


@dataclass(frozen=True)
class Pause:
    """Seconds before the next step; ``limits``: it is the service's limits that ask for them."""

    seconds: float = 0.0
    limits: bool = False


class ShardReader:
    """One read of one shard from a position on. Used by one thread at a time.

    :param way: how answers come.
    :param probe: asks again where an end has to be proved.
    """

    def __init__(
        self, caller: Caller, way: Way, probe: Polling, shard_id: str, start: Position, ask_range: AskRange
    ) -> None:
        self._caller = caller
        self._way = way
        self._probe = probe
        self._ask_range = ask_range
        self._shard_id = shard_id
        self._start = start
        self._next = start
        self._last_read: str | None = None
        #: The record that the next records must begin with, or it is gone; ``None`` once that is known.
        self._expected = start.sequence_number if start.kind is Kind.AFTER_SEQUENCE_NUMBER else None
        self._from_oldest = False
        self._proof: EndProof | None = None
        self._patience = caller.patience()
        self._paused = NO_WAITING
        self._mark()

    def pages(self) -> Iterator[Page]:
        """Pages until the shard's end; a refused call shows as an empty page of unknown lag, so that the reader can
        look at its limits before the wait."""
        self._mark()
        try:
            while True:
                found, pause = self._step()
                for page in found:
                    yield page
                    self._mark()
                    if page.ended:
                        return
                if pause.seconds > 0:
                    self._caller.clock.sleep(pause.seconds)
                    self._paused += Waiting(pause.seconds if pause.limits else 0.0)
        finally:
            self._way.drop()

    def _mark(self) -> None:
        """From here on count what the next page costs. It is counted by thread, and after a page another one may go
        on."""
        self._sent, self._waited = self._caller.sent(), self._caller.waited()

    def _step(self) -> tuple[Iterable[Page], Pause]:
        """Ask once: the pages that there are, and the pause before the next step."""
        try:
            return self._asked()
        except ShardNotFound as error:
            unknown = error
        return self._gone(unknown)  # no consequence of the first answer: it may be the stream that is gone

    def _asked(self) -> tuple[Iterable[Page], Pause]:
        try:
            if self._proof is not None:
                return self._prove(self._proof), Pause()
            answer = self._way.ask(self._place())
            if isinstance(answer, Wait):
                return self._nothing(), Pause(answer.seconds, limits=True)
            ended, children = self._believe(answer)
            if not ended and answer.next_iterator is None and not answer.records.num_rows:
                self._proof = self._begin_proof(answer)
                return (), Pause()
        except Throttled as error:
            return self._nothing(), Pause(self._patience.throttled(error), limits=True)
        except IteratorExpired as error:
            self._way.drop()
            return (), Pause(self._patience.expired(error))
        except PlaceRefused as error:
            if self._next.kind is Kind.AT_TIMESTAMP:  # ahead of the service's clock, perhaps by a moment only
                self._way.drop()
                return (), Pause(self._patience.failed(error))
            self._begin_at_oldest(error)
            return (), Pause()
        except (InvalidAnswer, Unreachable) as error:
            self._way.reject()
            return (), Pause(self._patience.failed(error))
        self._patience.reset()
        self._way.accept(answer)
        if answer.next_iterator is None:
            self._way.drop()
        return self._deliver(answer, ended, children), Pause()

    # the end

    def _believe(self, answer: Decoded) -> tuple[bool, tuple[Shard, ...]]:
        """Whether the shard has ended, and its children.

        An end that names no children does not count yet. The records of such an answer are as good as any: what
        follows them is asked for with a new iterator.

        :raises InvalidAnswer: if the answer contradicts itself, or brings again what was read.
        """
        ending = judge(answer.next_iterator, answer.children)
        if ending is Ending.ENDED:
            return True, answer.children
        if ending is Ending.CONTRADICTORY:
            raise InvalidAnswer(f"An answer on {self._where} contradicts itself about the shard's end.")
        numbers = answer.records.column(0)[-1:].to_pylist() if ending is Ending.CLAIMED else []
        if numbers and self._last_read is not None and int(numbers[0]) <= int(self._last_read):
            raise InvalidAnswer(f"An answer on {self._where} brings again what was read.")
        return False, ()

    def _begin_proof(self, answer: Decoded) -> EndProof:
        """An answer has neither records nor a next iterator nor children: ask the listing, then the place itself.

        :raises InvalidAnswer: if the listing shows the shard open.
        """
        ended, children = confirmed(self._shard_id, list_all(self._caller))
        if not ended:
            raise InvalidAnswer(
                f"An answer claims the end of {self._where} and names no children, but the listing shows it open."
            )
        last = self._last_read or self._expected
        place = self._place()
        if last is not None and not self._from_oldest:
            place = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": last}
        return EndProof(self._probe, place, last, children)

    def _prove(self, proof: EndProof) -> Iterable[Page]:
        """Go on with the proof of an end.

        An unfinished one tells nothing of the place. So it shows only now and then, as an empty page of unknown lag at
        which the reader can look at its limits; a read that has time for one answer has it for a proof.
        """
        found = proof.step()
        # A refusal leaves a walk where it is. New beginnings are still counted, because they might never end.
        self._patience.heard()
        if found is Found.ENDED:
            gone = self._expected is not None and not proof.met
            return self._nothing(proof.lag_ms, ended=True, children=proof.children, checkpoint_gone=gone)
        if found is Found.MORE:
            self._proof = None
            self._way.drop()
            raise InvalidAnswer(f"An answer claimed the end of {self._where}, which has more records.")
        return () if proof.steps % SILENT_STEPS else self._nothing()

    def _gone(self, error: ShardNotFound) -> tuple[Iterable[Page], Pause]:
        """The shard is gone if two listings agree (W11). :raises StreamNotFound: if it is the stream that is gone."""
        if any(shard.shard_id == self._shard_id for _ in range(2) for shard in list_all(self._caller)):
            self._way.drop()
            doubt = InvalidAnswer(f"{self._where} is listed, but the service knows no such shard or place.")
            doubt.__cause__ = error
            return (), Pause(self._patience.failed(doubt))
        return self._nothing(ended=True, gone=True), Pause()

    # places

    def _place(self) -> dict[str, Any]:
        """Where a way that has to begin anew begins."""
        if self._from_oldest:
            return {"ShardIteratorType": "TRIM_HORIZON"}
        return iterator_parameters(self._start, self._last_read)

    def _begin_at_oldest(self, error: PlaceRefused) -> None:
        """The service does not take the place: begin at the oldest record, which tells whether it has expired.

        :raises SourceError: if the place does not belong to a record, or the oldest record is refused too.
        """
        self._way.drop()
        self._proof = None
        if self._from_oldest or self._next.kind is not Kind.AFTER_SEQUENCE_NUMBER:
            raise malformed(error)
        self._from_oldest = True
        self._start, self._last_read, self._expected = self._next, None, self._next.sequence_number

    def _require_place(self, records: pa.RecordBatch) -> None:
        """See that what is read from the oldest record on begins at the refused place, or after it.

        :raises SourceError: if it begins before it.
        """
        if int(records.column(0)[0].as_py()) >= int(self._expected or 0):
            return
        raise SourceError(
            f"The service does not know the place {self._next} in {self._where}, though it holds older records.",
            remedy=NOT_A_PLACE.format(self._shard_id),
            retryable=False,
        )

    # pages

    def _deliver(self, answer: Decoded, ended: bool, children: tuple[Shard, ...]) -> Iterator[Page]:
        options = self._caller.options
        records, read = fresh(answer.records, self._start)
        below = Oddities(below=answer.records.num_rows - records.num_rows)
        if answer.records.num_rows:
            if self._from_oldest:
                self._require_place(answer.records)
                self._from_oldest = False
            self._last_read = answer.records.column(0)[-1].as_py()
        gone = continues = False
        if self._expected is not None and (records.num_rows or not answer.records.num_rows):
            gone = checkpoint_gone(self._expected, records, at_tip=ended or answer.millis_behind_latest == 0)
            if gone or records.num_rows:
                self._expected = None
        for piece in pieces(records, read, options.deaggregate, self._ask_range, options.page_records):
            last = not piece.more
            # No lag of zero where more of the answer follows, or where it had records and none is left of them.
            tip = last and (piece.records.num_rows > 0 or answer.records.num_rows == 0)
            page = self._page(
                replace(piece, oddities=piece.oddities + below),
                lag=answer.millis_behind_latest if tip else max(1, answer.millis_behind_latest),
                ended=ended and last,
                children=children if last else (),
                checkpoint_gone=gone,
                continues=continues,
                asked=answer.asked,
            )
            gone, below, continues = False, Oddities(), True
            yield page

    def _nothing(self, lag: int | None = None, *, ended: bool = False, **fields: Any) -> Iterator[Page]:
        """One empty page, made when it is asked for, so that it counts what the step cost."""
        yield self._page(Piece(empty(), None), lag=lag, ended=ended, silent=lag is None and not ended, **fields)

    def _page(self, piece: Piece, *, lag: int | None, **fields: Any) -> Page:
        if piece.next is not None:
            self._next = max(self._next, piece.next)
        requests, waiting = self._caller.sent() - self._sent, self._caller.waited() - self._waited + self._paused
        self._paused = NO_WAITING
        self._mark()
        return Page(
            piece.records,
            self._next,
            # Beside records a lag of zero says nothing: services and emulators report it of any answer.
            at_tip=lag == 0 and piece.records.num_rows == 0,
            lag_ms=lag,
            requests=requests,
            oddities=piece.oddities,
            waiting=waiting,
            **fields,
        )

    @property
    def _where(self) -> str:
        return f"{self._shard_id} of the {self._caller.where}"


def iterator_parameters(start: Position, last_read: str | None) -> dict[str, Any]:
    """What to ask an iterator for: after the last record that was read, whether or not it was delivered; else at the
    start. A checkpoint asks for its own record again, which is then dropped: an aggregate may have more in it."""
    if last_read is not None:
        return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": last_read}
    if start.kind is Kind.AFTER_SEQUENCE_NUMBER:
        return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": start.sequence_number}
    if start.kind is Kind.AT_TIMESTAMP:
        return {
            "ShardIteratorType": "AT_TIMESTAMP",
            "Timestamp": EPOCH + timedelta(milliseconds=start.timestamp_ms or 0),
        }
    if start.kind is Kind.TRIM_HORIZON:
        return {"ShardIteratorType": "TRIM_HORIZON"}
    raise ValueError(f"nothing can be read from {start}")


def checkpoint_gone(expected: str, first: pa.RecordBatch, *, at_tip: bool) -> bool:
    """Whether an answer, before which there was no record, shows that the expected record is held no more.

    Kinesis does not say so: it begins at the oldest record that it still holds, or has none up to the tip or the end.
    """
    if first.num_rows:
        return int(first.column(0)[0].as_py()) > int(expected)
    return at_tip
