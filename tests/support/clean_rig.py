# SPDX-License-Identifier: Apache-2.0
"""Clean-up over the folders of a rig, and what stands in them afterwards."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from shardbatch.control.clean_up import Cleaned, clean_up
from shardbatch.landing.area import StagingArea
from shardbatch.run import Frozen
from tests.support.rig import Rig
from tests.support.verbs import told

DAY_MS = 86_400_000
WEEK = timedelta(days=7)


def days(rig: Rig, count: float) -> None:
    rig.time.ms += int(count * DAY_MS)


def clean(rig: Rig, **changes: Any) -> list[Cleaned]:
    changes = {"landing": StagingArea(str(rig.folder)), "clock": rig.time.clock(), "liveness": rig.verdict, **changes}
    return told(clean_up, rig, **changes)  # type: ignore[return-value]


def went(found: list[Cleaned]) -> dict[str, int]:
    """How many of each kind went."""
    return {item.kind: item.number for item in found if item.result not in ("left", "already")}


def left(found: list[Cleaned]) -> dict[str, str]:
    return {item.name: item.why for item in found if item.result == "left"}


def slices(rig: Rig) -> list[Path]:
    return sorted((rig.folder / "etl" / "orders" / "slices").glob("*/*"))


def documents(rig: Rig) -> list[str]:
    return sorted(path.name for path in (rig.folder / "etl" / "orders" / "batches").glob("*"))


def starts(rig: Rig, root: str = "out") -> list[str]:
    return sorted(path.name for path in (rig.folder.parent / root).glob("batch_id=*/start=*"))


def committed(rig: Rig, run: str = "r1") -> str:
    rig.stream.put("a", "b")
    batch_id = rig.run(run).batch_id
    assert batch_id is not None
    return batch_id


def landed(rig: Rig, run: str = "r1") -> None:
    rig.stream.put("a", "b")
    rig.land(run, rig.claim(run))


def frozen(rig: Rig, run: str = "r1") -> Frozen:
    landed(rig, run)
    return rig.freeze(run)
