# SPDX-License-Identifier: Apache-2.0
"""What others do between two writes of a freeze: a row that moves under its stamp, a batch that is taken meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.lease import Lease
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.start import Work
from shardbatch.errors import LeaseLost
from shardbatch.run import beat, claim, commit, freeze, land
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

Moment = Callable[[Any, Any], bool]


class Before(OneByOne):
    """Lets something happen just before the first write of a kind."""

    def __init__(self, rig: Rig, moment: Moment, happens: Callable[[Any], None]) -> None:
        self._rig, self._moment, self._happens = rig, moment, happens
        self.happened = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rig.store, name)

    def replace(self, seen: Any, new: Any) -> bool:
        if not self.happened and self._moment(seen, new):
            self.happened += 1
            self._happens(seen)
        return bool(self._rig.store.replace(seen, new))


def stamps(shard_id: str) -> Moment:
    """The moment at which a freeze stamps this shard's lease."""
    return lambda seen, new: isinstance(new, Lease) and new.shard_id == shard_id and new.batch_id is not None


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_freeze_goes_on_only_when_every_lease_is_stamped(tmp_path: Path, moved: int) -> None:
    """Else the manifest names a slice whose lease the commit does not move: the next run delivers it once more."""
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=3))
    sent = [number for shard in rig.stream.shards for number in rig.stream.put("a", "b", shard_id=shard)]
    rig.land("r1", rig.claim("r1"))
    me = str(rig.owner("r1"))

    def renewed(lease: Lease) -> None:
        """A read task of the run, whose last sign of life comes late."""
        assert rig.store.replace(lease, leases.renew(lease, me, rig.time.now_ms()))

    store = Before(rig, stamps(list(rig.stream.shards)[moved]), renewed)
    frozen = rig.freeze("r1", store=store)
    assert store.happened == 1
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.over("r1")
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sorted(sent, key=int)
    assert rig.sink() == sorted(sent, key=int)


def test_no_attempt_is_opened_of_a_batch_that_was_taken_while_its_last_one_was_waited_for(tmp_path: Path) -> None:
    """The run was taken for over, and another adopted its batch: two runs would work on one batch, and the attempts of
    each would stop the other's."""
    grace = timedelta(seconds=30)
    rig = Rig(tmp_path / "staging", options={"options": ClaimOptions(attempt_grace=grace)})
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    assert frozen.batch_id is not None
    beat(rig.consumer(), rig.owner("r1"), frozen.batch_id, 1, "app-1", "transform")
    adopted: list[Any] = []
    clock = rig.time.clock()

    def sleeps(seconds: float) -> None:
        rig.time.sleep(seconds)
        if not adopted:
            rig.over("r1")
            adopted.append(rig.claim("r2"))

    with pytest.raises(LeaseLost, match="belongs to"):
        rig.freeze("r1", clock=replace(clock, sleep=sleeps))
    assert [found.batch_id for found in adopted] == [frozen.batch_id]
    (batch,) = rig.batches(BatchState.FROZEN)
    assert (batch.owner, batch.attempt) == (str(rig.owner("r2")), 1)


def test_no_attempt_is_opened_of_a_batch_that_was_taken_while_its_last_one_was_ended(tmp_path: Path) -> None:
    """As above, where ending its application takes as long as it likes and succeeds."""
    rig = Rig(tmp_path / "staging")
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")

    def ended(batch: Batch) -> bool:
        rig.over("r1")
        rig.claim("r2")
        return True

    with pytest.raises(LeaseLost, match="belongs to"):
        freeze(rig.consumer(), rig.owner("r1"), frozen.batch_id, ended)
    (batch,) = rig.batches(BatchState.FROZEN)
    assert (batch.owner, batch.attempt) == (str(rig.owner("r2")), 1)


def test_a_freeze_of_an_interval_leaves_the_leases_of_others_alone(tmp_path: Path) -> None:
    """Two runs read one interval side by side, each some of its shards: neither may freeze what the other landed."""
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    rig.stream.put("a", "b", shard_id=next(iter(rig.stream.shards)))
    rig.stream.put("c", shard_id=list(rig.stream.shards)[1])
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1)
    first, second = (replace(rig.owner(name), mode="interval") for name in ("b1", "b2"))
    consumer = rig.consumer(scope=first.scope, interval=span)
    found = claim(consumer, first)
    for group in found.groups:
        land(consumer, first, group.group, rig.stream.now_ms)
    mine, theirs = consumer.leases()
    assert rig.store.replace(theirs, replace(theirs, lease_owner=str(second), lease_count=theirs.lease_count + 1))
    with pytest.raises(Exception, match="1 shards of the interval were not read"):
        freeze(consumer, first)
    assert [row.batch_id for row in consumer.leases() if row.lease_owner == str(second)] == [None]
    assert mine.batch_id is None


def test_a_lone_run_freezes_the_whole_of_an_interval(tmp_path: Path) -> None:
    """The control of the test above."""
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    sent = [number for shard in rig.stream.shards for number in rig.stream.put("a", shard_id=shard)]
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1)
    me = replace(rig.owner("b1"), mode="interval")
    consumer = rig.consumer(scope=me.scope, interval=span)
    for group in claim(consumer, me).groups:
        land(consumer, me, group.group, rig.stream.now_ms)
    frozen = freeze(consumer, me)
    rig.work(frozen)
    commit(consumer, me, frozen.batch_id, frozen.attempt, works=[Work("transform")])
    assert sorted(rig.records(frozen.batch_id or ""), key=int) == sent
