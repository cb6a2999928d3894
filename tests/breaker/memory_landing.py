# SPDX-License-Identifier: Apache-2.0
"""A staging area and output roots in memory, for schedules that are played by the thousand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardbatch.core.decision import Decision
from shardbatch.core.manifest import Manifest
from shardbatch.core.position import Position, after
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile
from shardbatch.core.start import Begun, EndRecord, Left, Start
from shardbatch.errors import OutputTaken, StagingError
from shardbatch.landing.layout import output_folder
from shardbatch.landing.schema import PAGE_SCHEMA


class MemoryWriter:
    """A folder is there from the beginning, and its file once it is finished; unless the folder was removed: then it
    lacks what was written before."""

    def __init__(self, landing: MemoryLanding, shard_id: str, after: Position, tenure: int) -> None:
        self._landing = landing
        self._folder = f"{shard_id}/{after}-t{tenure}-{landing.count()}"
        self._path = f"{self._folder}/part"
        landing.folders[self._folder] = (shard_id, after, tenure)
        self._rows: list[str] = []
        self._pages: list[Any] = []
        self.arrivals_ms: tuple[int, int] | None = None

    def write(self, page: Any) -> None:
        columns = page.to_pydict()
        self._rows += map(str, map(after, columns["sequence_number"], columns["sub_sequence_number"]))
        if page.num_rows:
            self._pages.append(page)
            found = pc.min_max(page.column("arrival_time").cast("int64")).as_py()
            known = self.arrivals_ms or (found["min"] // 1000, found["max"] // 1000)
            self.arrivals_ms = min(known[0], found["min"] // 1000), max(known[1], found["max"] // 1000)

    def rest(self) -> None:
        """All is in memory anyway."""

    def finish(self) -> tuple[LandedFile, ...]:
        if self._folder in self._landing.folders:
            self._landing.files[self._path] = list(self._rows)
            self._landing.pages[self._path] = list(self._pages)
        return (LandedFile(self._path, len(self._rows), 1),)

    def abandon(self) -> None:
        self._landing.files.pop(self._path, None)
        self._landing.folders.pop(self._folder, None)


class MemoryRoots:
    """Output roots: the markers of each by batch and ``decided``.

    ``taken`` are roots of another application, each with whether it shares them; ``away`` are out of reach for a while.
    """

    def __init__(self) -> None:
        self.markers: dict[str, dict[tuple[str, int], Decision]] = {}
        self.taken: dict[str, bool] = {}
        self.away: set[str] = set()

    def place(self, root: str) -> str:
        return root.rstrip("/")

    def folder(self, batch_id: str, start_id: str) -> str:
        return output_folder(batch_id, start_id)

    def look(self, root: str, folders: Sequence[str], app: str, *, shared: bool) -> None:
        place = self._reach(root)
        if place in self.taken and not (shared and self.taken[place]):
            raise OutputTaken(f"{root} is another application's.")

    def mark(self, root: str, decision: Decision) -> None:
        place = self._reach(root)
        held = self.markers.setdefault(place, {}).setdefault((decision.batch_id, decision.decided), decision)
        assert held == decision, "a marker is never overwritten with another text"

    def _reach(self, root: str) -> str:
        place = self.place(root)
        if place in self.away:
            raise StagingError(f"{root} is out of reach.")
        return place

    def sum_if_due(self, root: str) -> bool:
        return False

    def highest(self, place: str) -> dict[str, Decision]:
        """What a reader of a root goes by, by batch."""
        found: dict[str, Decision] = {}
        for told in self.markers.get(place, {}).values():
            if told.batch_id not in found or told.decided > found[told.batch_id].decided:
                found[told.batch_id] = told
        return found


class MemoryLanding:
    """Files, manifests, what starts and tasks leave, and committed markers in dictionaries."""

    uri = "memory:"

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}
        self.pages: dict[str, list[Any]] = {}
        #: The folder of each slice, with its shard, its checkpoint and its tenure.
        self.folders: dict[str, tuple[str, Position, int]] = {}
        #: What clean-up has removed: files, and starts by their root's place and their id.
        self.removed: set[str] = set()
        self.removed_starts: set[tuple[str, str]] = set()
        #: The batch of each start that ever was, and how it ended well.
        self.of_start: dict[str, str] = {}
        self.ended_starts: dict[str, Start] = {}
        self.manifests: dict[str, bytes] = {}
        self.begun: dict[str, list[Begun]] = {}
        self.starts: dict[str, list[Start]] = {}
        self.ends: dict[str, dict[str, EndRecord]] = {}
        #: What each start has written, by the root's place and its id.
        self.written: dict[tuple[str, str], list[str]] = {}
        self.outputs = MemoryRoots()
        self._number = itertools.count()

    def count(self) -> int:
        """A number that was not used before."""
        return next(self._number)

    def write(self, root: str, start_id: str, rows: list[str]) -> None:
        """What an application writes below a root."""
        self.written.setdefault((self.outputs.place(root), start_id), []).extend(rows)

    def make(self) -> None:
        """It is there."""

    def check(self, namespace: Namespace) -> None:
        """Always there."""

    def slice(self, namespace: Namespace, shard_id: str, after: Position, tenure: int) -> MemoryWriter:
        return MemoryWriter(self, shard_id, after, tenure)

    def write_manifest(self, namespace: Namespace, batch_id: str, content: bytes) -> str:
        assert batch_id not in self.manifests, "a manifest is written once"
        self.manifests[batch_id] = content
        return self.manifest_uri(namespace, batch_id)

    def manifest_uri(self, namespace: Namespace, batch_id: str) -> str:
        return f"memory:{batch_id}"

    def read_manifest(self, namespace: Namespace, batch_id: str) -> bytes:
        if batch_id not in self.manifests:
            raise StagingError("no such manifest")
        return self.manifests[batch_id]

    def read_manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        return {batch_id: self.manifests.get(batch_id) for batch_id in batch_ids}

    def records(self, file: LandedFile, rows: int) -> Iterator[Any]:
        if file.path not in self.files:
            raise StagingError("no such file")
        assert sum(page.num_rows for page in self.pages[file.path]) == file.records, "it lacks records"
        return iter(self.pages[file.path])

    def no_records(self) -> Any:
        return pa.RecordBatch.from_pylist([], schema=PAGE_SCHEMA)

    def note_attempt(self, namespace: Namespace, batch_id: str, attempt: int) -> None:
        """Nobody asks here."""

    def missing_files(self, namespace: Namespace, batch_id: str) -> list[str]:
        if batch_id not in self.manifests:
            return [batch_id]
        return [file.path for file in Manifest.loads(self.manifests[batch_id]).files if file.path not in self.files]

    def starts_of(
        self, namespace: Namespace, batch_id: str, work: str, attempt: int
    ) -> tuple[Sequence[Begun], Mapping[str, Start]]:
        begun = [b for b in self.begun.get(batch_id, ()) if (b.work, b.attempt) == (work, attempt)]
        return begun, {start.start_id: start for start in self.starts.get(batch_id, ())}

    def leave_end(self, namespace: Namespace, batch_id: str, record: EndRecord, unique: str) -> None:
        held = self.ends.setdefault(batch_id, {}).setdefault(unique, record)
        assert held == record, "an end record is never overwritten with another"

    def left_by(self, namespace: Namespace, batch_id: str, works: Sequence[str]) -> dict[str, Left]:
        found: dict[str, Left] = {}
        for work in works:
            ends = tuple(record for record in self.ends.get(batch_id, {}).values() if record.work == work)
            begun = frozenset(b.attempt for b in self.begun.get(batch_id, ()) if b.work == work)
            if ends or begun:
                found[work] = Left(ends, begun)
        return found

    def begun_starts(self, namespace: Namespace, batch_id: str) -> list[Begun]:
        return list(self.begun.get(batch_id, ()))

    def finished_starts(self, namespace: Namespace, batch_id: str) -> list[Start]:
        return list(self.starts.get(batch_id, ()))
