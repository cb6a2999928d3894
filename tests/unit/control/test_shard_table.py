# SPDX-License-Identifier: Apache-2.0
"""All shards as a table: parts of the keys, parents, and when each was open, as far as the rows tell."""

from __future__ import annotations

from dataclasses import replace

from shardbatch.control.columnar import columnar
from shardbatch.control.shard_table import COLUMNS, ShardRow, shard_table
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.shard import KeyRange, Shard
from tests.support.rig import FakeTime
from tests.unit.cli.rows import NAMESPACE, NOW, OWNER, landed

APPLICATION = Application(
    NAMESPACE, "arn:orders:1", TRIM_HORIZON, 1, key_space=KeyRange(0, 99), retention_ms=86_400_000
)


def row(shard_id: str, keys: tuple[int, int] | None, *parents: str) -> Lease:
    span = None if keys is None else KeyRange(*keys)
    return leases.add(NAMESPACE, "", Shard(shard_id, parents, span), TRIM_HORIZON, 7, NOW)


def table(*rows: Lease, application: Application = APPLICATION) -> dict[str, ShardRow]:
    return {one.shard_id: one for one in shard_table(rows, application, (), FakeTime(NOW).clock())}


DONE = replace(row("s1", (0, 49)), completed=True, checkpoint=SHARD_END, checkpoint_arrival_ms=NOW - 5000)


def test_keys_are_parts_of_all_keys() -> None:
    found = table(row("s1", (0, 49)), row("s2", (50, 99)))
    assert [(one.from_key, one.to_key) for one in found.values()] == [(0.0, 0.5), (0.5, 1.0)]
    unknown = replace(APPLICATION, key_space=None)
    found = table(row("s1", (10, 19)), row("s2", (20, 29)), application=unknown)
    assert [(one.from_key, one.to_key) for one in found.values()] == [(0.0, 0.5), (0.5, 1.0)]
    assert table(row("s1", None), application=unknown)["s1"].from_key is None


def test_a_child_opened_after_what_was_read_of_its_parents() -> None:
    found = table(DONE, row("s2", (0, 24), "s1", "gone"))
    assert (found["s1"].opened_ms, found["s1"].closed_ms) == (None, NOW - 5000)
    assert (found["s2"].opened_ms, found["s2"].closed_ms) == (NOW - 5000, None)
    assert found["s2"].parents == ("s1",)


def test_a_shard_that_is_read_to_its_end_is_closed_though_it_is_not_committed() -> None:
    held = leases.take(row("s1", (0, 99)), OWNER, "g", NOW)
    ended = replace(landed("s1", 5, 0), last_arrival_ms=NOW - 7, last="9")
    assert table(leases.land(held, OWNER, ended, NOW))["s1"].closed_ms == NOW - 7
    going_on = replace(ended, ended=False, until=after("9"))
    assert table(leases.land(held, OWNER, going_on, NOW))["s1"].closed_ms is None


def test_every_column_can_be_shown() -> None:
    shown = columnar(COLUMNS, shard_table([DONE, row("s2", (0, 24), "s3"), row("s3", (0, 9))], APPLICATION, ()))
    by_name = dict(zip(shown["columns"], shown["rows"][1], strict=True))
    assert by_name["shard_id"] == "s2"
    assert by_name["waits_for"] == "its parent s3, which is not committed to its end"
