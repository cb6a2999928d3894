# SPDX-License-Identifier: Apache-2.0
"""What stands in the way of a reset: a table of every stamp and owner, and what it says where it takes by force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.action import Action
from shardbatch.control.lineage_hold import LineageHold, obstacle, robbed
from shardbatch.control.verbs import RESET
from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Verdict
from shardbatch.core.start import Start
from shardbatch.errors import OwnerUnknown
from shardbatch.stores.memory import MemoryStore
from tests.unit.cli.rows import NAMESPACE, NOW, OWNER, filled


def action(verdict: Verdict | None = None, **changes: Any) -> Action:
    given: dict[str, Any] = {
        "verb": RESET,
        "namespace": NAMESPACE,
        "store": filled(),
        "actor": "ann",
        "reason": "x",
        "dry_run": False,
        "liveness": None if verdict is None else lambda owner: verdict,
    }
    return Action(**{**given, **changes})


#: Of a lease that is held by a run, and of one in a frozen batch: what the answer says, by verdict.
HELD = {
    Verdict.OVER: ("", ""),
    Verdict.ACTIVE: ("which is at work; end that run first, or give --force", "which is at work; end that run first"),
    Verdict.GONE: ("if that is over, release it first, or give --force", "if that is over, drop it first"),
    Verdict.FOREIGN: ("if that is over, release it first, or give --force", "if that is over, drop it first"),
}


@pytest.mark.parametrize("verdict", HELD)
def test_what_has_an_owner_is_taken_if_that_is_known_to_be_over_or_by_force(verdict: Verdict) -> None:
    for shard_id, text in zip(("s-held", "s-frozen"), HELD[verdict], strict=True):
        asking = action(verdict)
        why = obstacle(asking, asking.expect_lease(shard_id))
        assert (why == "") == (text == "")
        assert text in why
        assert not why or OWNER in why
        assert obstacle(replace(asking, force=True), asking.expect_lease(shard_id)) == ""


def test_where_a_question_fails_it_is_left() -> None:
    def silent(owner: str) -> Verdict:
        raise OwnerUnknown("Airflow gives no answer.")

    asking = action(liveness=silent)
    for shard_id in ("s-held", "s-frozen"):
        why = obstacle(asking, asking.expect_lease(shard_id))
        assert why.startswith(f"OwnerUnknown: The leases and batches of {OWNER} were not changed.")
        assert "--force" in why
    assert obstacle(replace(asking, force=True), asking.expect_lease("s-held")) == ""


@pytest.mark.parametrize("shard_id", ["s-free", "s-done"])
def test_what_has_no_owner_is_taken(shard_id: str) -> None:
    asking = action(Verdict.ACTIVE)
    assert obstacle(asking, asking.expect_lease(shard_id)) == ""


def stamped(state: BatchState, **changes: Any) -> tuple[Action, Lease]:
    """The lease of a batch in a state, whose owner is at work."""
    asking = action(Verdict.ACTIVE)
    seen = asking.expect_batch("b2")
    assert asking.store.replace(seen, replace(seen, state=state, row_count=seen.row_count + 1, **changes))
    return asking, asking.expect_lease("s-frozen")


def test_a_stamp_is_obeyed_before_its_owner_is_asked() -> None:
    assert obstacle(*stamped(BatchState.VOID)) == ""
    assert obstacle(*stamped(BatchState.COMMITTED)) == ""
    assert "PARKED in batch b2 of" in obstacle(*stamped(BatchState.PARKED))


@pytest.mark.parametrize(
    "of_it",
    [{"starts": (Start("s1", 1, "work", ("/out",)),)}, {"roots": ("/out",)}],
    ids=["output", "a root that is told that nothing is there"],
)
def test_a_committed_batch_that_a_root_is_told_of_needs_staging_first(of_it: dict[str, Any]) -> None:
    asking, lease = stamped(BatchState.COMMITTED, **of_it)
    assert "give staging" in obstacle(asking, lease)
    landing: Any = object()
    assert obstacle(replace(asking, landing=landing), lease) == ""


def held_by_a_reset(store: MemoryStore) -> Lease:
    seen = action(store=store).expect_lease("s-free")
    held = leases.seize(seen, str(ResetHolder("r1")), None, NOW)
    assert store.replace(seen, held)
    return held


def test_what_another_reset_holds_is_taken_and_robs_nobody() -> None:
    asking = action(Verdict.ACTIVE)
    held = held_by_a_reset(asking.store)  # type: ignore[arg-type]
    assert obstacle(asking, held) == ""
    assert robbed(replace(asking, force=True), held) == ""


@pytest.mark.parametrize("verdict", [Verdict.ACTIVE, Verdict.FOREIGN, Verdict.GONE])
def test_who_is_robbed_by_force_is_told(verdict: Verdict) -> None:
    forced = action(verdict, force=True)
    assert "; BY FORCE: " in robbed(forced, forced.expect_lease("s-held"))
    assert robbed(replace(forced, force=False), forced.expect_lease("s-held")) == ""
    assert robbed(forced, forced.expect_lease("s-frozen")) == ""  # its batch is dropped, which tells it
    assert robbed(forced, forced.expect_lease("s-free")) == ""


def test_an_owner_that_is_over_is_not_robbed() -> None:
    forced = action(Verdict.OVER, force=True)
    assert robbed(forced, forced.expect_lease("s-held")) == ""


def test_all_of_a_lineage_is_taken_or_nothing() -> None:
    asking = action(Verdict.OVER)
    hold = LineageHold(asking)
    assert hold.take(lambda rows: [row for row in rows if row.shard_id in ("s-free", "s-held")]) is None
    assert set(hold.rows) == {"s-free", "s-held"}
    assert asking.expect_lease("s-held").lease_owner == hold.taken
    hold.give_back()
    assert asking.expect_lease("s-held").lease_owner is None

    asking = action(Verdict.ACTIVE)
    hold = LineageHold(asking)
    left = hold.take(lambda rows: [row for row in rows if row.shard_id in ("s-free", "s-held")])
    assert left is not None
    assert (left.name, left.result) == ("s-held", "left")
    assert asking.expect_lease("s-free").lease_owner is None
    assert asking.expect_lease("s-held").lease_owner == OWNER


def test_a_lease_that_another_reset_took_is_not_written() -> None:
    asking = action(Verdict.OVER)
    hold = LineageHold(asking)
    assert hold.take(lambda rows: [row for row in rows if row.shard_id == "s-free"]) is None
    seen = asking.expect_lease("s-free")
    assert asking.store.replace(seen, leases.seize(seen, str(ResetHolder("r2")), None, NOW))
    assert not hold.write("s-free", lambda row: None)
    assert asking.expect_lease("s-free").lease_owner == str(ResetHolder("r2"))
