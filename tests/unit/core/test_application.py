# SPDX-License-Identifier: Apache-2.0
"""The application row: who has worked on it, how long records are kept, and what a person did to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from shardbatch.core.application import Application, Group
from shardbatch.core.owner import Owner
from shardbatch.core.position import TRIM_HORIZON, at_timestamp
from shardbatch.core.rows import SCHEMA_VERSION, Namespace
from shardbatch.errors import UnsupportedSchema

ROW = Application(Namespace("etl", "orders"), "arn@1", TRIM_HORIZON, 5)
GROUP = Group("here", "dag", "orders", 300_000)
HOUR = 3_600_000


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.joined(GROUP),
        lambda row: row.keeping(HOUR, 9),
        lambda row: row.acted("ann"),
        lambda row: row.imported("ann", 5),
        lambda row: row.showing((1, 2)),
        lambda row: row.migrated("ann"),
        lambda row: row.renewed("arn@2", at_timestamp(9), "ann"),
    ],
)
def test_every_change_raises_the_counter_by_one(change: Callable[[Application], Application]) -> None:
    changed = change(ROW)
    assert (changed.key, changed.counter) == (ROW.key, 6)


def test_a_group_is_there_once_with_its_last_word() -> None:
    row = ROW.joined(GROUP).joined(Group("there", "dag", "orders", 1)).joined(replace(GROUP, lease_duration_ms=60_000))
    assert row.deployments == ("here", "there")
    assert row.claimed_by == (replace(GROUP, lease_duration_ms=60_000), Group("there", "dag", "orders", 1))


def test_another_group_is_a_stranger_and_the_same_dag_in_another_deployment_is_none() -> None:
    assert ROW.stranger(GROUP) is None
    row = ROW.joined(GROUP)
    assert row.stranger(replace(GROUP, deployment="there")) is None
    assert row.stranger(replace(GROUP, group_id="other")) == GROUP
    assert row.stranger(replace(GROUP, dag_id="other")) == GROUP


def test_an_owner_is_believed_for_as_long_as_its_own_group_said() -> None:
    row = ROW.joined(GROUP).joined(Group("here", "dag", "other", 1))
    assert row.silence_ms(Owner("here", "dag", "run", "orders")) == 300_000
    assert row.silence_ms(Owner("there", "dag", "run", "orders")) == 0
    assert row.silence_ms(None) == 0


@pytest.mark.parametrize(
    ("before", "now", "gone_before", "longest"),
    [
        (None, 24 * HOUR, None, 24 * HOUR),
        (24 * HOUR, 24 * HOUR, None, 24 * HOUR),
        (24 * HOUR, 48 * HOUR, 76 * HOUR, 48 * HOUR),  # until this moment it may have been the shorter one
        (48 * HOUR, 24 * HOUR, 76 * HOUR, 48 * HOUR),
        (24 * HOUR, None, 76 * HOUR, 24 * HOUR),
    ],
)
def test_what_may_be_gone_once_the_retention_is_another(
    before: int | None, now: int | None, gone_before: int | None, longest: int
) -> None:
    row = ROW.keeping(before, 1).keeping(now, 100 * HOUR)
    assert (row.retention_ms, row.gone_before_ms, row.longest_retention_ms) == (now, gone_before, longest)


def test_what_may_be_gone_stays_gone() -> None:
    row = ROW.keeping(24 * HOUR, 1).keeping(48 * HOUR, 100 * HOUR)
    assert row.keeping(96 * HOUR, 101 * HOUR).gone_before_ms == 76 * HOUR


def test_an_import_that_is_done_and_a_migration_leave_the_rest() -> None:
    assert replace(ROW, importing="by ann").imported("done", 5) == replace(
        ROW, row_count=6, last_action="done", complete_from_ms=5
    )
    old = replace(ROW, schema_version=SCHEMA_VERSION - 1)
    assert old.migrated("by ann") == replace(ROW, row_count=6, last_action="by ann")


def test_intervals_that_readers_see_are_there_once_in_the_order_of_time() -> None:
    assert ROW.showing((3, 4)).showing((1, 2)).showing((3, 4)).shown_intervals == ((1, 2), (3, 4))


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 2, SCHEMA_VERSION + 1])
def test_rows_of_a_version_that_this_one_does_not_read_are_refused(version: int) -> None:
    columns = {**ROW.key.columns(), **ROW.columns(), "schema_version": version}
    if version < 1:  # what says no version is of the first
        assert Application.from_columns({**columns, "schema_version": None}).schema_version == 1
        return
    with pytest.raises(UnsupportedSchema, match=f"schema version {version}"):
        Application.from_columns(columns)
