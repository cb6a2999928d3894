# SPDX-License-Identifier: Apache-2.0
"""An application moves from any store to any other, as JSON, and goes on there without a loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shardbatch.control.export_positions import export_positions
from shardbatch.control.json_positions import JsonPositions
from shardbatch.control.verbs import IMPORT_POSITIONS
from shardbatch.core.limits import ReadLimits
from shardbatch.core.rows import Namespace
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


def exported(rig: Rig) -> Any:
    return json.loads(json.dumps(export_positions(rig.consumer(), source=rig.stream, form=JsonPositions()).positions))


def move(source: Rig, target: Rig) -> Any:
    """Export there, import here; what both write is the same."""
    written = exported(source)
    IMPORT_POSITIONS.act(
        target.store,
        target.namespace,
        actor="ann",
        reason="moving",
        dry_run=False,
        source=target.stream,
        form=JsonPositions(),
        positions=written,
    )
    assert exported(target) == written


def test_an_application_moves_here_and_away_again(store: Any, namespace: Namespace, tmp_path: Path) -> None:
    stream = ScriptedStream(shards=2)
    rigs = []
    for number, leases in enumerate((MemoryStore(), store, MemoryStore())):
        folder = tmp_path / str(number)
        folder.mkdir()
        rigs.append(Rig(folder / "staging", stream, leases, app=namespace.app_name))
    sent = stream.put(*"abcd") + stream.pack("a", "a", "a", "a")
    first, here, last = rigs
    first.run("r1", limits=ReadLimits(records=1))
    move(first, here)
    stream.split(next(iter(stream.shards)))
    sent += stream.put(*"abcdefgh")
    here.run("r2", limits=ReadLimits(records=3))
    move(here, last)
    for number in range(3):
        last.run(f"last{number}")
    assert [len(rig.committed()) > 0 for rig in rigs] == [True, True, True]
    assert sum(len(rig.committed()) for rig in rigs) == len(sent)
