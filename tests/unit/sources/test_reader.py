# SPDX-License-Identifier: Apache-2.0
"""The reader of one shard between a way that answers and whoever takes its pages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.shard import Shard
from shardbatch.core.waiting import NO_WAITING
from shardbatch.errors import InvalidAnswer, SourceError, Throttled
from shardbatch.sources.aws.pace import Patience
from shardbatch.sources.kinesis import reader
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.options import KinesisOptions
from shardbatch.sources.kinesis.reader import ShardReader
from shardbatch.sources.records import SCHEMA, empty
from tests.support.aggregates import Packed, pack

CHILD = Shard("child", ("s",))


def answered(*payloads: bytes, first: int = 1, token: str | None = "on", children: tuple[Shard, ...] = ()) -> Decoded:
    rows = [
        {"sequence_number": str(at), "sub_sequence_number": 0, "partition_key": "k", "arrival_time": at, "data": data}
        for at, data in enumerate(payloads, first)
    ]
    records = pa.RecordBatch.from_pylist(rows, schema=SCHEMA) if rows else empty()
    return Decoded(records, token, children, 0, 0)


class Scripted:
    """A way whose every answer, or refusal, a test decides."""

    def __init__(self, answer: Callable[[], Decoded]) -> None:
        self._answer = answer

    def ask(self, place: dict[str, Any]) -> Decoded:
        return self._answer()

    def accept(self, answer: Decoded) -> None: ...

    def reject(self) -> None: ...

    def drop(self) -> None: ...


def read(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[], Decoded], probe: Callable[[], Decoded], **options: Any
) -> list[Page]:
    said = KinesisOptions(**options)
    caller: Any = SimpleNamespace(
        clock=Clock(now_ms=lambda: 0, monotonic=lambda: 0.0, sleep=lambda seconds: None),
        options=said,
        where="stream",
        sent=lambda: 0,
        waited=lambda: NO_WAITING,
        patience=lambda: Patience(said.attempts, said.throttles),
    )
    monkeypatch.setattr(reader, "list_all", lambda caller: [Shard("s", (), None, closed=True)])
    asks: tuple[Any, Any] = (Scripted(way), Scripted(probe))
    return list(ShardReader(caller, *asks, "s", TRIM_HORIZON, lambda: None).pages())


def test_all_but_the_first_piece_of_an_answer_say_that_they_continue_it(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(Packed("k", b"a"), Packed("k", b"b"), Packed("k", b"c"))
    answers = iter([answered(packed), answered(packed, b"d", first=2), answered(token=None, children=(CHILD,))])
    pages = read(monkeypatch, lambda: next(answers), answered, page_records=2)
    assert [page.continues for page in pages] == [False, True, False, True, False]
    assert [page.records.num_rows for page in pages] == [2, 1, 2, 2, 0]


def test_refusals_between_the_answers_of_a_proof_are_not_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(10_000))

    def every_second() -> Decoded:
        call = next(calls)
        if call % 2 == 0:
            raise Throttled("Not now.")
        return answered(token=None if call % 20 == 19 else "on")  # ten answers a walk

    assert read(monkeypatch, lambda: answered(token=None), every_second)[-1].ended


@pytest.mark.parametrize("error", [SourceError, InvalidAnswer])
def test_a_proof_that_is_always_begun_anew_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Though every second answer is good, no walk gets to the end."""
    calls = iter(range(1000))

    def every_second() -> Decoded:
        if next(calls) % 2:
            raise error("No.")
        return answered()

    with pytest.raises(error):
        read(monkeypatch, lambda: answered(token=None), every_second)


def test_an_end_that_is_claimed_and_disproved_for_ever_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(1000))
    with pytest.raises(InvalidAnswer):
        read(monkeypatch, lambda: answered(token=None), lambda: answered(*[b"more"] * (next(calls) % 2)))
