# SPDX-License-Identifier: Apache-2.0
"""The service: a folder for each stream, a file of lines for each shard. Several processes may write and read it."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One record: a number that rises within its shard, a key and a text."""

    number: int
    key: str
    text: str


@dataclass(frozen=True)
class Shelf:
    """What is known of one shard beside its lines."""

    name: str
    parents: tuple[str, ...]
    closed: bool


class LineFiles:
    """One stream.

    :param root: the folder of all streams.
    """

    def __init__(self, root: str | Path, name: str) -> None:
        self.name = name
        self.folder = Path(root) / name

    def create(self, shards: int = 1) -> None:
        """Make the stream, with so many open shards."""
        self.folder.mkdir(parents=True)
        (self.folder / "id").write_text(uuid.uuid4().hex, "utf-8")
        for _ in range(shards):
            self._open(())

    def delete(self) -> None:
        """Remove the stream with all that is in it."""
        shutil.rmtree(self.folder)

    def identity(self) -> str | None:
        """What tells the stream from another one of its name; ``None`` if there is no such stream."""
        try:
            return (self.folder / "id").read_text("utf-8")
        except FileNotFoundError:
            return None

    def shards(self) -> list[Shelf]:
        """All shards, oldest first."""
        return [
            Shelf(path.stem, tuple(json.loads(path.read_text("utf-8"))), path.with_suffix(".closed").exists())
            for path in sorted(self.folder.glob("*.parents"))
        ]

    def lines(self, shard_id: str) -> list[Line] | None:
        """All lines that a shard still has; ``None`` if there is no such shard."""
        try:
            text = (self.folder / f"{shard_id}.lines").read_text("utf-8")
        except FileNotFoundError:
            return None
        whole = text.rpartition("\n")[0]  # one that is being written has no end yet
        return [Line(*json.loads(line)) for line in whole.splitlines()]

    def closed(self, shard_id: str) -> bool:
        """Whether no line comes to a shard any more."""
        return (self.folder / f"{shard_id}.closed").exists()

    def put(self, shard_id: str, *texts: str) -> list[str]:
        """Append lines to a shard; their numbers."""
        counter = self.folder / "counter"
        first = int(counter.read_text("utf-8")) if counter.exists() else 1
        counter.write_text(str(first + len(texts)), "utf-8")
        with (self.folder / f"{shard_id}.lines").open("a", encoding="utf-8") as file:
            for number, text in enumerate(texts, first):
                file.write(json.dumps([number, f"k-{text}", text]) + "\n")
        return [str(first + at) for at in range(len(texts))]

    def drop(self, shard_id: str) -> None:
        """Forget all lines that a shard has so far."""
        (self.folder / f"{shard_id}.lines").write_text("", "utf-8")

    def reshard(self, *parents: str, children: int) -> list[str]:
        """Close shards in favour of children."""
        for parent in parents:
            (self.folder / f"{parent}.closed").touch()
        return [self._open(parents) for _ in range(children)]

    def _open(self, parents: Sequence[str]) -> str:
        name = f"shelf-{len(self.shards())}"
        (self.folder / f"{name}.lines").touch()
        (self.folder / f"{name}.parents").write_text(json.dumps(parents), "utf-8")
        return name
