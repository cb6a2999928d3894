# SPDX-License-Identifier: Apache-2.0
"""What works leave beside a batch's manifest: begun and done markers of starts, and end records of tries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, TypeVar

from shardbatch.core.rows import Namespace
from shardbatch.core.start import Begun, EndRecord, Left, Start
from shardbatch.errors import StagingError
from shardbatch.landing import layout
from shardbatch.landing.files import Files
from shardbatch.landing.location import joined

Mark = TypeVar("Mark", Begun, Start, EndRecord)


class StartMarks:
    """The part of :class:`shardbatch.core.ports.Landing` that is about starts, below one staging folder."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self.root = root

    def starts_of(
        self, namespace: Namespace, batch_id: str, work: str, attempt: int
    ) -> tuple[Sequence[Begun], Mapping[str, Start]]:
        """The starts that applications of a work began in an attempt, and those that ended well, by their ids.

        An application with version 0.1.0 leaves done markers only: of those of the highest id stands for all.
        """
        folder = joined(self.root, layout.works_folder(namespace, batch_id), layout.work_folder(work))
        begun = self._read(self._of_attempt(joined(folder, layout.BEGUN), attempt), Begun.from_json)
        done = self._read(self._of_attempt(joined(folder, layout.DONE), attempt), Start.from_json)
        if not begun:
            old = joined(self.root, layout.starts_folder(namespace, batch_id))
            found = self._read(self._of_attempt(old, attempt), Start.from_json)
            done = sorted((start for start in found if start.work == work), key=lambda start: start.start_id)[-1:]
            begun = [Begun(start.start_id, start.attempt, start.work) for start in done]
        return begun, {start.start_id: start for start in done}

    def leave_end(self, namespace: Namespace, batch_id: str, record: EndRecord, unique: str) -> None:
        """Leave the end record of a work's try; it is never overwritten."""
        folder = joined(self.root, layout.works_folder(namespace, batch_id), layout.work_folder(record.work))
        path = joined(folder, layout.ENDED, layout.end_name(record.attempt, record.try_number, unique))
        content = (json.dumps(record.to_json(), sort_keys=True) + "\n").encode("ascii")
        if not self._files.create(path, content) and self._files.read(path) != content:
            raise StagingError(f"{path} tells another end of this try.", remedy="Clear the task: it runs again.")

    def left_by(self, namespace: Namespace, batch_id: str, works: Sequence[str]) -> dict[str, Left]:
        """What stands beside a batch's manifest of each of these works; none of one that left nothing."""
        folder = joined(self.root, layout.works_folder(namespace, batch_id))
        ends: dict[str, list[str]] = {}
        started: dict[str, set[tuple[int, str]]] = {}
        for path in self._files.below(folder):
            work, kind, name, *_ = [*path.partition(folder + "/")[2].split("/"), "", ""]
            number = layout.attempt_of(name)
            if kind == layout.ENDED and number is not None:
                ends.setdefault(work, []).append(path)
            elif kind == layout.BEGUN and number is not None:
                started.setdefault(work, set()).add((number, name.partition("-")[2]))
        asked = {layout.work_folder(work): work for work in works}
        read = self._read([path for place in asked for path in ends.get(place, ())], EndRecord.from_json)
        found: dict[str, Left] = {}
        for place, work in asked.items():
            records = tuple(record for record in read if record.work == work)
            begun = frozenset(started.get(place, ()))
            if records or begun:
                found[work] = Left(records, frozenset(number for number, _ in begun), begun)
        return found

    def begun_starts(self, namespace: Namespace, batch_id: str) -> list[Begun]:
        """All starts that applications of a batch began, whether they ended or not, those of the oldest attempt first.

        An application with version 0.1.0 left none.
        """
        works = joined(self.root, layout.works_folder(namespace, batch_id))
        paths = [path for path in self._files.below(works) if f"/{layout.BEGUN}/" in path]
        return sorted(self._read(paths, Begun.from_json), key=lambda start: (start.attempt, start.work, start.start_id))

    def finished_starts(self, namespace: Namespace, batch_id: str) -> list[Start]:
        """All starts that ended well, whether they count or not, those of the oldest attempt first."""
        works = joined(self.root, layout.works_folder(namespace, batch_id))
        paths = [path for path in self._files.below(works) if f"/{layout.DONE}/" in path]
        paths += self._files.below(joined(self.root, layout.starts_folder(namespace, batch_id)))
        found = {start.start_id: start for start in self._read(paths, Start.from_json)}
        return sorted(found.values(), key=lambda start: (start.attempt, start.work, start.start_id))

    def _of_attempt(self, folder: str, attempt: int) -> list[str]:
        inside = [(path, path.partition(folder + "/")[2].partition("/")[0]) for path in self._files.below(folder)]
        return [path for path, name in inside if layout.attempt_of(name) == attempt]

    def _read(self, paths: Iterable[str], parse: Callable[[Mapping[str, Any]], Mark]) -> list[Mark]:
        found: list[Mark] = []
        for path, content in self._files.read_many([path for path in paths if not _hidden(path)]).items():
            try:
                found.append(parse(json.loads(content)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise StagingError(
                    f"{path} is not what a start or a task leaves there.",
                    remedy="Remove the file and run the work again.",
                ) from error
        return found


def _hidden(path: str) -> bool:
    """Whether it is a file in the making, or one of those that Spark leaves beside what it writes."""
    return path.rpartition("/")[2].startswith(("_", ".")) or "/_temporary/" in path
