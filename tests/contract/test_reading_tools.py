# SPDX-License-Identifier: Apache-2.0
"""The list of committed files in the hands of DuckDB, Polars and pyarrow, as docs/readers.md shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import shardbatch
from shardbatch.landing import layout
from tests.support.pages import DOCS, blocks
from tests.support.roots import decision


@pytest.fixture
def out(tmp_path: Path) -> str:
    root = tmp_path / "out"
    for batch_id, day, value in (("a", "2026-01-01", 1), ("b", "2026-01-02", 2), ("not-committed", "2026-01-02", 3)):
        one = decision(batch_id)
        folder = root / layout.output_folder(batch_id, one.starts[0][0]) / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"a": [value]}), folder / "part-0.parquet")
        if batch_id != "not-committed":
            marker = root / layout.MARKERS / layout.marker_name(batch_id, 1)
            marker.parent.mkdir(exist_ok=True)
            marker.write_text(json.dumps(one.to_json()))
    return str(root)


def test_duckdb(out: str) -> None:
    import duckdb

    paths = [file.path for file in shardbatch.read_committed_files(out)]

    found = duckdb.sql(
        "SELECT day, sum(a) FROM read_parquet($paths, hive_partitioning=true) GROUP BY day ORDER BY day",
        params={"paths": paths},
    ).fetchall()

    assert [(str(day), int(total)) for day, total in found] == [("2026-01-01", 1), ("2026-01-02", 2)]


def test_polars(out: str) -> None:
    import polars

    paths = [file.path for file in shardbatch.read_committed_files(out)]

    found = polars.scan_parquet(paths, hive_partitioning=True).sort("a").collect()

    assert [(str(row["day"]), row["a"]) for row in found.to_dicts()] == [("2026-01-01", 1), ("2026-01-02", 2)]


def test_pyarrow(out: str) -> None:
    files = shardbatch.read_committed_files(out)

    table = ds.dataset([file.path for file in files], partitioning="hive", partition_base_dir=out).to_table()

    rows = sorted((row["a"], str(row["day"]), row["batch_id"]) for row in table.to_pylist())
    assert rows == [(1, "2026-01-01", "a"), (2, "2026-01-02", "b")]


def test_the_page_shows_what_these_take(out: str) -> None:
    import duckdb
    import polars
    import pyarrow

    (block,) = [block for block in blocks(DOCS / "readers.md", "python") if "duckdb.sql(" in block.text]
    paths = [file.path for file in shardbatch.read_committed_files(out)]
    exec(block.text, {"duckdb": duckdb, "polars": polars, "pyarrow": pyarrow, "paths": paths, "out": out})
