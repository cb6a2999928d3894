# SPDX-License-Identifier: Apache-2.0
"""What the steps measure: each record once, each refused call, each lost race, and where the application stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core import metrics
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.core.metrics import Kind, Metric
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.ports import Page
from shardbatch.core.position import Position
from shardbatch.core.start import Work
from shardbatch.core.waiting import Waiting
from shardbatch.errors import SourceError, StagingError
from shardbatch.run import Claim, claim, commit, freeze, land
from tests.support.passing import HOUR, later, time_passes
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Listener:
    """Adds up what counters tell, and keeps the last of gauges and all of timers."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.stands: dict[str, float] = {}
        self.times: dict[str, list[float]] = {}

    def __call__(self, metric: Metric, value: float) -> None:
        if metric.kind is Kind.COUNTER:
            self.counted[metric.name] += round(value)
        elif metric.kind is Kind.GAUGE:
            self.stands[metric.name] = value
        else:
            self.times.setdefault(metric.name, []).append(value)

    def count(self, metric: Metric) -> int:
        return self.counted[metric.name]

    def gauge(self, metric: Metric) -> float | None:
        return self.stands.get(metric.name)


@pytest.fixture
def heard() -> Listener:
    return Listener()


@pytest.fixture
def rig(tmp_path: Path, heard: Listener) -> Rig:
    return Rig(tmp_path / "staging", stream=ScriptedStream(shards=2), options={"measure": heard})


def test_what_is_read_and_committed_is_counted_once(rig: Rig, heard: Listener) -> None:
    rig.stream.put(*"abcdefg")
    rig.run("r1")
    [batch] = rig.batches()
    read = (heard.count(metrics.READ_RECORDS), heard.count(metrics.READ_BYTES))
    done = (heard.count(metrics.COMMITTED_RECORDS), heard.count(metrics.COMMITTED_BYTES))
    assert read == done == (7, batch.bytes)
    assert heard.count(metrics.COMMITTED_BATCHES) == 1
    rig.run("r2")  # nothing new
    assert heard.count(metrics.READ_RECORDS) == 7
    assert heard.count(metrics.COMMITTED_BATCHES) == 1


def test_a_slice_that_a_retry_finds_landed_is_not_counted_again(rig: Rig, heard: Listener) -> None:
    rig.stream.put(*"abcd")
    found = rig.claim("r1")
    rig.land("r1", found)
    rig.land("r1", found)
    assert heard.count(metrics.READ_RECORDS) == 4


def test_a_commit_that_runs_again_and_a_replay_count_nothing(rig: Rig, heard: Listener) -> None:
    rig.stream.put(*"abcd")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.commit("r1", frozen)
    again = rig.freeze("r1", frozen.batch_id)
    rig.work(again)
    assert rig.commit("r1", again).replayed
    assert heard.count(metrics.COMMITTED_RECORDS) == 4
    assert len(heard.times[metrics.BATCH_AGE.name]) == 1


def test_a_commit_that_failed_after_its_decision_has_counted_it_and_the_next_try_tells_where_it_stands(
    rig: Rig, heard: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.run("r1")
    rig.over("r1")
    rig.stream.put(*"abcdefgh")
    later(rig, 30)
    policies = Policies(gap=GapPolicy.RECORD)
    rig.land("r2", rig.claim("r2", policies=policies), policies=policies)
    frozen = rig.freeze("r2", policies=policies)
    rig.work(frozen)
    heard.stands.clear()
    with monkeypatch.context() as silent:

        def mark(*_: Any) -> None:
            raise StagingError("The root is away.")

        silent.setitem(commit.__globals__, "mark", mark)
        with pytest.raises(StagingError, match="away"):
            rig.commit("r2", frozen)
    rig.commit("r2", frozen)
    [batch] = [batch for batch in rig.batches() if batch.batch_id == frozen.batch_id]
    assert batch.gaps > 0
    assert heard.count(metrics.GAPS) == batch.gaps
    assert heard.count(metrics.COMMITTED_RECORDS) == batch.records
    assert heard.gauge(metrics.BEHIND) is not None


def test_the_age_of_a_batch_is_the_time_from_its_freeze_to_its_commit(rig: Rig, heard: Listener) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.time.sleep(90)
    rig.commit("r1", frozen)
    [age] = heard.times[metrics.BATCH_AGE.name]
    assert 90_000 <= age < 91_000


def test_an_undecided_batch_has_an_age_and_none_is_zero(rig: Rig, heard: Listener) -> None:
    rig.stream.put("a")
    found = rig.claim("r1")
    assert heard.gauge(metrics.OLDEST_BATCH) == 0
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.time.sleep(600)
    rig.claim("r1")
    age = heard.gauge(metrics.OLDEST_BATCH)
    assert age is not None
    assert 600_000 <= age < 601_000
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert heard.gauge(metrics.OLDEST_BATCH) == 0


def test_a_commit_says_nothing_of_the_batches_of_others(rig: Rig, heard: Listener) -> None:
    """It does not read their rows; zero would say that there are none."""
    rig.stream.put(*"abcdefgh")
    first = rig.claim("r1", options=ClaimOptions(max_shards=1))
    rig.land("r1", first)
    frozen = rig.freeze("r1")
    second = rig.claim("r2")
    rig.land("r2", second)
    other = rig.freeze("r2")
    rig.time.sleep(60)
    rig.claim("r3")
    age = heard.gauge(metrics.OLDEST_BATCH)
    assert age is not None
    assert age > 0
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert heard.gauge(metrics.OLDEST_BATCH) == age
    rig.work(other)
    rig.commit("r2", other)
    assert heard.gauge(metrics.OLDEST_BATCH) == 0


def test_how_far_it_is_behind_grows_at_rest_and_falls_with_a_run_even_an_idle_one(rig: Rig, heard: Listener) -> None:
    rig.stream.put(*"abcd")
    rig.claim("r0")
    assert heard.gauge(metrics.BEHIND) is None  # nothing was committed: nothing is known
    rig.over("r0")
    rig.run("r1")
    fresh = heard.gauge(metrics.BEHIND)
    assert fresh is not None
    assert fresh <= 10 * MARGIN_MS
    time_passes(rig, 1)
    rig.over("r1")
    rig.claim("r2")
    behind = heard.gauge(metrics.BEHIND)
    assert behind is not None
    assert HOUR <= behind <= HOUR + 10 * MARGIN_MS
    rig.over("r2")
    rig.run("r3")
    fresh = heard.gauge(metrics.BEHIND)
    assert fresh is not None
    assert fresh <= 10 * MARGIN_MS


def test_the_time_until_data_loss_is_that_of_the_shard_that_has_the_least(rig: Rig, heard: Listener) -> None:
    rig.stream.put(*"abcd")
    rig.run("r1")
    time_passes(rig, 5)
    names = sorted(rig.stream.shards)
    rig.stream.put("x", shard_id=names[0])
    rig.stream.failing[names[1]] = SourceError("It cannot be read.")
    rig.run("r2")
    rig.stream.failing.clear()
    time_passes(rig, 1)
    rig.claim("r3")
    left = heard.gauge(metrics.UNTIL_LOSS)
    assert left is not None
    assert 17 * HOUR <= left <= 18 * HOUR + 1000
    time_passes(rig, 30)
    rig.over("r3")
    rig.claim("r4")
    assert heard.gauge(metrics.UNTIL_LOSS) == 0


def test_gaps_are_counted_at_the_commit_and_shards_that_wait_for_a_person_as_long_as_they_do(
    rig: Rig, heard: Listener
) -> None:
    rig.run("r1")
    rig.stream.put(*"abcdefgh")
    later(rig, 30)
    rig.stream.put(*"abcdefgh")
    rig.run("r2")
    rig.claim("r3")
    assert heard.gauge(metrics.WAITING_SHARDS) == 2
    assert heard.count(metrics.GAPS) == 0
    rig.over("r3")
    rig.run("r4", policies=Policies(gap=GapPolicy.RECORD))
    assert heard.count(metrics.GAPS) == 2
    rig.claim("r5")
    assert heard.gauge(metrics.WAITING_SHARDS) == 0


def test_an_interval_says_nothing_of_where_the_live_application_stands(rig: Rig, heard: Listener) -> None:
    rig.stream.put(*"abcd")
    began = rig.stream.now_ms
    rig.run("r1")
    time_passes(rig, 1)
    heard.stands.clear()
    owner = replace(rig.owner("i1"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=Interval(began - 1000, began + 1000))
    for group in claim(consumer, owner).groups:
        land(consumer, owner, group.group, rig.stream.now_ms)
    frozen = freeze(consumer, owner)
    rig.work(frozen)
    commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")])
    assert heard.stands == {}
    assert heard.count(metrics.COMMITTED_BATCHES) == 2


def test_leases_that_another_claim_takes_first_are_lost_races(
    rig: Rig, heard: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.stream.put(*"abcd")
    written = type(rig.store).replace_many

    def taken_before(store: Any, changes: Any) -> list[bool]:
        monkeypatch.undo()
        lease = changes[0][0]
        assert store.replace(lease, leases.take(lease, str(rig.owner("other")), "g", 1))
        return list(written(store, changes))

    monkeypatch.setattr(type(rig.store), "replace_many", taken_before)
    found: Claim = rig.claim("r1")
    assert found.shards == 1
    assert heard.count(metrics.LOST_RACES) == 1


class Stolen(ScriptedStream):
    """Another run takes the lease of the first shard while it is read."""

    rig: Rig

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            row = self.rig.consumer().lease(shard_id)
            if row is not None and shard_id == min(self.shards) and row.lease_owner == str(self.rig.owner("r1")):
                assert self.rig.store.replace(row, leases.take(row, str(self.rig.owner("other")), "g", 1))
            yield page


def test_a_lease_that_is_lost_while_it_is_read_is_a_lost_race_and_its_records_do_not_count(
    rig: Rig, heard: Listener
) -> None:
    rig.stream = stream = Stolen(shards=2)
    stream.rig = rig
    for name in stream.shards:
        stream.put("a", "b", "c", shard_id=name)
    rig.land("r1", rig.claim("r1"))
    assert heard.count(metrics.LOST_RACES) == 1
    assert heard.count(metrics.READ_RECORDS) == 3


def test_a_stamp_that_is_lost_is_a_lost_race(rig: Rig, heard: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.stream.put(*"abcdefgh")
    rig.land("r1", rig.claim("r1"))
    written = type(rig.store).replace_many

    def renewed_before(store: Any, changes: Any) -> list[bool]:
        monkeypatch.undo()
        lease = changes[0][0]
        assert store.replace(lease, leases.renew(lease, str(rig.owner("r1")), 1))
        return list(written(store, changes))

    monkeypatch.setattr(type(rig.store), "replace_many", renewed_before)
    assert rig.freeze("r1").record_count == 8
    assert heard.count(metrics.LOST_RACES) == 1


class Refusing(ScriptedStream):
    """Each answer cost two refused calls and three seconds; after the second one the service gives up."""

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for number, page in enumerate(super().read(shard_id, position)):
            if number == 2:
                raise SourceError("It was refused for too long.")
            yield replace(page, waiting=Waiting(3.0, refused=2))


@pytest.mark.parametrize("records", [0, 30])
def test_refused_calls_are_counted_whatever_becomes_of_the_read(rig: Rig, heard: Listener, records: int) -> None:
    rig.stream = Refusing(shards=1)
    rig.stream.put(*[str(number) for number in range(records)])
    found = rig.claim("r1")
    rig.land("r1", found)
    answers = 2 if records else 1  # without records the first one is at the tip
    assert heard.count(metrics.REFUSED_CALLS) == 2 * answers
    assert heard.times[metrics.WAITED.name] == [3000.0 * answers]
    rig.land("r1", found) if records else None
    assert heard.count(metrics.REFUSED_CALLS) == 2 * answers  # what a retry finds landed was told before


def test_a_read_that_fails_without_an_answer_has_told_of_its_refused_calls(rig: Rig, heard: Listener) -> None:
    class Refused(ScriptedStream):
        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            for page in super().read(shard_id, position):
                yield replace(page, waiting=Waiting(9.0, refused=5), silent=True, at_tip=False, lag_ms=None)
                raise SourceError("It was refused for too long.")

    rig.stream = Refused(shards=1)
    found = rig.claim("r1")
    with pytest.raises(SourceError):
        rig.land("r1", found)
    assert heard.count(metrics.REFUSED_CALLS) == 5
    assert heard.count(metrics.READ_RECORDS) == 0
