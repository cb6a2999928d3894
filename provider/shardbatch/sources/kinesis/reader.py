# SPDX-License-Identifier: Apache-2.0
"""Reads one shard, in whichever way: places, and the believed end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from shardbatch.core.ports import Page
from shardbatch.core.position import Kind, Position
from shardbatch.core.shard import Shard
from shardbatch.errors import InvalidAnswer, IteratorExpired, ShardNotFound, Throttled
from shardbatch.sources.kinesis.calls import Caller, Unreachable
from shardbatch.sources.kinesis.deaggregation import AskRange, Piece, fresh, pieces
from shardbatch.sources.kinesis.decoder import Decoded, empty
from shardbatch.sources.kinesis.ending import Ending, confirmed, judge
from shardbatch.sources.kinesis.listing import list_all
from shardbatch.sources.kinesis.polling import Wait, Way

EPOCH = datetime.fromtimestamp(0, UTC)


class ShardReader:
    """One read of one shard from a position on. Used by one thread at a time."""

    def __init__(self, caller: Caller, way: Way, shard_id: str, start: Position, ask_range: AskRange) -> None:
        self._caller = caller
        self._way = way
        self._ask_range = ask_range
        self._shard_id = shard_id
        self._start = start
        self._next = start
        self._last_read: str | None = None
        self._expect_checkpoint = start.kind is Kind.AFTER_SEQUENCE_NUMBER
        self._end_claimed_at: Position | None = None
        self._patience = caller.patience()
        self._sent = caller.sent()

    def pages(self) -> Iterator[Page]:
        """Pages until the shard's end; a refused call shows as an empty page of unknown lag, so that the reader can
        look at its limits before the wait."""
        try:
            while True:
                self._sent = self._caller.sent()
                found, delay = self._step()
                for page in found:
                    yield page
                    if page.ended:
                        return
                if delay > 0:
                    self._caller.clock.sleep(delay)
        finally:
            self._way.drop()

    def _step(self) -> tuple[Iterable[Page], float]:
        """Ask once: the pages that there are, and seconds to wait before the next step."""
        try:
            answer = self._way.ask(iterator_parameters(self._start, self._last_read))
            if isinstance(answer, Wait):
                return [self._page(Piece(empty(), None), lag=None)], answer.seconds
            ended, children = self._believe(answer)
        except Throttled as error:
            delay = self._patience.throttled(error)
            return [self._page(Piece(empty(), None), lag=None)], delay
        except IteratorExpired as error:
            self._way.drop()
            return (), self._patience.expired(error)
        except ShardNotFound as error:
            return self._gone(error)
        except (InvalidAnswer, Unreachable) as error:
            self._way.reject()
            return (), self._patience.failed(error)
        self._patience.reset()
        self._way.accept(answer)
        return self._deliver(answer, ended, children), 0.0

    def _believe(self, answer: Decoded) -> tuple[bool, tuple[Shard, ...]]:
        """Whether the shard has ended, and its children.

        An end that names no children is believed of a closed shard once it is claimed twice at one place: the shard may
        have more records, and an answer that merely lost its iterator looks the same.

        :raises InvalidAnswer: if the answer contradicts itself or the listing, or is to be asked for again.
        """
        ending = judge(answer.next_iterator, answer.children)
        if ending is Ending.OPEN:
            return False, ()
        if ending is Ending.ENDED:
            return True, answer.children
        where = f"{self._shard_id} of the {self._caller.where}"
        if ending is Ending.CONTRADICTORY:
            raise InvalidAnswer(f"An answer on {where} contradicts itself about the shard's end.")
        if self._end_claimed_at != self._next:
            self._end_claimed_at = self._next
            raise InvalidAnswer(f"An answer claims the end of {where} and names no children; it is asked for again.")
        ended, children = confirmed(self._shard_id, list_all(self._caller))
        if ended:
            return True, children
        raise InvalidAnswer(f"Answers claim the end of {where} and name no children, but the listing shows it open.")

    def _gone(self, error: ShardNotFound) -> tuple[Iterable[Page], float]:
        """The shard is gone if the listing agrees. :raises StreamNotFound: if it is the stream that is gone."""
        if any(shard.shard_id == self._shard_id for shard in list_all(self._caller)):
            self._way.drop()
            doubt = InvalidAnswer(
                f"{self._shard_id} of the {self._caller.where} is listed, but the service knows no such shard or place."
            )
            doubt.__cause__ = error
            return (), self._patience.failed(doubt)
        return [self._page(Piece(empty(), None), lag=None, ended=True, gone=True)], 0.0

    def _deliver(self, answer: Decoded, ended: bool, children: tuple[Shard, ...]) -> Iterator[Page]:
        records = answer.records
        gone = self._expect_checkpoint and checkpoint_gone(
            self._start, records, at_tip=ended or answer.millis_behind_latest == 0
        )
        self._expect_checkpoint &= not (gone or records.num_rows)
        if records.num_rows:
            self._last_read = records.column(0)[-1].as_py()
        options = self._caller.options
        records, read = fresh(records, self._start)
        for piece in pieces(records, read, options.deaggregate, self._ask_range, options.page_records):
            last = not piece.more
            # No lag of zero where more of the answer follows, or where it had records and none is left of them.
            tip = last and (piece.records.num_rows > 0 or answer.records.num_rows == 0)
            yield self._page(
                piece,
                lag=answer.millis_behind_latest if tip else max(1, answer.millis_behind_latest),
                ended=ended and last,
                children=children if last else (),
                checkpoint_gone=gone,
            )
            gone = False

    def _page(self, piece: Piece, *, lag: int | None, **fields: Any) -> Page:
        if piece.next is not None:
            self._next = max(self._next, piece.next)
        sent = self._caller.sent()
        requests, self._sent = sent - self._sent, sent
        return Page(
            piece.records,
            self._next,
            millis_behind_latest=lag,
            requests=requests,
            oddities=piece.oddities,
            **fields,
        )


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


def checkpoint_gone(start: Position, first: pa.RecordBatch, *, at_tip: bool) -> bool:
    """Whether an answer, before which there was no record, shows that the checkpoint's record is held no more.

    Kinesis does not say so: it begins at the oldest record that it still holds, or has none up to the tip or the end.
    """
    if first.num_rows:
        return int(first.column(0)[0].as_py()) > int(start.sequence_number or 0)
    return at_tip
