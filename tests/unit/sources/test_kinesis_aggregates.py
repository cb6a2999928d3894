# SPDX-License-Identifier: Apache-2.0
"""Records that a producer packed into one: the format, what is odd about them, and reading on inside of one."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from aws_kinesis_agg.aggregator import RecordAggregator
from aws_kinesis_agg.deaggregator import iter_deaggregate_records
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.position import TRIM_HORIZON, Position, after
from shardbatch.core.shard import KeyRange
from shardbatch.core.slice import NOTHING_ODD, Oddities
from shardbatch.sources.kinesis import deaggregation
from shardbatch.sources.kinesis.aggregate import take_apart
from shardbatch.sources.kinesis.deaggregation import Piece, fresh, pieces
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from shardbatch.sources.kinesis.options import Deaggregate
from shardbatch.sources.records import SCHEMA
from tests.support.aggregates import FIXTURE, MAGIC, Packed, number, pack, sealed, text

WHOLE = HASH_KEYS
LOWER, UPPER = KeyRange(0, 2**127 - 1), KeyRange(2**127, HASH_KEYS.end)
BROKEN = FIXTURE[:-1] + bytes([FIXTURE[-1] ^ 1])

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
hash_keys = st.none() | st.integers(0, HASH_KEYS.end).map(str)
packed = st.builds(Packed, texts, st.binary(max_size=50), hash_keys)


def answer(*records: tuple[int, bytes]) -> pa.RecordBatch:
    rows = [
        {"sequence_number": str(at), "sub_sequence_number": 0, "partition_key": "k", "arrival_time": at, "data": data}
        for at, data in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def read(
    records: pa.RecordBatch,
    start: Position = TRIM_HORIZON,
    how: Deaggregate = Deaggregate.ON,
    span: KeyRange | None = WHOLE,
    most: int = 10_000,
) -> list[Piece]:
    left, before = fresh(records, start)
    found = list(pieces(left, before, how, lambda: span, most))
    assert [piece.more for piece in found] == [True] * (len(found) - 1) + [False]
    return found


def rows(found: list[Piece]) -> list[tuple[str, bytes]]:
    """The records of pieces, each by its place and its data."""
    listed: list[tuple[str, bytes]] = []
    for piece in found:
        columns = piece.records.to_pydict()
        places = map(after, columns["sequence_number"], columns["sub_sequence_number"])
        listed += zip(map(str, places), columns["data"], strict=True)
    return listed


def odd(found: list[Piece]) -> Oddities:
    return sum((piece.oddities for piece in found), NOTHING_ODD)


# the format


def test_the_known_aggregate_has_three_records() -> None:  # KV-10, K-42
    found = take_apart(FIXTURE)
    assert found is not None
    assert (found.partition_keys, found.data, found.hash_keys) == (["a", "b", "a"], [b"one", b"two", b"three"], [])
    assert pack(Packed("a", b"one"), Packed("b", b"two"), Packed("a", b"three")) == FIXTURE


def test_its_records_stand_in_the_columns_of_any_other() -> None:  # K-42, KV-10
    (piece,) = read(answer((5, b"plain"), (7, FIXTURE)))
    assert piece.records.schema.equals(SCHEMA)
    columns = piece.records.to_pydict()
    assert columns["sequence_number"] == ["5", "7", "7", "7"]
    assert columns["sub_sequence_number"] == [0, 0, 1, 2]
    assert columns["partition_key"] == ["k", "a", "b", "a"]
    assert columns["data"] == [b"plain", b"one", b"two", b"three"]
    assert [moment.microsecond for moment in columns["arrival_time"]] == [5, 7, 7, 7]
    assert piece.next == after("7", 2)  # R39: the last of its records, not the first
    assert piece.oddities == NOTHING_ODD


@pytest.mark.parametrize("at", range(len(FIXTURE) - 16, len(FIXTURE)))
def test_a_wrong_byte_in_the_digest_makes_a_raw_record_that_is_counted(at: int) -> None:  # KV-10, R42
    damaged = FIXTURE[:at] + bytes([FIXTURE[at] ^ 0x40]) + FIXTURE[at + 1 :]
    found = read(answer((7, FIXTURE), (8, damaged)))
    assert rows(found) == [("7", b"one"), ("7/1", b"two"), ("7/2", b"three"), ("8", damaged)]
    assert len(damaged) == 55
    assert found[-1].next == after("8")
    assert odd(found) == Oddities(broken=1)


@pytest.mark.parametrize(
    "payload",
    [
        MAGIC,
        MAGIC + b"0123456789abcdef",  # no byte between magic and digest
        sealed(b""),
        sealed(b"\xff"),  # no message
        sealed(text(1, b"a")),  # no record
        sealed(text(1, b"a") + text(3, number(1, 1) + text(3, b"x"))),  # no such partition key
        sealed(text(1, b"a") + text(3, number(1, 2**64 - 1) + text(3, b"x"))),
        sealed(text(1, b"a") + text(2, b"0") + text(3, number(1, 0) + number(2, 1) + text(3, b"x"))),
        sealed(text(1, b"\xff") + text(3, number(1, 0) + text(3, b"x"))),  # a key that is no text
        sealed(text(1, b"a") + text(3, number(1, 0))),  # no data
        sealed(text(1, b"a") + text(3, text(3, b"x"))),  # no index
    ],
)
def test_what_begins_like_an_aggregate_and_is_none_is_delivered_raw(payload: bytes) -> None:  # K-42, R42
    found = read(answer((7, payload), (8, b"plain")))
    assert rows(found) == [("7", payload), ("8", b"plain")]
    assert odd(found) == Oddities(broken=1)


def test_fields_that_are_not_known_are_passed_over() -> None:
    tag = text(4, text(1, b"name") + text(2, b"value"))  # of the format, and of no use to a reader
    body = text(1, b"a") + text(3, number(1, 0) + text(3, b"x") + tag) + text(9, b"later")
    assert rows(read(answer((7, sealed(body))))) == [("7", b"x")]


def test_a_plain_answer_stays_as_it_is() -> None:
    records = answer((5, b"plain"), (6, b""), (7, MAGIC[:3]), (8, b"x" + FIXTURE))
    (piece,) = read(records, span=None)
    assert piece.records.equals(records)
    assert (piece.next, piece.oddities) == (after("8"), NOTHING_ODD)
    (piece,) = read(answer())
    assert (piece.records.num_rows, piece.next) == (0, None)


# the peer


@given(st.lists(packed, min_size=1, max_size=8))
def test_what_the_peer_packs_is_read(records: list[Packed]) -> None:  # K-42
    aggregator = RecordAggregator()
    for record in records:
        assert aggregator.add_user_record(record.key, record.data, record.hash_key) is None
    _, _, payload = aggregator.clear_and_get().get_contents()
    found = take_apart(payload)
    assert found is not None
    assert list(zip(found.partition_keys, found.data, strict=True)) == [(r.key, r.data) for r in records]
    given_keys = [None if key is None else key.decode() for key in found.hash_keys] or [None] * len(records)
    assert given_keys == [record.hash_key for record in records]
    assert payload == pack(*records)


def by_peer(payload: bytes) -> list[tuple[Any, ...]]:
    record = {"SequenceNumber": "7", "PartitionKey": "k", "ApproximateArrivalTimestamp": 0, "Data": payload}
    found = (item["kinesis"] for item in iter_deaggregate_records([record], data_format="Boto3"))
    return [
        (item["partitionKey"], base64.b64decode(item["data"]), item["subSequenceNumber"])
        if item.get("aggregated")
        else (item["partitionKey"], item["data"], 0)
        for item in found
    ]


def by_us(payload: bytes) -> list[tuple[Any, ...]]:
    (piece,) = read(answer((7, payload)))
    columns = piece.records.to_pydict()
    return list(zip(columns["partition_key"], columns["data"], columns["sub_sequence_number"], strict=True))


@given(st.lists(packed, min_size=1, max_size=8))
def test_what_we_pack_is_read_by_the_peer_as_by_us(records: list[Packed]) -> None:  # K-42
    payload = pack(*records)
    wanted = [(record.key, record.data, sub) for sub, record in enumerate(records)]
    assert by_peer(payload) == by_us(payload) == wanted


@given(st.lists(packed, min_size=1, max_size=3), st.data())
def test_damage_is_seen_by_the_peer_and_by_us(records: list[Packed], data: st.DataObject) -> None:  # KV-10, R42
    payload = pack(*records)
    at = data.draw(st.integers(0, len(payload) - 1))
    damaged = payload[:at] + bytes([payload[at] ^ data.draw(st.integers(1, 255))]) + payload[at + 1 :]
    for wrong in (damaged, payload[:at]):
        assert by_peer(wrong) == by_us(wrong) == [("k", wrong, 0)]


@given(st.binary(max_size=60))
def test_no_message_under_a_right_digest_is_an_error(body: bytes) -> None:
    payload = sealed(body)
    found = take_apart(payload)
    assert found is None or (len(found) > 0 and len(found.partition_keys) == len(found))
    assert rows(read(answer((7, payload)), span=LOWER)) or found is None


# hash keys of another shard


@pytest.mark.parametrize(  # KV-10, KV-11, K-43
    ("span", "foreign"), [(WHOLE, 0), (LOWER, 1), (UPPER, 2), (None, 0)]
)
def test_records_of_another_shard_are_delivered_and_counted(span: KeyRange | None, foreign: int) -> None:  # R41
    found = read(answer((7, FIXTURE)), span=span)
    assert rows(found) == [("7", b"one"), ("7/1", b"two"), ("7/2", b"three")]
    assert odd(found) == Oddities(foreign=foreign)


@pytest.mark.parametrize(("span", "dropped"), [(WHOLE, 0), (LOWER, 3), (UPPER, 3), (None, 0)])
def test_a_strict_reader_drops_an_aggregate_with_such_a_record_whole(span: KeyRange | None, dropped: int) -> None:
    found = read(answer((6, b"plain"), (7, FIXTURE), (8, BROKEN)), how=Deaggregate.STRICT, span=span)  # K-43, KV-10
    whole = [("7", b"one"), ("7/1", b"two"), ("7/2", b"three")] if not dropped else []
    assert rows(found) == [("6", b"plain"), *whole, ("8", BROKEN)]
    assert odd(found) == Oddities(dropped=dropped, broken=1)


def test_a_place_lies_behind_what_was_dropped() -> None:
    (piece,) = read(answer((7, FIXTURE)), how=Deaggregate.STRICT, span=LOWER)
    assert (piece.records.num_rows, piece.next) == (0, after("7", 2))
    (again,) = read(answer((7, FIXTURE), (8, b"plain")), after("7", 2), Deaggregate.STRICT, LOWER)
    assert rows([again]) == [("8", b"plain")]
    assert again.oddities == NOTHING_ODD  # counted once


@pytest.mark.parametrize(
    ("key", "text_", "foreign"),
    [
        ("a", None, 0),
        ("b", None, 1),
        ("b", "0", 0),  # an explicit hash key counts in the place of the partition key's
        ("b", "00000000000000000000000000000000000007", 0),
        ("a", str(2**127), 1),
        ("a", str(HASH_KEYS.end), 1),
        ("a", str(2**200), 1),
        ("a", "9" * 5000, 1),
        ("a", "", 1),
        ("a", "-1", 1),
        ("a", "no number", 1),
    ],
)
def test_an_explicit_hash_key_counts_before_the_partition_key(key: str, text_: str | None, foreign: int) -> None:
    payload = pack(Packed(key, b"x", text_), Packed("a", b"y"))
    assert odd(read(answer((7, payload)), span=LOWER)) == Oddities(foreign=foreign)


def test_the_range_is_asked_for_only_if_there_is_an_aggregate() -> None:
    def ask() -> KeyRange:
        raise AssertionError("nobody needs it")

    for payload in (b"plain", BROKEN):
        (piece,) = pieces(answer((7, payload)), 0, Deaggregate.STRICT, ask, 10)
        assert piece.records.num_rows == 1


# inside of an aggregate


@pytest.mark.parametrize(  # KV-2, KV-10, K-32, K-42
    ("start", "left"),
    [
        (TRIM_HORIZON, [("7", b"one"), ("7/1", b"two"), ("7/2", b"three"), ("8", b"plain")]),
        (after("6"), [("7", b"one"), ("7/1", b"two"), ("7/2", b"three"), ("8", b"plain")]),
        (after("7"), [("7/1", b"two"), ("7/2", b"three"), ("8", b"plain")]),
        (after("7", 1), [("7/2", b"three"), ("8", b"plain")]),
        (after("7", 2), [("8", b"plain")]),
        (after("8"), []),
        (after("9"), []),
    ],
)
def test_a_read_goes_on_after_any_of_its_records(start: Position, left: list[tuple[str, bytes]]) -> None:
    found = read(answer((7, FIXTURE), (8, b"plain")), start)
    assert rows(found) == left
    assert all(piece.next is None or piece.next >= start for piece in found)


@pytest.mark.parametrize("how", list(Deaggregate))
@given(
    answers=st.lists(
        st.binary(max_size=3) | st.just(BROKEN) | st.lists(packed, min_size=1, max_size=5).map(lambda p: pack(*p)),
        max_size=6,
    ),
    most=st.integers(1, 4),
)
def test_wherever_a_read_stops_it_goes_on_without_loss_or_repetition(
    answers: list[bytes], most: int, how: Deaggregate
) -> None:  # KV-2, R39
    records = answer(*enumerate(answers, 100))
    whole = read(records, how=how, span=LOWER)
    stopped = list(stopping(records, how, most))
    assert rows(stopped) == rows(whole)
    assert odd(stopped) == odd(whole)
    cut = read(records, how=how, span=LOWER, most=most)
    assert (rows(cut), odd(cut), cut[-1].next) == (rows(whole), odd(whole), whole[-1].next)
    if how is not Deaggregate.OFF and any(payload.startswith(MAGIC) for payload in answers):
        assert max(piece.records.num_rows for piece in cut) <= most


def stopping(records: pa.RecordBatch, how: Deaggregate, most: int) -> Iterator[Piece]:
    """Reads that each stop after a piece."""
    place = TRIM_HORIZON
    while True:
        piece = read(records, place, how, LOWER, most)[0]
        if piece.next is None or piece.next == place:
            return
        assert piece.next > place
        place = piece.next
        yield piece


@pytest.mark.parametrize(
    ("start", "done"), [(TRIM_HORIZON, 0), (after("7"), 1), (after("7", 1), 2), (after("7", 2), 3)]
)
@pytest.mark.parametrize("before", list(Deaggregate))
@pytest.mark.parametrize("now", list(Deaggregate))
def test_the_option_may_be_changed_between_two_reads(
    start: Position, done: int, before: Deaggregate, now: Deaggregate
) -> None:
    """What a read delivered, whole or in part, is not delivered again, and the rest of it is not lost."""
    records = answer((7, FIXTURE), (8, FIXTURE))
    first = read(records, start, before, most=2)[0]
    assert first.next is not None
    delivered: list[bytes] = []
    for _, payload in rows([first, *read(records, first.next, now)]):
        found = take_apart(payload)
        delivered += [payload] if found is None else found.data
    assert delivered == [b"one", b"two", b"three", b"one", b"two", b"three"][done:]


# what a few bytes may become


def repeating(key: str, records: int, data: bytes = b"") -> bytes:
    """An aggregate that names one key once, for all of its records."""
    return sealed(text(1, key.encode()) + text(3, number(1, 0) + text(3, data)) * records)


def test_a_key_that_is_longer_than_any_record_may_have_breaks_an_aggregate() -> None:
    longest = repeating("ü" * 256, 2)
    assert [len(piece.records) for piece in read(answer((7, longest)))] == [2]
    broken = repeating("k" * 257, 3)
    found = read(answer((7, broken)))
    assert (rows(found), odd(found)) == ([("7", broken)], Oddities(broken=1))


@pytest.mark.parametrize("how", list(Deaggregate))
@pytest.mark.parametrize("sub", [1, 2, 70_000])
def test_a_place_inside_of_a_record_that_stays_whole_passes_over_nothing(how: Deaggregate, sub: int) -> None:
    """Other readers take apart what counts as broken here. It is delivered whole, and once."""
    broken = repeating("k" * 257, 70_002)
    records = answer((7, broken), (8, FIXTURE), (9, b"plain"))
    found = read(records, after("7", sub), how, most=1)
    assert rows(found)[0] == (f"7/{deaggregation.WHOLE}", broken)
    assert [payload for _, payload in rows(found)].count(broken) == 1
    assert odd(found).broken == 1
    behind = after("7", deaggregation.WHOLE)
    again = read(records, behind, how, most=1)
    assert rows(again) == rows(found)[1:]
    assert odd(again).broken == 0
    (alone,) = read(answer((7, broken)), behind, how)
    assert (alone.records.num_rows, alone.next) == (0, behind)


@pytest.mark.parametrize("most", [1, 1000, 100_000])
def test_an_aggregate_is_cut_by_bytes_too(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(deaggregation, "MOST_BYTES", 10_000)
    payload = repeating("k" * 250, 500, b"x" * 50)
    found = read(answer((7, payload), (8, b"plain"), (9, payload)), most=most)
    assert len(rows(found)) == 1001
    assert max(piece.records.num_rows for piece in found) == min(most, 35)  # one of them is plain
    again = [read(answer((7, payload), (8, b"plain"), (9, payload)), piece.next, most=most) for piece in found[:3]]
    assert [len(rows(rest)) for rest in again] == [1001 - n * min(most, 34) for n in (1, 2, 3)]


MEASURED = """
import resource, sys
from tests.unit.sources.test_kinesis_aggregates import answer, repeating, pieces, Deaggregate, WHOLE
payload = repeating("k" * {length}, {records})
assert len(payload) < 600_000
records = answer((7, payload))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sum(piece.records.num_rows for piece in pieces(records, 0, Deaggregate.ON, lambda: WHOLE, 10_000))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(("length", "records"), [(500_000, 2_500), (256, 80_000)])
def test_half_a_megabyte_never_becomes_gigabytes(length: int, records: int) -> None:
    script = MEASURED.format(length=length, records=records)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100, "MiB more at the peak"
