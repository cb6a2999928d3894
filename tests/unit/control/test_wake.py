# SPDX-License-Identifier: Apache-2.0
"""Whether a run would find something to do: over the rows that runs leave, and a stream that tells how often it was
asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.wake import MOST_PAGES, Look, look
from shardbatch.core.batch import BatchState
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Page, Verdict
from shardbatch.core.position import Position, at_timestamp
from shardbatch.errors import SourceError, UnsupportedSchema
from shardbatch.run.consumer import Rows
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream, of_lag

HOUR = 3_600_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", stream=ScriptedStream(shards=3))


def seen(rig: Rig, *, may: bool = True, may_look: bool = True) -> Look:
    """One look, which may wake a run, or not; it changes no row."""
    rig.stream.reads.clear()
    rig.store.prepare()
    before = [*rig.consumer().leases(), rig.consumer().application(), *rig.batches()]
    found = look(
        Rows(namespace=rig.namespace, store=rig.store, clock=rig.time.clock()),
        rig.stream,
        rig.verdict,
        lambda places, to_look=False: may_look if to_look else may,
    )
    assert [*rig.consumer().leases(), rig.consumer().application(), *rig.batches()] == before
    return found


def test_the_first_run_is_wanted_before_there_are_records_since_it_says_where_to_begin(rig: Rig) -> None:
    assert seen(rig) == Look(True, "No run has claimed yet, and the stream has 3 shards.")
    assert not seen(rig, may=False).due
    rig.stream.shards.clear()
    assert not seen(rig).due
    assert look(None, rig.stream, rig.verdict, lambda *_, **__: True).due is False


def test_a_store_without_tables_is_that_of_an_application_without_a_claim(rig: Rig) -> None:
    assert look(None, rig.stream, rig.verdict, lambda places, to_look=False: places == "").due
    assert not look(None, rig.stream, rig.verdict, lambda *_, **__: False).due


def test_an_idle_stream_wants_nothing_and_one_record_in_any_shard_does(rig: Rig) -> None:
    rig.run("r1")
    assert seen(rig) == Look(False, "Nothing to read.", seen(rig).places)
    assert len(rig.stream.reads) == 3
    for shard in list(rig.stream.shards):
        rig.stream.put("a", shard_id=shard)
        assert seen(rig).why == f"Something to read in {shard}."
        rig.run(f"of-{shard}")
        assert not seen(rig).due


def test_the_stream_is_not_asked_while_a_wake_up_is_pending(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.put("a")
    assert not seen(rig, may=False).due
    assert rig.stream.reads == []


def test_a_run_at_work_is_left_alone_and_its_end_makes_up_for_it(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.put("a")
    rig.claim("r2")
    found = seen(rig)
    assert (found.due, found.why, rig.stream.reads) == (False, f"At work: {rig.owner('r2')}.", [])
    rig.over("r2")
    assert seen(rig).due


def test_a_run_at_work_will_find_what_another_left(rig: Rig) -> None:
    rig.stream.put("a", shard_id=next(iter(rig.stream.shards)))
    few = ClaimOptions(max_shards=1)
    rig.land("r1", rig.claim("r1", options=few), options=few)
    rig.freeze("r1", options=few)
    rig.claim("r2")
    rig.over("r1")
    assert seen(rig).why == f"At work: {rig.owner('r2')}."
    rig.over("r2")
    assert seen(rig).due


@pytest.mark.parametrize("verdict", [Verdict.OVER, Verdict.GONE])
def test_the_batch_of_a_run_that_failed_is_to_be_finished(rig: Rig, verdict: Verdict) -> None:
    rig.run("r1")
    rig.stream.put("a")
    rig.land("r2", rig.claim("r2"))
    rig.freeze("r2")
    assert not seen(rig).due
    rig.verdicts[str(rig.owner("r2"))] = verdict
    found = seen(rig)
    assert found.due
    assert "of a run that is over" in found.why
    (frozen,) = rig.batches(BatchState.FROZEN)
    assert rig.store.replace(frozen, replace(frozen, state=BatchState.PARKED, row_count=frozen.row_count + 1))
    assert not seen(rig).due, "it waits for a person"


def test_another_deployment_that_shows_no_life_for_its_own_time_is_no_more_at_work(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.put("a")
    rig.claim("theirs")
    rig.verdicts[str(rig.owner("theirs"))] = Verdict.FOREIGN
    assert seen(rig).why == f"At work: {rig.owner('theirs')}."
    application = rig.consumer().application()
    assert application is not None
    rig.time.ms += application.claimed_by[0].lease_duration_ms - 1_000
    assert not seen(rig).due
    rig.time.ms += 2_000
    assert seen(rig).due


def test_a_reset_at_work_is_left_alone(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.put("a")
    for lease in rig.consumer().leases():
        held = replace(lease, lease_owner="reset:1:taken", lease_count=lease.lease_count + 1)
        assert rig.store.replace(lease, held)
    assert seen(rig).why == "At work: reset:1:taken."


def test_an_import_at_work_is_left_alone(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.put("a")
    application: Any = rig.consumer().application()
    busy = replace(application, importing="by a person", row_count=application.row_count + 1)
    assert rig.store.replace(application, busy)
    assert not seen(rig).due


def test_the_end_of_a_shard_and_its_children_are_something_to_do(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    shard, *_ = rig.stream.shards
    children = rig.stream.split(shard)
    assert seen(rig).why == f"Something to read in {shard}."
    rig.stream.names_children = False
    hidden = {name: rig.stream.shards.pop(name) for name in children}
    rig.run("r2")
    ended = {lease.shard_id for lease in rig.consumer().leases() if lease.completed}
    assert (ended, seen(rig).due) == ({shard}, False)
    rig.stream.shards.update(hidden)
    assert seen(rig).why == f"Shards without a lease: {', '.join(children)}."


def test_the_stream_is_listed_only_where_a_shard_may_be_missing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.run("r1")
    listed: list[int] = []
    whole = rig.stream.list_shards
    monkeypatch.setattr(rig.stream, "list_shards", lambda: listed.append(1) or whole())
    seen(rig)
    assert listed == []
    monkeypatch.setattr(rig.stream, "capabilities", replace(rig.stream.capabilities, lineage=False))
    seen(rig)
    assert listed == [1]


def test_a_shard_that_the_service_forgot_is_something_to_do(rig: Rig) -> None:
    rig.run("r1")
    shard, *_ = rig.stream.shards
    rig.stream.forget(shard)
    assert seen(rig).why == f"Something to read in {shard}."


def test_a_stream_that_begins_later_is_not_read_before(rig: Rig) -> None:
    rig.options["start"] = at_timestamp(rig.stream.now_ms + HOUR)
    rig.run("r1")
    rig.stream.put("too early")
    assert not seen(rig).due
    assert rig.stream.reads == []
    rig.stream.now_ms += HOUR + 1
    rig.stream.put("a")
    assert seen(rig).due


def test_one_shard_that_cannot_be_asked_hides_no_other(rig: Rig) -> None:
    rig.run("r1")
    first, second, _ = rig.stream.shards
    rig.stream.failing[first] = SourceError("It does not answer.")
    with pytest.raises(SourceError, match="does not answer"):
        seen(rig)
    rig.stream.put("a", shard_id=second)
    assert seen(rig).why == f"Something to read in {second}."


def test_rows_of_another_version_are_an_error_that_a_person_mends(rig: Rig) -> None:
    rig.run("r1")
    application: Any = rig.consumer().application()
    assert rig.store.replace(application, replace(application, schema_version=1, row_count=application.row_count + 1))
    with pytest.raises(UnsupportedSchema):
        seen(rig)


# ------------------------------------------------------------------ what answers show


class Pages(ScriptedStream):
    """Each shard gives out these pages."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        super().__init__()
        self.pages = pages

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in self.pages:
            yield replace(of_lag(Page(self._batch([]), position), page.get("lag_ms")), **page)


def told(rig: Rig, *pages: dict[str, Any]) -> bool:
    rig.run("r1")
    rig.stream = Pages(*pages)
    return seen(rig).due


def test_empty_answers_are_followed_to_the_tip(rig: Rig) -> None:
    assert not told(rig, {"lag_ms": 9}, {"lag_ms": 5}, {"lag_ms": 0})


def test_what_is_still_behind_after_many_answers_has_something_to_read(rig: Rig) -> None:
    assert told(rig, *[{"lag_ms": 9}] * (MOST_PAGES + 5))


def test_the_tip_behind_many_answers_is_still_found(rig: Rig) -> None:
    assert not told(rig, *[{"lag_ms": 9}] * (MOST_PAGES - 1), {"lag_ms": 0})


def test_refused_calls_tell_nothing(rig: Rig) -> None:
    assert not told(rig, *[{"silent": True}] * (MOST_PAGES + 5))


def test_that_the_record_at_the_checkpoint_has_expired_is_no_sign_of_others(rig: Rig) -> None:
    assert not told(rig, {"lag_ms": 0, "checkpoint_gone": True})


# ------------------------------------------------------------------ an idle stream


def test_an_idle_application_is_woken_to_look_so_that_no_gap_is_told_of_what_never_was(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    half = rig.stream.retention_ms() // 2
    rig.time.ms += half - 10_000
    assert not seen(rig).due
    rig.time.ms += 20_000
    found = seen(rig)
    assert (found.due, found.to_look) == (True, True)
    assert not seen(rig, may_look=False).due
    rig.stream.now_ms = rig.time.ms
    rig.run("r2")
    assert not seen(rig).due
