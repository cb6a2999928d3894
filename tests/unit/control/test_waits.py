# SPDX-License-Identifier: Apache-2.0
"""What a shard waits for: a parent, a batch's work, a person, an import or a reset; or for nothing."""

from __future__ import annotations

from dataclasses import replace

from shardbatch.control.waits import Wait, waits_for
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.slice import Gap
from tests.unit.cli.rows import NAMESPACE, NOW, OWNER, fresh, frozen_batch, landed

APPLICATION = Application(NAMESPACE, "arn:orders:1", TRIM_HORIZON, 1)
FREE, HELD = fresh("s1"), leases.take(fresh("s1"), OWNER, "g0", NOW)
LANDED = leases.land(HELD, OWNER, replace(landed("s1", 5, 0), ended=False, until=TRIM_HORIZON), NOW)
GAP = replace(landed("s1", 5, 0), gaps=(Gap(TRIM_HORIZON),))


def asked(lease: Lease, *others: Lease, state: BatchState | None = None, **application: str) -> Wait | None:
    batches = {} if state is None else {"b2": replace(frozen_batch("b2", OWNER, state), note="by ann: broken")}
    rows = {row.shard_id: row for row in (lease, *others)}
    return waits_for(lease, rows, batches, replace(APPLICATION, **application))


def test_a_shard_that_can_be_claimed_is_read_or_completed_waits_for_nothing() -> None:
    assert asked(FREE) is None
    assert asked(HELD) is None
    assert asked(replace(FREE, completed=True), importing="x") is None


def test_a_child_waits_for_the_parent_that_is_not_completed() -> None:
    child = fresh("s3", ("s1", "s2"))
    found = asked(child, replace(FREE, completed=True), fresh("s2"))
    assert found is not None
    assert (found.what, found.shard_id) == ("parent", "s2")
    assert asked(child, replace(FREE, completed=True)) is None  # the other one has no row: it is gone


def test_a_stamped_shard_waits_for_the_work_on_its_batch_or_for_the_person_who_parked_it() -> None:
    stamped = leases.stamp(LANDED, OWNER, "b2", NOW)
    found = asked(stamped, state=BatchState.FROZEN)
    assert found is not None
    assert (found.what, found.batch_id, found.owner) == ("work", "b2", OWNER)
    found = asked(stamped, state=BatchState.PARKED)
    assert found is not None
    assert (found.what, found.batch_id) == ("parked", "b2")
    assert "by ann: broken" in found.text


def test_what_is_landed_waits_for_its_owner_or_with_a_gap_for_a_person() -> None:
    found = asked(LANDED)
    assert found is not None
    assert (found.what, found.owner) == ("freeze", OWNER)
    with_gap = leases.land(HELD, OWNER, GAP, NOW)
    found = asked(with_gap)
    assert found is not None
    assert found.what == "gap"


def test_a_reset_and_an_import_hold_it_up() -> None:
    found = asked(replace(FREE, lease_owner=str(ResetHolder("r1"))))
    assert found is not None
    assert found.what == "reset"
    found = asked(FREE, importing="by ann")
    assert found is not None
    assert found.what == "import"
    assert "by ann" in found.text
