# SPDX-License-Identifier: Apache-2.0
"""Committed output on a local disk, as applications and commits leave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardbatch.core.decision import Decision
from shardbatch.landing import layout


def commit(
    out: str, batch_id: str, folders: dict[str, dict[str, list[Any]]], decided: int = 1, **more: Any
) -> Decision:
    """Rows by partition folder (``day=2026-01-01``, or empty), and the marker that a commit leaves."""
    start = f"s{decided}{batch_id}"
    for partition, columns in folders.items():
        folder = Path(out, layout.output_folder(batch_id, start), partition)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / "part-0.parquet")
    decision = Decision(batch_id, decided, ((start, decided),) if folders else (), app="etl/orders", **more)
    marker = Path(out, layout.MARKERS, layout.marker_name(batch_id, decided))
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps(decision.to_json()))
    return decision
