# SPDX-License-Identifier: Apache-2.0
"""What the books expect of records when a person moves a shard."""

from __future__ import annotations

from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from tests.breaker.books import Books
from tests.breaker.stream import Sent


def sent() -> dict[str, Sent]:
    return {name: Sent(after(name), "s", arrival_ms=int(name)) for name in ("100", "101", "102")}


def test_a_record_from_before_the_start_is_nobodys_and_no_reset_passes_it_over() -> None:
    books, records = Books(start=at_timestamp(101)), sent()
    assert [name for name, record in records.items() if books.wanted(record)] == ["101", "102"]
    books.reset("s", after("101"), records)
    assert books.skipped == {"101"}


def test_a_reset_back_before_the_start_wants_what_arrived_before_it_and_the_next_passes_it_over() -> None:
    books, records = Books(start=at_timestamp(101)), sent()
    books.reset("s", TRIM_HORIZON, records)
    assert not books.skipped
    assert books.wanted(records["100"])
    books.reset("s", after("101"), records)
    assert books.skipped == {"100", "101"}


def test_a_child_begins_where_its_parents_were_reset_to_if_all_were_to_an_instant() -> None:
    books = Books(start=at_timestamp(90), parents={"c": ("p", "q"), "d": ("c",)})
    assert books.begins("d") == at_timestamp(90)
    books.targets["p"] = at_timestamp(95)
    assert books.begins("d") == at_timestamp(90)
    books.targets["q"] = at_timestamp(94)
    assert books.begins("d") == at_timestamp(94)
    books.targets["q"] = after("7")
    assert books.begins("d") == TRIM_HORIZON
