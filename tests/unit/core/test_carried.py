# SPDX-License-Identifier: Apache-2.0
"""What an application knows beside its places goes along with them."""

from __future__ import annotations

from dataclasses import replace

from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.carried import NOTHING_CARRIED, Carried, Noted
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Gap, Slice

HERE, THERE = Namespace("etl", "orders"), Namespace("copy", "orders")


def test_what_is_noted_of_a_shard_stands_on_its_copy() -> None:
    gap = Gap(after("3"), until=after("5"), accepted="ann")
    row = replace(
        leases.add(HERE, "", Shard("s"), TRIM_HORIZON, 1, 2),
        checkpoint=after("7"),
        checkpoint_arrival_ms=70,
        caught_up_ms=90,
        millis_behind_latest=0,
        committed_to="80@7",
        skipped=(gap,),
    )
    noted = Noted.of(row)
    fresh = leases.add_imported(THERE, Shard("s"), after("7"), 5, 6, "note")
    copy = noted.on(fresh, moved=False)
    assert (copy.begins, copy.committed_up_to_ms, copy.left_at_tip, copy.skipped) == (after("7"), 80, True, (gap,))
    assert Noted.of(noted.on(fresh, moved=True)) == noted


def test_the_tip_that_only_a_pending_slice_saw_is_not_seen() -> None:
    row = leases.add(HERE, "", Shard("s"), at_timestamp(5), 1, 2)
    landed = Slice("s", row.checkpoint, row.checkpoint, ended=False, caught_up_ms=9, millis_behind_latest=0)
    assert not Noted.of(replace(row, pending=landed, millis_behind_latest=0)).at_tip
    assert Noted.of(replace(row, millis_behind_latest=0)).at_tip


def test_what_is_noted_of_an_application_stands_on_its_copy() -> None:
    row = Application(
        HERE,
        "arn",
        at_timestamp(5),
        1,
        retention_ms=7,
        gone_before_ms=8,
        longest_retention_ms=9,
        shown_intervals=((1, 2),),
    )
    carried = Carried.of(row, ())
    for namespace, shown in ((HERE, ((1, 2), (3, 4))), (THERE, ((3, 4),))):
        made = carried.on(Application(namespace, "arn", TRIM_HORIZON, 1, shown_intervals=((3, 4),)))
        assert (made.start_position, made.retention_ms, made.gone_before_ms) == (at_timestamp(5), 7, 8)
        assert made.longest_retention_ms == 9
        assert made.shown_intervals == shown


def test_positions_that_say_nothing_more_change_nothing() -> None:
    row = Application(HERE, "arn", TRIM_HORIZON, 1)
    assert NOTHING_CARRIED.on(row) == row
