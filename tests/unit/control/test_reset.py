# SPDX-License-Identifier: Apache-2.0
"""Reset: shards with all their descendants go to a position, all or none, and no run takes half of them (D5, L8)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.release import release
from shardbatch.control.reset import reset, target_of
from shardbatch.control.status import status
from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.ports import Verdict
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.errors import ConfigurationError, LeaseLost, OwnerUnknown, StagingError
from shardbatch.landing.layout import MARKERS, marker_name
from shardbatch.landing.roots import OutputRoots
from shardbatch.run import Outcome
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, batch, done, everything, namespace, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def row(rig: Rig, shard_id: str) -> Lease:
    found = rig.consumer().lease(shard_id)
    assert found is not None
    return found


def drained(rig: Rig, runs: int = 4) -> None:
    rig.stream.now_ms += 1000
    for number in range(runs):
        rig.run(f"drain{number}-{rig.time.ms}")


def family(rig: Rig) -> tuple[str, str, str, list[str]]:
    """A shard that was split, its children, and all records; committed."""
    (parent,) = rig.stream.shards
    sent = rig.stream.put("a", "b")
    low, high = rig.stream.split(parent)
    sent += rig.stream.put("c", "d", "e", "f")
    drained(rig)
    assert sorted(rig.committed(), key=int) == sent
    return parent, low, high, sent


def test_a_shard_goes_back_with_its_descendants_and_order_holds(rig: Rig) -> None:
    parent, low, high, sent = family(rig)
    assert done(reset, rig, shards=[parent], to=TRIM_HORIZON) == [
        (parent, "reset"),
        (low, "reset"),
        (high, "reset"),
    ]
    for shard_id in (parent, low, high):
        found = row(rig, shard_id)
        assert (found.checkpoint, found.completed, found.lease_owner) == (TRIM_HORIZON, False, None)
        assert "ann reset to TRIM_HORIZON: bad data" in (found.note or "")
    first = rig.claim("again")
    assert [group.label for group in first.groups] == [f"000: {parent}"]  # the children wait for it
    rig.over("again")
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(sent + sent, key=int)
    assert (application(rig).last_action or "").endswith(f"ann reset {parent} to TRIM_HORIZON: bad data")


def test_a_shard_without_descendants_goes_back_alone(rig: Rig) -> None:
    parent, low, _, sent = family(rig)
    assert done(reset, rig, shards=[low], to=TRIM_HORIZON) == [(low, "reset")]
    assert row(rig, parent).completed
    drained(rig)
    of_low = {str(item.sequence_number) for item in rig.stream.shards[low].items}
    assert sorted(rig.committed(), key=int) == sorted(sent + list(of_low), key=int)


def test_descendants_of_a_shard_that_goes_to_a_record_begin_at_their_oldest(rig: Rig) -> None:
    parent, low, _, sent = family(rig)
    done(reset, rig, shards=[parent], to=after(sent[0]))
    assert (row(rig, parent).checkpoint, row(rig, low).checkpoint) == (after(sent[0]), TRIM_HORIZON)
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(sent + sent[1:], key=int)


def test_descendants_of_a_shard_that_goes_on_with_a_search_begin_at_its_instant(rig: Rig) -> None:  # F8
    parent, low, _, sent = family(rig)
    to = target_of(f"{sent[0]}@{rig.stream.now_ms}")
    done(reset, rig, shards=[parent], to=to)
    assert str(row(rig, parent).checkpoint) == str(to)
    assert row(rig, low).checkpoint == at_timestamp(rig.stream.now_ms)


def test_all_shards_go_to_an_instant(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    early = rig.stream.put(*"abcdef")
    rig.stream.now_ms += 60_000
    moment = rig.stream.now_ms
    late = rig.stream.put(*"ghijkl")
    rig.time.ms = moment
    drained(rig)
    assert len(done(reset, rig, every=True, to=at_timestamp(moment))) == 2
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(early + late + late, key=int)


def test_a_preview_says_from_where_to_where_and_changes_no_row(rig: Rig) -> None:
    parent, low, _, _ = family(rig)
    before = everything(rig)
    items = {item.name: item for item in told(reset, rig, shards=[parent], to=TRIM_HORIZON, dry_run=True, reason="")}
    assert items[parent].result == "would reset"
    assert "from SHARD_END to TRIM_HORIZON" in items[parent].effect
    assert "reads again what was committed" in items[parent].effect
    assert "opens it again" in items[parent].effect
    assert low in items
    assert everything(rig) == before


def test_a_preview_warns_of_records_that_would_be_passed_over(rig: Rig) -> None:
    (shard_id,) = rig.stream.shards
    sent = rig.stream.put("a")
    rig.run("r1")
    for to, skips in (
        (after(str(int(sent[0]) + 7)), True),
        (after(sent[0]), False),
        (at_timestamp(rig.stream.now_ms + 9_000), True),
        (at_timestamp(rig.stream.now_ms - 9_000), False),
        (after(sent[0], 0, rig.stream.now_ms + 9_000), True),
    ):
        (item,) = told(reset, rig, shards=[shard_id], to=to, dry_run=True)
        assert ("SKIPS" in item.effect) == skips, item.effect


def test_landed_slices_are_dropped_and_read_anew(rig: Rig) -> None:
    (shard_id,) = rig.stream.shards
    sent = rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    rig.over("r1")
    (item,) = told(reset, rig, shards=[shard_id], to=TRIM_HORIZON, liveness=lambda owner: Verdict.OVER)
    assert "drops 2 landed records" in item.effect
    assert row(rig, shard_id).pending is None
    drained(rig)
    assert rig.committed() == sent


def test_what_is_held_or_frozen_is_left_with_all_of_its_lineage(rig: Rig) -> None:
    parent, low, _, _ = family(rig)
    rig.stream.put("g", shard_id=low)
    rig.land("r1", rig.claim("r1"))
    before = everything(rig)
    for liveness, word in ((None, "release it first"), (lambda owner: Verdict.ACTIVE, "at work")):
        items = told(reset, rig, shards=[parent], to=TRIM_HORIZON, liveness=liveness)  # V14
        (item,) = items
        assert (item.result, word in item.why) == ("left", True)
    rig.freeze("r1")
    before = everything(rig)
    (item,) = told(reset, rig, shards=[parent], to=TRIM_HORIZON)
    assert (item.result, "drop it first" in item.why) == ("left", True)
    assert everything(rig) == before


def test_a_frozen_batch_is_discarded_and_its_other_shards_go_on(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    one, two = rig.stream.put("a", shard_id=first), rig.stream.put("b", shard_id=second)
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    assert made.batch_id is not None
    rig.work(made)
    preview = told(reset, rig, shards=[first], to=TRIM_HORIZON, force=True, dry_run=True)
    assert [(item.name, item.result) for item in preview] == [(made.batch_id, "would drop"), (first, "would reset")]
    assert "POSSIBLE ORPHANS" in preview[0].effect
    assert done(reset, rig, shards=[first], to=TRIM_HORIZON, force=True) == [
        (made.batch_id, "dropped"),
        (first, "reset"),
    ]
    assert (row(rig, second).batch_id, row(rig, second).pending is not None) == (None, True)
    assert batch(rig, made.batch_id).state is BatchState.VOID
    with pytest.raises(LeaseLost):
        rig.commit("r1", made)  # the run was alive: V13
    rig.over("r1")
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(one + two, key=int)
    assert rig.sink() == sorted(one + two, key=int)
    assert [item.batch_id for item in status(rig.store, namespace(rig)).possible_orphans] == [made.batch_id]


def test_a_committed_batch_is_rolled_forward_before_its_shard_goes_back(rig: Rig) -> None:
    (shard_id,) = rig.stream.shards
    sent = rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    rig.work(made)
    with pytest.raises(Killed):
        rig.commit("r1", made, store=MortalStore(rig.store, 0, applied=True))
    rig.over("r1")
    (item,) = told(reset, rig, shards=[shard_id], to=TRIM_HORIZON)
    assert (item.result, "is committed" in item.why) == ("left", True)  # its marker may not be there
    landing = rig.consumer().landing
    (item,) = told(reset, rig, shards=[shard_id], to=TRIM_HORIZON, landing=landing)
    assert item.result == "reset"
    assert (rig.folder.parent / "out" / MARKERS / marker_name(str(made.batch_id), 1)).exists()
    drained(rig)
    assert rig.committed() == sent + sent


def test_stamps_whose_batch_was_never_made_can_never_be(rig: Rig) -> None:
    (shard_id,) = rig.stream.shards
    sent = rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    with pytest.raises(Killed):
        rig.freeze("r1", store=MortalStore(rig.store, 0, applied=True))
    never = row(rig, shard_id).batch_id
    assert never is not None
    assert done(reset, rig, shards=[shard_id], to=TRIM_HORIZON, force=True) == [(shard_id, "reset")]
    assert batch(rig, never).state is BatchState.VOID
    rig.over("r1")
    drained(rig)
    assert rig.committed() == sent


def test_a_run_that_is_robbed_by_force_changes_nothing_any_more(rig: Rig) -> None:
    (shard_id,) = rig.stream.shards
    sent = rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    assert done(reset, rig, shards=[shard_id], to=TRIM_HORIZON, force=True) == [(shard_id, "reset")]
    assert rig.freeze("r1").batch_id is None
    rig.over("r1")
    drained(rig)
    assert rig.committed() == sent


def half_done(rig: Rig, at: int, shards: list[str]) -> None:
    with pytest.raises(Killed):
        done(reset, rig, shards=shards, to=TRIM_HORIZON, store=MortalStore(rig.store, at, applied=True))


def test_no_run_takes_what_a_dead_reset_holds_however_long_it_stands_still(rig: Rig) -> None:
    parent, low, high, sent = family(rig)
    half_done(rig, 6, [parent])  # the note, three takes, the count, and two are rewritten
    states = [ResetHolder.parse(row(rig, name).lease_owner) for name in (parent, low, high)]
    assert [holder.rewound for holder in states if holder] == [True, True, False]
    rig.time.ms += 3_000_000
    found = rig.claim("r1")
    assert found.outcome is Outcome.HELD
    assert any("reset' again" in line for line in found.held)
    rig.over("r1")
    assert done(reset, rig, shards=[parent], to=TRIM_HORIZON) == [(parent, "reset"), (low, "reset"), (high, "reset")]
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(sent + sent, key=int)


def test_a_release_leaves_what_a_dead_reset_holds(rig: Rig) -> None:
    parent, _, _, sent = family(rig)
    half_done(rig, 6, [parent])
    before = rig.consumer().leases()
    owner = row(rig, parent).lease_owner  # as `status` names it
    for chosen in ({"owner": owner}, {"shards": [parent]}):
        assert {item.result for item in told(release, rig, **chosen)} == {"left"}
    assert rig.consumer().leases() == before
    rig.run("r1")
    assert sorted(rig.committed(), key=int) == sent


def test_a_reset_that_died_while_it_freed_is_only_finished(rig: Rig) -> None:
    parent, _, _, sent = family(rig)
    half_done(rig, 8, [parent])  # one child is free
    assert rig.claim("r1").outcome is Outcome.HELD  # its parent is not, so nobody can begin
    rig.over("r1")
    before = everything(rig)
    assert {result for _, result in done(reset, rig, shards=[parent], to=TRIM_HORIZON, dry_run=True)} == {
        "would finish"
    }
    assert everything(rig) == before
    assert {name for name, _ in done(reset, rig, shards=[parent], to=TRIM_HORIZON)} >= {parent}
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(sent + sent, key=int)


def test_half_a_lineage_that_a_dead_reset_left_is_not_freed_when_another_one_gives_all_back(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    sent = rig.stream.put(*"ab")
    mine = [first, *rig.stream.split(first)]
    *_, last = rig.stream.split(second)
    sent += rig.stream.put(*"cdefgh")
    drained(rig)
    half_done(rig, 6, [first])  # all three are taken, and one child is where it was
    before = {name: row(rig, name).lease_owner for name in mine}

    def overtake() -> None:
        seen = row(rig, last)
        assert rig.store.replace(seen, leases.take(seen, str(rig.owner("r1")), "000", 1))

    store = Interrupted(rig.store, SHARD_LEASE, overtake)
    assert done(reset, rig, every=True, to=TRIM_HORIZON, store=store) == [(last, "left")]
    assert {name: row(rig, name).lease_owner for name in mine} == before
    assert row(rig, second).lease_owner is None
    rig.over("r1")
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sorted(sent, key=int)  # nobody began what is half done
    assert {result for _, result in done(reset, rig, shards=[first], to=TRIM_HORIZON)} == {"reset"}
    drained(rig)
    again = [str(item.sequence_number) for name in mine for item in rig.stream.shards[name].items]
    assert sorted(rig.committed(), key=int) == sorted(sent + again, key=int)


def test_a_marker_that_cannot_be_written_stops_it_and_all_is_given_back(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    rig.stream.put("a", shard_id=second)
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    rig.work(made)
    with pytest.raises(Killed):
        rig.commit("r1", made, store=MortalStore(rig.store, 0, applied=True))
    rig.over("r1")

    class Sealed(OutputRoots):
        def mark(self, *_: Any) -> None:
            raise StagingError("The output cannot be written.")

    sealed = rig.consumer().landing
    sealed.outputs.__class__ = Sealed
    with pytest.raises(StagingError):
        told(reset, rig, every=True, to=TRIM_HORIZON, landing=sealed)
    assert row(rig, first).lease_owner is None
    drained(rig)
    assert row(rig, second).batch_id is None


def test_a_lease_that_is_taken_meanwhile_stops_the_reset_and_all_is_given_back(rig: Rig) -> None:
    _, low, high, _ = family(rig)

    def overtake() -> None:
        seen = row(rig, high)
        assert rig.store.replace(seen, leases.take(seen, str(rig.owner("r1")), "000", 1))

    store = Interrupted(rig.store, SHARD_LEASE, overtake)
    (item,) = told(reset, rig, shards=[low, high], to=TRIM_HORIZON, store=store)
    assert (item.name, item.result) == (high, "left")
    assert row(rig, low).lease_owner is None
    assert row(rig, low).checkpoint != TRIM_HORIZON


def silent(owner: str) -> Verdict:
    raise OwnerUnknown("Airflow gives no answer.")


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_an_unknown_owner_has_is_left_and_nothing_is_changed(rig: Rig, dry_run: bool) -> None:
    rig.stream = ScriptedStream(shards=3)
    rig.claim("r1")
    before = rig.consumer().leases()
    found = told(reset, rig, every=True, to=TRIM_HORIZON, liveness=silent, dry_run=dry_run)
    assert [item.name for item in found] == [row.shard_id for row in before]
    assert all(item.unknown and "Airflow gives no answer" in item.why for item in found)
    assert rig.consumer().leases() == before


def test_the_preview_of_a_frozen_batch_says_that_its_owner_is_unknown(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    rig.freeze("r1")
    batch, lease = told(reset, rig, every=True, to=TRIM_HORIZON, liveness=silent, dry_run=True)
    assert (batch.result, lease.unknown) == ("would drop", True)
    assert "whether its owner is over is unknown" in batch.effect


def test_the_note_counts_the_shards_that_it_does_not_name(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=7)
    rig.run("r1")
    told(reset, rig, shards=list(rig.stream.shards), to=TRIM_HORIZON)
    assert "shardId-000000000004 and 2 more to TRIM_HORIZON" in (application(rig).last_action or "")


def test_an_owner_of_whom_airflow_says_nothing_stops_it_and_all_is_given_back(rig: Rig) -> None:
    _, low, high, _ = family(rig)

    def overtake() -> None:
        seen = row(rig, high)
        assert rig.store.replace(seen, leases.take(seen, str(rig.owner("r1")), "000", 1))

    store = Interrupted(rig.store, SHARD_LEASE, overtake)
    (item,) = told(reset, rig, shards=[low, high], to=TRIM_HORIZON, store=store, liveness=silent)
    assert (item.name, item.unknown) == (high, True)
    assert row(rig, low).lease_owner is None
    assert row(rig, low).checkpoint != TRIM_HORIZON


@pytest.mark.parametrize("dry_run", [True, False])
def test_by_force_a_silent_airflow_is_asked_once_about_each_owner(rig: Rig, dry_run: bool) -> None:
    rig.stream = ScriptedStream(shards=8)
    rig.claim("r1")
    asked: list[str] = []

    def ask(owner: str) -> Verdict:
        asked.append(owner)
        return silent(owner)

    found = told(reset, rig, every=True, to=TRIM_HORIZON, liveness=ask, force=True, dry_run=dry_run)
    assert asked == [str(rig.owner("r1"))]
    assert all("BY FORCE" in item.effect for item in found)


def test_what_a_committed_batch_left_is_not_landed_again_when_a_reset_gives_all_back(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    sent = rig.stream.put("a", shard_id=first)
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    rig.work(made)
    with pytest.raises(Killed):
        rig.commit("r1", made, store=MortalStore(rig.store, 0, applied=True))
    rig.over("r1")

    def overtake() -> None:
        seen = row(rig, second)
        assert rig.store.replace(seen, leases.take(seen, str(rig.owner("r2")), "000", 1))

    landing = rig.consumer().landing
    store = Interrupted(rig.store, SHARD_LEASE, overtake)
    assert done(reset, rig, every=True, to=TRIM_HORIZON, store=store, landing=landing) == [(second, "left")]
    rig.over("r2")
    drained(rig)
    assert rig.committed() == sent


def test_a_child_that_gets_its_row_meanwhile_is_reset_too(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    sent = rig.stream.put("a")
    low, high = rig.stream.split(parent)
    hidden = {name: rig.stream.shards.pop(name) for name in (low, high)}
    rig.run("r1")
    rig.stream.shards.update(hidden)
    sent += rig.stream.put("b", "c", "d")
    store = Interrupted(rig.store, SHARD_LEASE, lambda: rig.run("r2"))
    assert {name for name, _ in done(reset, rig, shards=[parent], to=TRIM_HORIZON, store=store)} == {parent, low, high}
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(sent + sent, key=int)


def test_of_two_resets_at_once_one_gives_way(rig: Rig) -> None:
    parent, _, _, sent = family(rig)
    answers: list[Any] = []

    def other() -> None:
        answers.append(done(reset, rig, shards=[parent], to=TRIM_HORIZON))

    class Late(Interrupted):
        """The other comes when all is taken and nothing rewritten."""

        def replace(self, seen: Any, new: Any) -> bool:
            holder = ResetHolder.parse(new.lease_owner) if seen.key.table is SHARD_LEASE else None
            if holder is not None and holder.rewound and not answers:
                other()
            return self._store.replace(seen, new)

    items = told(reset, rig, shards=[parent], to=TRIM_HORIZON, store=Late(rig.store, SHARD_LEASE, lambda: None))
    assert [item.result for item in items] == ["left"]
    assert "another reset" in items[0].why
    assert {result for _, result in answers[0]} == {"reset"}
    drained(rig)
    assert sorted(rig.committed(), key=int) == sorted(sent + sent, key=int)


def test_records_that_expired_since_are_a_gap_although_the_shard_was_caught_up(rig: Rig) -> None:
    (shard_id,) = rig.stream.shards
    sent = rig.stream.put("a", "b", "c")
    rig.run("r1")
    rig.run("r2")  # sees the tip
    rig.stream.trim(shard_id, 1)
    done(reset, rig, shards=[shard_id], to=after(sent[0]))
    assert rig.run("r3", policies=Policies(gap=GapPolicy.RECORD)).gaps == 1


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"to": TRIM_HORIZON}, "No shards were chosen"),
        ({"to": TRIM_HORIZON, "every": True, "shards": ["s"]}, "all and some"),
        ({"every": True}, "No position"),
        ({"every": True, "to": after("1")}, "of one shard"),
        ({"shards": ["a", "b"], "to": after("1")}, "of one shard"),
        ({"shards": ["a"], "stream_id": "new"}, "as a whole"),
        ({"shards": ["s-none"], "to": TRIM_HORIZON}, "no lease"),
        ({"every": True, "to": TRIM_HORIZON, "reason": " "}, "needs a reason"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(rig: Rig, chosen: dict[str, Any], text: str) -> None:
    rig.run("r1")
    with pytest.raises(ConfigurationError, match=text):
        told(reset, rig, **chosen)


def test_targets_are_read_as_people_and_the_list_of_shards_write_them() -> None:
    moment = datetime(2026, 11, 28, tzinfo=UTC)
    for word in ("TRIM_HORIZON", "trim_horizon", "Trim_Horizon"):  # B-11
        assert target_of(word) == TRIM_HORIZON
    assert target_of("2026-11-28T00:00:00+00:00") == target_of(moment) == at_timestamp(1_795_824_000_000)
    assert target_of("2026-11-28T00:00:00Z") == target_of(moment)
    number = "49590338271490256608559692538361571095921575989136588898"
    assert target_of(number) == after(number)
    assert target_of(f"{number}/3") == after(number, 3)
    assert target_of("sequence:4958") == after("4958")
    assert target_of("sequence:4958/3") == after("4958", 3)
    assert target_of("AT_TIMESTAMP:5") == at_timestamp(5)
    assert str(target_of(f"{number}@5")) == f"{number}@5"


@pytest.mark.parametrize(
    ("text", "told_text"),
    [
        ("LATEST", "not a fixed place"),
        ("latest", "not a fixed place"),
        ("shard_end", "the end of a shard"),
        ("SHARD_END", "end of a shard"),
        ("2026-11-28T00:00:00", "no time zone"),
        ("yesterday", "cannot go to 'yesterday'"),
        ("2026-99-28T00:00:00Z", "cannot go to"),
        ("", "cannot go to"),
        ("sequence:LATEST", "cannot go to"),
        ("sequence:", "cannot go to"),
        ("0001-01-01T00:00:00+14:00x", "cannot go to"),
        ("20261128", r"may be a date.*sequence:20261128"),
        ("2026/11", "may be a date"),
        ("20261128120000", "may be a date"),
        ("1795824000", "may be a date, an epoch"),
        ("1795824000000", "an epoch"),
        (1795824000000, "an epoch"),
        ("1795824000000000000", "an epoch"),
    ],
)
def test_a_target_that_cannot_be_is_refused(text: Any, told_text: str) -> None:
    with pytest.raises(ConfigurationError, match=told_text):
        target_of(text)
