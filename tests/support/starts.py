# SPDX-License-Identifier: Apache-2.0
"""An application without Spark: the product's own ``open_batch`` over local files, and what readers see of its output.

As a program, ``python -m tests.support.starts ROOT…`` copies its batch to each root, in a start of its own each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardbatch.spark.batch import SparkBatch


class LocalFiles:
    """Implements what a batch asks of ``FrameFiles``, for paths and ``file`` URIs."""

    def read(self, uri: str) -> bytes:
        return _local(uri).read_bytes()

    def names(self, folder: str) -> list[str]:
        return sorted(path.name for path in _local(folder).glob("*") if path.is_file())

    def contents(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        return {name: _local(folder, name).read_bytes() for name in names if _local(folder, name).exists()}

    def there(self, folder: str) -> bool:
        return any(path.is_file() for path in _local(folder).rglob("*"))

    def put(self, folder: str, name: str, content: str) -> None:
        _local(folder).mkdir(parents=True)
        _local(folder, f".{name}").write_text(content, "utf-8")
        _local(folder, f".{name}").rename(_local(folder, name))

    def qualified(self, uri: str) -> str:
        return uri


def enter(**given: Any) -> SparkBatch:
    """``open_batch`` with these arguments, a context manager; the rest is told by environment or command line."""
    from shardbatch.spark import open_batch

    session = cast("Any", SimpleNamespace(conf=SimpleNamespace(get=lambda name, default="": default)))
    with mock.patch("shardbatch.spark.batch.files_of", return_value=LocalFiles()):
        return open_batch(session, **given)


def records(batch: SparkBatch) -> list[str]:
    """The data of all records of a batch, in order."""
    from shardbatch import open_batch

    manifest = f"{batch.manifest.staging}/{_manifest_path(batch)}"
    return sorted(value.decode() for value in open_batch(manifest).to_arrow()["data"].to_pylist())


def write(folder: str, data: Sequence[str], part: int = 0) -> None:
    """Writes texts as the column ``data`` of a file in a start's folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _local(folder).mkdir(parents=True, exist_ok=True)
    column = pa.array([text.encode() for text in data], pa.binary())
    pq.write_table(pa.table({"data": column}), _local(folder, f"part-{part}.parquet"))


def shown(out: Path) -> list[str]:
    """What a reader of an output root sees, who takes the highest marker of each batch."""
    import pyarrow.parquet as pq

    from shardbatch.landing.layout import MARKERS
    from tests.support.markers import highest_markers

    markers = out / MARKERS
    found: list[str] = []
    for _, name in highest_markers(path.name for path in markers.glob("*.json")).values():
        for folder in json.loads((markers / name).read_text("utf-8"))["folders"]:
            rows = pq.read_table(out / folder, partitioning=None).column("data").to_pylist()
            found += [value.decode() for value in rows]
    return sorted(found)


def _manifest_path(batch: SparkBatch) -> str:
    from shardbatch.landing import layout

    return layout.manifest_path(batch.manifest.namespace, batch.batch_id)


def _local(uri: str, name: str = "") -> Path:
    path = Path(uri.removeprefix("file://"))
    return path / name if name else path


def main(roots: Sequence[str]) -> None:
    for root in roots:
        with enter() as batch:
            write(batch.output(root), records(batch))


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if not word.startswith("--shardbatch-")])
