# SPDX-License-Identifier: Apache-2.0
"""What a read waited for the service's limits is told: in the log, the answer of a read task, slice and batch row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.cli import tables
from shardbatch.core.ports import Page
from shardbatch.core.position import Position
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import Throttled
from shardbatch.run.batch_status import batch_status
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

SHARD = "shardId-000000000000"


class RefusingStream(ScriptedStream):
    """Refuses a call before each page, which takes two seconds, and renews a subscription with each."""

    refuses_for_ever = False

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            yield Page(self._batch([]), position, silent=True, waiting=Waiting(refused=1))
            if self.refuses_for_ever:
                raise Throttled
            yield replace(page, waiting=Waiting(2.0, resubscribed=1))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", RefusingStream(page_size=2))


def test_what_a_read_waited_stands_in_log_answer_slice_and_batch(rig: Rig) -> None:
    rig.stream.put(*"abc")
    (landed,) = rig.land("r1", rig.claim("r1"))
    assert landed.waiting == Waiting(6.0, 3, 3)
    words = "waited 6.0 s for the service's limits, 3 calls refused, 3 lasting answers renewed"
    (line,) = [line for line in rig.said if line.startswith(f"Shard {SHARD}: 3 records")]
    assert line.endswith(f", from TRIM_HORIZON to 102, read to the tip as of the run's start; {words}.")
    assert any(line.startswith("Read task ") and words in line for line in rig.said)
    (lease,) = rig.consumer().leases()
    assert lease.pending is not None
    assert lease.pending.waiting == Waiting(6.0, 3, 3)
    frozen = rig.freeze("r1")
    (batch,) = rig.batches()
    assert (batch.waited_ms, batch.refused, batch.resubscribed) == (6000, 3, 3)
    (line,) = tables.batches([batch_status(batch)], 0)
    assert line["waited"] == "6 s, 3 refused, 3 renewed"
    assert rig.manifest(frozen.batch_id or "")["slices"][0]["waiting"]["refused"] == 3


def test_a_read_that_found_nothing_tells_its_waiting_too(rig: Rig) -> None:
    (landed,) = rig.land("r1", rig.claim("r1"))
    assert (landed.records, landed.waiting) == (0, Waiting(2.0, 1, 1))


def test_a_read_that_failed_tells_its_waiting_too(rig: Rig) -> None:
    rig.stream.put("a", shard_id=SHARD)
    other = rig.stream._add(rig.stream.shards[SHARD].hash_range, ())
    rig.stream.refuses_for_ever = True  # type: ignore[attr-defined]
    found = rig.claim("r1")
    with pytest.raises(Throttled):
        rig.land("r1", found)
    assert any("2 calls refused" in line for line in rig.said)
    del other


def test_a_read_that_waited_for_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging")
    rig.stream.put("a")
    (landed,) = rig.land("r1", rig.claim("r1"))
    assert landed.waiting == NO_WAITING
    assert not any("waited" in line for line in rig.said)
    rig.freeze("r1")
    (line,) = tables.batches([batch_status(batch) for batch in rig.batches()], 0)
    assert line["waited"] == "-"
