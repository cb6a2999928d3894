# SPDX-License-Identifier: Apache-2.0
"""Records of which the source tells no arrival time are delivered like all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.ports import Page
from shardbatch.core.position import Position
from shardbatch.core.start import Work
from shardbatch.run import claim, commit, freeze, land
from shardbatch.run.watch import waiting_ms
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class TimelessStream(ScriptedStream):
    """Tells no time of the records whose number it is told to hide."""

    def __init__(self, hidden: Callable[[str], bool] = lambda number: True) -> None:
        super().__init__()
        self.hidden = hidden

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            numbers, times = (page.records.column(name).to_pylist() for name in ("sequence_number", "arrival_time"))
            shown = [None if self.hidden(number) else time for number, time in zip(numbers, times, strict=True)]
            column = pa.array(shown, pa.timestamp("us", tz="UTC"))
            yield replace(page, records=page.records.set_column(3, "arrival_time", column))


@pytest.mark.parametrize("every", [1, 2, 3])
def test_records_without_an_arrival_time_are_committed(tmp_path: Path, every: int) -> None:
    stream = TimelessStream(lambda number: int(number) % every == 0)
    rig = Rig(tmp_path / "staging", stream)
    sent = stream.put(*"abcdefgh")
    rig.run("r1")
    sent += stream.put(*"ij")
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sent


def test_an_interval_delivers_a_record_without_a_time_with_its_neighbours(tmp_path: Path) -> None:
    stream = TimelessStream(lambda number: int(number) % 2 == 1)
    rig = Rig(tmp_path / "staging", stream)
    stream.put("a", "b")  # 100 and 101: before the interval
    stream.now_ms += 600_000
    span = Interval(stream.now_ms, stream.now_ms + 1000)
    within = stream.put("c", "d", "e", "f")
    stream.now_ms += 600_000
    stream.put("g", "h")
    owner = replace(rig.owner("backfill"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=span)
    for group in claim(consumer, owner).groups:
        land(consumer, owner, group.group, stream.now_ms)
    frozen = freeze(consumer, owner)
    rig.work(frozen)
    commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")])
    assert rig.records(frozen.batch_id or "") == within


def test_a_watcher_passes_over_records_without_a_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging", TimelessStream())
    rig.run("r1")
    rig.stream.put("a", "b")
    assert waiting_ms(rig.consumer(), rig.consumer().leases()) is None
