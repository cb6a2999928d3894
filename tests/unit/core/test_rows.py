# SPDX-License-Identifier: Apache-2.0
"""Rows: what they keep, and what their transitions allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.application import Application, Group
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Position, after
from shardbatch.core.rows import SHARD_LEASE, Key, Namespace
from shardbatch.core.shard import HashRange, Shard
from shardbatch.core.slice import Gap, LandedFile, Oddities, Slice
from shardbatch.core.start import Start
from shardbatch.errors import ProtocolError
from shardbatch.stores.keys import check

NAMESPACE = Namespace("etl", "orders")
SLICE = Slice(
    "s", TRIM_HORIZON, after("9"), False, (LandedFile("p/0", 2, 30),), 2, 10, "9", 1, 2, 5, 6, ("c",),
    (Gap(after("3")), Gap(after("5"), "7", 8, 9, "why", "ann", after("6"))), Oddities(1, 2, 3), 1, 2,
)  # fmt: skip


@pytest.fixture
def lease() -> Lease:
    return leases.add(NAMESPACE, "", Shard("s", ("p",), HashRange(0, 9)), TRIM_HORIZON, 41, 1)


@pytest.fixture
def frozen() -> Batch:
    return Batch(NAMESPACE, "", "x", "me", 5, BatchState.FROZEN, attempt=1, records=2, manifest_uri="u")


@pytest.mark.parametrize(
    "row",
    [
        Lease(
            NAMESPACE, "sc", "s", "me", 3, after("5", 2), True, ("p", "q"), HashRange(1, 2), "x", "001", SLICE,
            7, 8, 9, 10, begins=after("4"), skipped=(Gap(after("1"), until=after("2")),),
        ),
        Lease(NAMESPACE, "", "s", None, 3, TRIM_HORIZON),
        Batch(
            NAMESPACE, "", "x", "me", 5, BatchState.COMMITTED, 2, "1:app", 3, 1, "own",
            (Start("s1", 2, "transform", ("out",)),), 2, "u", "d", 4, 5, 6, 7, 8, "note", dropped=9,
            roots=("out", "rejects"), min_arrival_ms=1, max_arrival_ms=2, shared=True, joins=True, from_ms=3, to_ms=4,
            number=5, claims=("c1", "c2"), event="run/0/7", event_ms=6,
        ),
        IntervalOutput(NAMESPACE, (3, 1_800_000_000_000), 7, 2, ("out",)),
        Application(
            NAMESPACE, "arn@1", TRIM_HORIZON, 3, deployments=("a", "b"),
            claimed_by=(Group("a", "dag", "orders", 7), Group("b", "dag", "", 8)), last_action="z",
            retention_ms=9, gone_before_ms=8, longest_retention_ms=10, shown_intervals=((1, 2), (3, 4)),
        ),
    ],
)  # fmt: skip
def test_a_row_survives_its_columns(row: Lease | Batch | Application) -> None:
    columns = {**row.key.columns(), **row.columns()}
    assert type(row).from_columns(columns) == row
    assert type(row).from_columns({**columns, "a_later_column": 1}) == row


def test_a_lease_goes_round(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    landed = leases.land(taken, "me", SLICE, 3)
    stamped = leases.stamp(landed, "me", "x", 4)
    moved = leases.roll_forward(stamped, "x", 5)
    assert [row.lease_count for row in (taken, landed, stamped, moved)] == [42, 43, 44, 45]
    assert (moved.checkpoint, moved.completed, moved.lease_owner, moved.pending) == (after("9"), False, None, None)
    assert moved.checkpoint_arrival_ms == SLICE.last_arrival_ms


def test_a_slice_that_ends_its_shard_completes_the_lease(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    end = Slice("s", TRIM_HORIZON, SHARD_END, True)
    moved = leases.roll_forward(leases.stamp(leases.land(taken, "me", end, 3), "me", "x", 4), "x", 5)
    assert moved.completed
    assert moved.checkpoint == SHARD_END
    with pytest.raises(ProtocolError):
        leases.take(moved, "other", "001", 6)  # K-22


def test_a_slice_without_records_leaves_what_is_known_of_the_last_one(lease: Lease) -> None:
    known = replace(lease, checkpoint=after("9"), checkpoint_arrival_ms=7)
    end = Slice("s", after("9"), SHARD_END, True)
    landed = leases.land(leases.take(known, "me", "001", 2), "me", end, 3)
    assert leases.roll_forward(leases.stamp(landed, "me", "x", 4), "x", 5).checkpoint_arrival_ms == 7


def test_a_lease_that_is_given_back_unread_still_tells_when_its_tip_was_seen(lease: Lease) -> None:
    seen = replace(leases.take(lease, "me", "001", 2), caught_up_ms=5)
    assert leases.release(seen, 9).caught_up_ms == 5
    assert leases.release(seen, 9, caught_up_ms=8).caught_up_ms == 8


def test_only_the_owner_lands_and_only_once(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    with pytest.raises(ProtocolError, match="owner"):
        leases.land(taken, "other", SLICE, 3)
    landed = leases.land(taken, "me", SLICE, 3)
    with pytest.raises(ProtocolError, match="pending"):
        leases.land(landed, "me", SLICE, 4)


def test_a_slice_that_does_not_begin_at_the_checkpoint_is_refused(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    with pytest.raises(ProtocolError, match="does not fit"):
        leases.land(taken, "me", replace(SLICE, after=after("1")), 3)


@pytest.mark.parametrize(
    "until", [after("10"), SHARD_END, LATEST], ids=["past what was landed", "an end nobody saw", "a rule"]
)
def test_a_slice_that_ends_where_it_may_not_is_refused(lease: Lease, until: Position) -> None:
    taken = leases.take(lease, "me", "001", 2)
    with pytest.raises(ProtocolError, match="may not"):  # K-45
        leases.land(taken, "me", replace(SLICE, until=until), 3)


def test_a_stamped_lease_changes_only_as_its_batch_permits(lease: Lease) -> None:
    stamped = leases.stamp(leases.land(leases.take(lease, "me", "001", 2), "me", SLICE, 3), "me", "x", 4)
    for change in (
        lambda: leases.take(stamped, "other", None, 5),
        lambda: leases.release(stamped, 5),
        lambda: leases.rewind(stamped, "me", TRIM_HORIZON, "me too", "note", 5),
        lambda: leases.seize(stamped, "reset:1:taken", "y", 5),
        lambda: leases.accept_gap(stamped, "note", 5),
        lambda: leases.renew(stamped, "me", 5),
        lambda: leases.roll_forward(stamped, "y", 5),
        lambda: leases.unstamp(stamped, "y", 5, free=True),
    ):
        with pytest.raises(ProtocolError):
            change()
    undone = leases.unstamp(stamped, "x", 5, free=True)
    assert (undone.batch_id, undone.lease_owner, undone.pending) == (None, None, SLICE)


def test_a_decision_is_final(frozen: Batch) -> None:
    done = batches.decide(frozen, (Start("s1", 1, "t"),), 1, 9)
    assert (done.state, done.decided, done.committed_at_ms) == (BatchState.COMMITTED, 1, 9)
    for change in (
        lambda: batches.decide(done, (), 1, 9),
        lambda: batches.park(done, "n"),
        lambda: batches.discard(done, "n"),
        lambda: batches.adopt(done, "other"),
        lambda: batches.redecide(done, (), 1),
    ):
        with pytest.raises(ProtocolError):
            change()
    assert batches.redecide(done, (Start("s2", 2, "t"),), 2).decided == 2


def test_a_batch_with_records_owes_an_event_from_its_decision_on(frozen: Batch) -> None:
    with pytest.raises(ProtocolError, match="no event"):
        batches.send_event(frozen, "run/0/7", 9)
    done = batches.decide(frozen, (Start("s1", 1, "t"),), 1, 9)
    assert (done.event, done.event_ms) == (batches.DUE, None)
    again = batches.redecide(done, (Start("s2", 2, "t"),), 2)
    assert again.event == batches.DUE
    sent = batches.send_event(again, "run/0/7", 10)
    assert (sent.event, sent.event_ms) == ("run/0/7", 10)
    assert batches.redecide(sent, (), 3).event == "run/0/7"
    empty = batches.decide(replace(frozen, records=0), (), 1, 9)
    for none in (empty, batches.set_aside(frozen, "by jo: bad data", 9)):
        with pytest.raises(ProtocolError, match="no event"):
            batches.send_event(none, "run/0/7", 10)


def test_a_row_names_the_claim_that_froze_it_and_the_latest_ones(frozen: Batch) -> None:
    batch = replace(frozen, claims=("first",))
    assert batches.open_attempt(batch, 1, "first").claims == batches.open_attempt(batch, 1).claims == ("first",)
    for number in range(batches.MOST_CLAIMS + 5):
        batch = batches.open_attempt(batch, 1, f"c{number}")
    assert len(batch.claims) == batches.MOST_CLAIMS
    assert (batch.claims[0], batch.claims[-1]) == ("first", f"c{batches.MOST_CLAIMS + 4}")
    done = batches.decide(batch, (), batch.attempt, 2)
    assert batches.open_replay(done, "other", 3, "theirs").claims[-1] == "theirs"


def test_a_set_aside_batch_gets_output_only_from_a_later_attempt(frozen: Batch) -> None:
    aside = batches.set_aside(frozen, "by jo: bad data", 9)
    assert (aside.starts, aside.decided) == ((), frozen.attempt)
    with pytest.raises(ProtocolError, match="upwards"):
        batches.redecide(aside, (Start("s1", 1, "t"),), 1)  # V24


def test_an_attempt_of_which_one_task_has_ended_is_alive_while_another_shows_life(frozen: Batch) -> None:
    ended = batches.close_attempt(batches.heartbeat(frozen, 3, "client:h:1", "one"), 1)
    assert ended.attempt_closed == 1
    assert batches.heartbeat(ended, 4, "client:h:2", "two").attempt_closed == 0


def test_an_application_recorded_by_an_attempt_is_told_from_a_newer_attempts(frozen: Batch) -> None:
    beating = batches.heartbeat(frozen, 3, "local-17:99")
    assert beating.spark_application == (1, "local-17:99")
    reopened = batches.open_attempt(beating, 4)
    assert (reopened.attempt, reopened.spark_application) == (2, (1, "local-17:99"))


def test_an_owner_survives_its_text() -> None:
    owner = Owner("prod/eu", "dag", "manual__2026-11-28T00:00:00+00:00", "outer.orders", "interval")
    assert Owner.parse(str(owner)) == owner
    assert owner.scope == str(owner)
    assert Owner("d", "d", "r", "g").scope == ""
    assert Owner.parse("somebody") is None


@pytest.mark.parametrize("mode", ["incremental", "interval"])
@pytest.mark.parametrize(
    ("dag_id", "run_id", "group_id"),
    [
        ("отчёт", "ручной запуск/1%20", "группа.поток"),
        ("d", "manual__2026-11-28T00:00:00+00:00", "g"),
        ("d", " 100% /../ ", "%2F"),
        ("заказы_" * 35, "manual__2026-11-28T00:00:00+00:00", "поток." * 30),
        ("日" * 250, "\U0001f600", "g"),
    ],
)
def test_an_owner_of_any_names_survives_its_text_and_has_a_scope_of_its_own(
    dag_id: str, run_id: str, group_id: str, mode: str
) -> None:
    owner = Owner("prod", dag_id, run_id, group_id, mode)
    assert Owner.parse(str(owner)) == owner
    assert str(owner).isascii()
    others = [replace(owner, run_id=run_id + end) for end in ("a", "b")]
    if mode == "incremental":
        assert owner.scope == ""
        return
    assert len({each.scope for each in [owner, *others]}) == 3
    for each in [owner, *others]:
        check(Key(SHARD_LEASE, Namespace("etl", "orders"), (each.scope, "s")))  # every store has room for it


@pytest.mark.parametrize("name", ["a/b", "", " a", "a\n"])
def test_a_name_that_would_leave_its_namespace_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="printable text without a slash"):
        Namespace(name, "orders")


def test_a_slice_survives_its_text_and_passes_over_later_fields() -> None:
    assert Slice.loads(SLICE.dumps()) == SLICE
    assert Slice.from_json({**SLICE.to_json(), "later": 1}) == SLICE
