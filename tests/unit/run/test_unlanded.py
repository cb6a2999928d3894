# SPDX-License-Identifier: Apache-2.0
"""What was read cannot be landed: that is no shard's fault, and the read task fails (a full disk at a customer's)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.slice import Slice
from shardbatch.errors import SourceError, StagingError, StoreError
from shardbatch.landing.writer import ParquetSliceWriter
from shardbatch.run.hold import Held
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", ScriptedStream(shards=4))


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, *shards: str) -> None:
    """No byte more can be written for these shards."""
    put = ParquetSliceWriter._open_part

    def opened(writer: ParquetSliceWriter) -> Any:
        part = put(writer)
        if writer._shard_id in shards:

            def write_table(*_: Any, **__: Any) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            part._writer.write_table = write_table
        return part

    monkeypatch.setattr(ParquetSliceWriter, "_open_part", opened)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_full_disk_fails_the_read_with_its_remedy_and_a_retry_reads_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    limits = ReadLimits(concurrency=concurrency)
    first, second, *_ = rig.stream.shards
    sent = [number for shard in rig.stream.shards for number in rig.stream.put("a", "b", shard_id=shard)]
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    with monkeypatch.context() as patch:
        fill_the_disk(patch, first, second)
        with pytest.raises(StagingError, match=r"No space left on device\. Free space there.*may be retried"):
            rig.land("r1", found, limits=limits)
    told = [line for line in rig.said if "could not be" in line]
    assert told
    assert all("could not be landed: Could not write" in line for line in told)
    assert not list(rig.folder.rglob(f"*{first}*/*part-*"))
    reads = len(rig.stream.reads)
    rig.land("r1", found, limits=limits)
    landed = [row.shard_id for row in rig.consumer().leases() if row.pending]
    assert sorted(landed) == sorted(rig.stream.shards)
    assert {shard for shard, _ in rig.stream.reads[reads:]} >= {first, second}
    assert sorted(rig.records(rig.freeze("r1").batch_id or ""), key=int) == sorted(sent, key=int)


def test_the_task_tells_of_the_disk_and_not_of_the_shard_that_failed_before_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = rig.stream.shards
    rig.stream.put("a", shard_id=second)
    rig.stream.failing[first] = SourceError("broken")
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    fill_the_disk(monkeypatch, second)
    with pytest.raises(StagingError, match="No space left"):
        rig.land("r1", found, limits=ReadLimits(concurrency=1))
    assert any("could not be read: broken" in line for line in rig.said)


def test_what_cannot_be_noted_is_not_told_as_a_shard_that_cannot_be_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = rig.stream.shards
    rig.stream.put("a", shard_id=first)
    sent = rig.stream.put("b", shard_id=second)
    note = Held.land

    def silent(held: Held, landed: Slice, begun: Slice | None = None) -> bool:
        if held.shard_id == first:
            raise StoreError("The store does not answer.")
        return note(held, landed, begun)

    monkeypatch.setattr(Held, "land", silent)
    (landed,) = rig.land("r1", rig.claim("r1", options=ClaimOptions(read_tasks=1)))
    assert list(landed.errors) == [first]
    assert any(f"Shard {first} could not be noted on its lease: The store" in line for line in rig.said)
    assert rig.records(rig.freeze("r1").batch_id or "") == sent
