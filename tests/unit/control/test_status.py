# SPDX-License-Identifier: Apache-2.0
"""What an application looks like from its rows, and how it is printed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from shardbatch.cli import tables
from shardbatch.control.status import batches, shards, status
from shardbatch.core.application import Application, Group
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.position import after
from shardbatch.core.rows import APPLICATION, SHARD_LEASE, Key, Namespace
from shardbatch.errors import ConfigurationError
from shardbatch.run.batch_status import in_bytes
from tests.support.rig import FakeTime
from tests.unit.cli.rows import NAMESPACE, NOW, OTHER, OWNER, filled, frozen_batch, of_interval

CLOCK = FakeTime(NOW).clock()


def test_counts_shards_by_what_they_are_doing() -> None:
    found = status(filled(), NAMESPACE)
    assert (found.open_shards, found.completed_shards) == (4, 1)
    assert (found.held_shards, found.landed_shards, found.frozen_shards) == (1, 1, 1)


def test_the_lag_is_that_of_the_open_shard_furthest_behind() -> None:
    assert status(filled(), NAMESPACE).millis_behind_latest == 70_000


def test_committed_batches_are_counted_and_unfinished_ones_named() -> None:
    store = filled()
    store.create(frozen_batch("b3", OTHER, BatchState.PARKED))
    store.create(frozen_batch("b4", OTHER, BatchState.VOID))
    found = status(store, NAMESPACE)
    assert (found.committed_batches, found.last_commit_ms) == (1, NOW - 300_000)
    assert [(batch.batch_id, batch.state) for batch in found.unfinished] == [("b2", "FROZEN"), ("b3", "PARKED")]


def test_owners_are_listed_with_all_that_they_hold() -> None:
    found = {item.owner: (item.shards, item.batches) for item in status(filled(), NAMESPACE).owners}
    assert found == {OWNER: (2, 1), OTHER: (1, 0)}


def test_an_application_that_does_not_exist_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no application orders-etl/other"):
        status(filled(), Namespace("orders-etl", "other"))


def test_each_shard_has_one_state_and_its_pending_slice() -> None:
    found = shards(filled(), NAMESPACE)
    assert {shard.shard_id: (shard.state, shard.pending_records, shard.batch_id) for shard in found} == {
        "s-done": ("completed", None, None),
        "s-free": ("free", None, None),
        "s-frozen": ("frozen", 10, "b2"),
        "s-held": ("held", None, None),
        "s-landed": ("landed", 5, None),
    }


def test_batches_come_newest_first_and_no_more_than_asked_for() -> None:
    store = filled()
    store.create(frozen_batch("b3"))
    assert [batch.batch_id for batch in batches(store, NAMESPACE)] == ["b3", "b2", "b1"]
    assert [batch.batch_id for batch in batches(store, NAMESPACE, limit=2)] == ["b3", "b2"]
    with pytest.raises(ConfigurationError, match="limit"):
        batches(store, NAMESPACE, limit=0)


def test_batches_of_intervals_have_their_bounds_and_who_sees_them() -> None:
    store = filled()
    for made in (
        of_interval("b3", "/out"),
        of_interval("b4", "/out", 2),
        of_interval("b5", "/out", 0, BatchState.PARKED),
    ):
        assert store.create(made)
    shown = {row["batch"]: (row["interval"], row["readers"]) for row in tables.batches(batches(store, NAMESPACE), NOW)}
    hour = "2027-01-15T06:00:00Z/2027-01-15T07:00:00Z"
    assert shown["b5"] == (hour, "none")
    assert shown["b4"] == (hour, "interval")
    assert shown["b3"] == (hour, "replaced")
    assert shown["b2"] == shown["b1"] == ("-", "none")
    found = status(store, NAMESPACE)
    assert (found.committed_batches, [batch.batch_id for batch in found.unfinished]) == (1, ["b2"])
    assert {item.owner: item.batches for item in found.owners} == {OWNER: 1, OTHER: 0}
    lines = {row["property"]: row["value"] for row in tables.summary(found, NOW)}
    assert (lines["batches committed"], lines["batches unfinished"]) == ("1", "1")
    assert lines["batches of intervals"] == "2 committed, 1 of them seen by readers, 1 unfinished"
    assert [batch.batch_id for batch in found.intervals.unfinished] == ["b5"]


def test_batches_of_an_application_that_does_not_exist_are_an_error_that_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no application orders-etl/other"):
        batches(filled(), Namespace("orders-etl", "other"))


def test_everything_for_machines_is_plain_json() -> None:
    store = filled()
    for value in (status(store, NAMESPACE), *shards(store, NAMESPACE), *batches(store, NAMESPACE)):
        assert json.loads(json.dumps(asdict(value)))


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (-5, "0 s"),
        (250, "250 ms"),
        (1_000, "1 s"),
        (61_000, "1 min 1 s"),
        (7_500_000, "2 h 5 min"),
        (90_000_000, "1 d 1 h"),
        (86_400_000 + 5_000, "1 d"),
    ],
)
def test_a_length_of_time_is_told_in_its_two_largest_units(ms: int | None, text: str) -> None:
    assert tables.span(ms) == text


def test_an_instant_that_is_not_known_has_no_age() -> None:
    assert tables.age(None, NOW) == "-"
    assert tables.age(NOW - 61_000, NOW) == "1 min 1 s ago"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")])
def test_sizes_are_readable(count: int, text: str) -> None:
    assert in_bytes(count) == text


def test_tables_name_the_run_and_not_only_its_escaped_text() -> None:
    found = status(filled(), NAMESPACE)
    (row,) = tables.batches(found.unfinished, NOW)
    assert row["owner"] == "orders scheduled__2026-11-28T00:00:00+00:00 orders"
    assert (row["age"], row["state"], row["attempt"], row["committed"]) == ("1 min ago", "FROZEN", "2", "-")


def test_the_owners_table_shows_the_text_that_release_wants() -> None:
    found = status(filled(), NAMESPACE)
    assert {row["owner"] for row in tables.owners(found.owners, NOW)} == {OWNER, OTHER}


def test_the_summary_says_who_claims_and_how_long_it_is_until_records_expire() -> None:
    store = filled()
    row = store.get(Key(APPLICATION, NAMESPACE, ()))
    assert isinstance(row, Application)
    group = Group("prod", "orders", "etl", 300_000)
    assert store.replace(row, replace(row.joined(group).keeping(3_600_000, NOW), row_count=row.row_count + 1))
    lines = {row["property"]: row["value"] for row in tables.summary(status(store, NAMESPACE, CLOCK), NOW)}
    assert lines["claimed by"] == "group 'etl' of DAG 'orders' (deployment 'prod')"
    assert (lines["retention of the stream"], lines["time until data loss"]) == ("1 h", "unknown")

    held = store.get(Key(SHARD_LEASE, NAMESPACE, ("", "s-held")))
    assert isinstance(held, Lease)
    read = replace(held, checkpoint=after("7"), caught_up_ms=NOW - 60_000, lease_count=held.lease_count + 1)
    assert store.replace(held, read)
    lines = {row["property"]: row["value"] for row in tables.summary(status(store, NAMESPACE, CLOCK), NOW)}
    assert lines["time until data loss"] == "59 min, unknown for 1 shards"
    by_shard = {
        row["shard"]: row["until loss"] for row in tables.shards(shards(store, NAMESPACE, clock=CLOCK), NOW + 3_600_000)
    }
    assert by_shard == {"s-done": "-", "s-free": "unknown", "s-frozen": "-", "s-held": "now", "s-landed": "-"}


def test_the_summary_says_how_long_ago_the_last_commit_was() -> None:
    lines = {row["property"]: row["value"] for row in tables.summary(status(filled(), NAMESPACE), NOW)}
    assert lines["last commit"] == "5 min ago"
    assert lines["lag as last read"] == "1 min 10 s, s-frozen"
    assert lines["shards held, landed, frozen"] == "1, 1, 1"
