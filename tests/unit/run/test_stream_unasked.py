# SPDX-License-Identifier: Apache-2.0
"""Once its records are landed, a run needs its stream no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
