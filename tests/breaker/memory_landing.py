# SPDX-License-Identifier: Apache-2.0
"""A staging area in memory, for schedules that are played by the thousand."""

from __future__ import annotations

import itertools
from typing import Any

from shardbatch.core.batch import Start
from shardbatch.core.position import Position, after
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile
from shardbatch.errors import StagingError


class MemoryWriter:
    def __init__(self, landing: MemoryLanding, path: str) -> None:
        self._landing, self._path = landing, path
        self._rows: list[str] = []

    def write(self, page: Any) -> None:
        columns = page.to_pydict()
        self._rows += map(str, map(after, columns["sequence_number"], columns["sub_sequence_number"]))

    def rest(self) -> None:
        """All is in memory anyway."""

    def finish(self) -> tuple[LandedFile, ...]:
        self._landing.files[self._path] = list(self._rows)
        return (LandedFile(self._path, len(self._rows), 1),)

    def abandon(self) -> None:
        self._landing.files.pop(self._path, None)


class MemoryLanding:
    """Files, manifests, done markers and committed markers in dictionaries."""

    uri = "memory:"

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}
        self.manifests: dict[str, bytes] = {}
        self.starts: dict[str, list[Start]] = {}
        self.outputs: dict[tuple[str, str], list[str]] = {}
        self.markers: dict[tuple[str, int], tuple[Start, ...]] = {}
        self._number = itertools.count()

    def check(self, namespace: Namespace) -> None:
        """Always there."""

    def slice(self, namespace: Namespace, shard_id: str, after: Position) -> MemoryWriter:
        return MemoryWriter(self, f"{shard_id}/{after}-{next(self._number)}")

    def write_manifest(self, namespace: Namespace, batch_id: str, content: bytes) -> str:
        assert batch_id not in self.manifests, "a manifest is written once"
        self.manifests[batch_id] = content
        return f"memory:{batch_id}"

    def read_manifest(self, namespace: Namespace, batch_id: str) -> bytes:
        if batch_id not in self.manifests:
            raise StagingError("no such manifest")
        return self.manifests[batch_id]

    def note_attempt(self, namespace: Namespace, batch_id: str, attempt: int) -> None:
        """Nobody asks here."""

    def missing_files(self, namespace: Namespace, batch_id: str) -> list[str]:
        return [] if batch_id in self.manifests else [batch_id]

    def finished_starts(self, namespace: Namespace, batch_id: str) -> list[Start]:
        return list(self.starts.get(batch_id, ()))

    def mark_committed(self, output: str, batch_id: str, decided: int, *starts: Start) -> None:
        held = self.markers.setdefault((batch_id, decided), starts)
        assert held == starts, "a marker is never overwritten with another start"

    def published(self) -> dict[str, list[str]]:
        """What a reader of the highest markers sees, by batch."""
        highest: dict[str, int] = {}
        for batch_id, decided in self.markers:
            highest[batch_id] = max(decided, highest.get(batch_id, 0))
        return {
            batch_id: [
                row for start in self.markers[batch_id, decided] for row in self.outputs[batch_id, start.start_id]
            ]
            for batch_id, decided in highest.items()
        }
