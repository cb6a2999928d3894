# SPDX-License-Identifier: Apache-2.0
"""Once its records are landed, a run needs its stream no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions
from shardbatch.errors import ConnectionUnknown
from shardbatch.hooks.lazy_source import LazySource
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Unreachable:
    """A source that fails whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the stream was asked: {name}")


def test_freeze_and_commit_ask_the_stream_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    sent = rig.stream.put("a", "b", "c")
    rig.land("r0", rig.claim("r0"))
    frozen = rig.freeze("r0", source=Unreachable())
    rig.work(frozen)
    rig.commit("r0", frozen, source=Unreachable())
    assert sorted(rig.committed(), key=int) == sent
    assert frozen.batch_id is not None
    assert rig.manifest(frozen.batch_id)["stream_id"] == rig.stream.identity()


def unopened() -> Any:
    """What opens a stream whose connection is away."""
    raise ConnectionUnknown("The Airflow connection is away.")


@pytest.mark.parametrize("frozen", [False, True], ids=["landed", "in a batch"])
def test_a_read_task_that_has_nothing_to_read_does_not_open_the_stream(tmp_path: Path, frozen: bool) -> None:
    rig = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    rig.stream.put("a", "b")
    found = rig.claim("r0")
    first = rig.land("r0", found)
    if frozen:
        rig.freeze("r0")
    again = rig.land("r0", found, source=LazySource("orders", unopened))
    assert [landed.errors for landed in again] == [{} for _ in found.groups]
    assert [landed.records for landed in again] == [0 if frozen else landed.records for landed in first]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_stream_that_cannot_be_opened_is_the_error_of_the_shards_that_are_read(
    tmp_path: Path, concurrency: int
) -> None:
    rig = Rig(tmp_path / "staging", ScriptedStream(shards=3))
    rig.options |= {"limits": ReadLimits(concurrency=concurrency), "options": ClaimOptions(read_tasks=1)}
    landed, _, _ = rig.stream.shards
    rig.stream.put("a", shard_id=landed)
    found = rig.claim("r0")
    failing = [name for name in rig.stream.shards if name != landed]
    rig.stream.failing = {name: ConnectionUnknown("It was away before.") for name in failing}
    rig.land("r0", found)
    (again,) = rig.land("r0", found, source=LazySource("orders", unopened))
    assert again.records == 1
    assert sorted(again.errors) == failing
    assert all("is away" in text for text in again.errors.values())
