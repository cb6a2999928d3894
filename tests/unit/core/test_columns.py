# SPDX-License-Identifier: Apache-2.0
"""What stands in the lease store: one full and one bare row of each table, byte for byte.

Rows outlive the code that wrote them, and other versions read them. So ``stored_rows.json`` only changes where a column
is added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.application import Application, Group
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace, Row
from shardbatch.core.shard import KeyRange
from shardbatch.core.slice import Gap, LandedFile, Oddities, Slice
from shardbatch.core.start import Start
from shardbatch.core.waiting import Waiting

NAMESPACE = Namespace("étl", "orders")
GAP = Gap(after("3"), "7", 8, 9, "they expired", "ann: “fine”", after("6", 1))
SLICE = Slice(
    shard_id="s-1",
    after=at_timestamp(1_700_000_000_000),
    until=after("9", 4),
    ended=False,
    files=(LandedFile("p/0", 2, 30), LandedFile("p/1", 1, 10)),
    records=3,
    raw_bytes=40,
    last="9",
    first_arrival_ms=1,
    last_arrival_ms=2,
    millis_behind_latest=5,
    caught_up_ms=6,
    children=("c-1", "c-2"),
    gaps=(Gap(after("1")), GAP),
    oddities=Oddities(1, 2, 3, 4),
    min_arrival_ms=1,
    max_arrival_ms=2,
    waiting=Waiting(1.5, 2, 3),
    tip_ms=4,
)
ROWS: dict[str, Row] = {
    "shard_lease, full": Lease(
        namespace=NAMESPACE,
        scope="run-1",
        shard_id="s-1",
        lease_owner="d/dag/run/g",
        lease_count=41,
        checkpoint=after("5", 2),
        completed=True,
        parent_shard_ids=("p-1", "p-2"),
        hash_range=KeyRange(1, 2**128 - 1),
        batch_id="b-1",
        read_group="001",
        pending=SLICE,
        checkpoint_arrival_ms=7,
        millis_behind_latest=8,
        caught_up_ms=9,
        updated_at_ms=10,
        note="reset by ann: “why”",
        begins=at_timestamp(11),
        skipped=(GAP, Gap(TRIM_HORIZON)),
        staging="s3://lake/staging",
        committed_to="12@5/2",
        tenure=40,
    ),
    "shard_lease, bare": Lease(NAMESPACE, "", "s-1", None, 1, TRIM_HORIZON),
    "batch, full": Batch(
        namespace=NAMESPACE,
        scope="run-1",
        batch_id="b-1",
        owner="d/dag/run/g",
        row_count=5,
        state=BatchState.COMMITTED,
        attempt=2,
        attempt_ref="1:yarn:app_1 load; client:h:1",
        attempt_seen_ms=3,
        attempt_closed=1,
        sink="own",
        starts=(Start("s1", 2, "transform", ("out", "réjects")), Start("s2", 2, "load")),
        decided=2,
        manifest_uri="s3://lake/m.json",
        manifest_digest="sha256:00",
        records=4,
        bytes=5,
        gaps=6,
        created_at_ms=7,
        committed_at_ms=8,
        note="ann: “fine”",
        unparked=1,
        set_aside=None,
        dropped=9,
        roots=("out", "réjects"),
        min_arrival_ms=1,
        max_arrival_ms=2,
        shared=True,
        joins=True,
        from_ms=3,
        to_ms=4,
        number=5,
        waited_ms=6,
        refused=7,
        resubscribed=8,
        claims=("c1", "c2"),
        event="run/0/7",
        event_ms=6,
        retired_ms=9,
    ),
    "batch, aside": Batch(NAMESPACE, "", "b-1", "", 1, BatchState.COMMITTED, set_aside="kept"),
    "batch, bare": Batch(NAMESPACE, "", "b-1", "", 1, BatchState.VOID),
    "application, full": Application(
        namespace=NAMESPACE,
        stream_id="arn@1",
        start_position=at_timestamp(1),
        row_count=3,
        schema_version=1,
        deployments=("a", "b"),
        claimed_by=(Group("a", "dag", "orders", 7), Group("b", "dag", "", 8)),
        last_action="ann: “fine”",
        retention_ms=9,
        gone_before_ms=8,
        longest_retention_ms=10,
        importing="from KCL",
        shown_intervals=((1, 2), (3, 4)),
        start_places=(("s-1", after("7")),),
        key_space=KeyRange(0, 2**128 - 1),
        listed_whole_ms=12,
        reset_count=13,
        complete_from_ms=14,
        listed_over=("s-9",),
        removed="by bob",
        removed_from="s3://bucket/staging",
    ),
    "application, bare": Application(NAMESPACE, "arn@1", TRIM_HORIZON, 1),
    "interval_output, full": IntervalOutput(NAMESPACE, (3, 1_800_000_000_000), 7, 2, ("out", "réjects")),
    "interval_output, bare": IntervalOutput(NAMESPACE, (3, 4), 1),
}
STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("stored_rows.json").read_text("utf-8"))


def as_stored(row: Row) -> dict[str, Any]:
    return {**row.key.columns(), **row.columns()}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_stored_as_it_always_was_and_read_back_whole(name: str) -> None:
    row = ROWS[name]
    assert json.dumps(as_stored(row), sort_keys=True) == json.dumps(STORED[name], sort_keys=True)  # also True is not 1
    assert type(row).from_columns(STORED[name]) == row
    assert type(row).from_columns({**STORED[name], "a_later_column": 1}) == row


@pytest.mark.parametrize("name", [name for name in ROWS if name.endswith("bare")])
def test_columns_that_a_row_lacks_have_their_defaults(name: str) -> None:
    row = ROWS[name]
    kept = {key: value for key, value in STORED[name].items() if value not in (None, 0, False, "[]", "starts", "")}
    kept.update(row.key.columns())
    assert type(row).from_columns(kept) == row
    assert type(row).from_columns({**dict.fromkeys(STORED[name]), **kept}) == row


def test_what_an_earlier_version_replayed_is_not_set_aside_any_more() -> None:
    replayed = {**STORED["batch, full"], "set_aside": "kept"}  # that version does not know the column and leaves it
    assert Batch.from_columns(replayed).set_aside is None
    assert Batch.from_columns(STORED["batch, aside"]).set_aside == "kept"


@pytest.mark.parametrize("name", ["stream_id", "start_position", "row_count"])
def test_a_row_without_a_column_that_every_row_has_is_an_error(name: str) -> None:
    row = {**STORED["application, bare"], name: None}
    with pytest.raises(ValueError, match=f"application has no {name}"):
        Application.from_columns(row)
