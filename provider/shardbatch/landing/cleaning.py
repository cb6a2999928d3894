# SPDX-License-Identifier: Apache-2.0
"""Lists and removes what stands below a staging folder and below output roots, for clean-up."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import pyarrow as pa
import pyarrow.fs as pafs

from shardbatch.core.cleaning import BatchFolder, PartUpload, SliceFolder, StartFolder
from shardbatch.core.decision import Decision
from shardbatch.core.rows import Namespace
from shardbatch.landing import layout, markers
from shardbatch.landing.files import Files, explained
from shardbatch.landing.location import joined
from shardbatch.landing.sums import sweep_markers

#: How often a folder is listed anew whose files go while it is listed.
TRIES = 5


@dataclass
class _Held:
    """What stands in a folder."""

    files: int = 0
    bytes: int = 0
    newest_ms: int | None = None
    made_ms: int | None = None
    names: list[str] = field(default_factory=list)

    def add(self, info: Any, name: str) -> None:
        self.files += 1
        self.bytes += info.size or 0
        self.names.append(name)
        if info.mtime is not None:
            self.newest_ms = max(self.newest_ms or 0, _ms(info))

    def made(self, info: Any) -> None:
        """The folder itself: one without files is as old as that."""
        self.made_ms = None if info.mtime is None else _ms(info)


class StagingCleaner:
    """Implements :class:`shardbatch.core.cleaning.Cleaner`.

    :param files: those of the staging area.
    :param root: the staging folder's path there.
    :param reach: the files of an output root's file system, and its path there.
    """

    def __init__(self, files: Files, root: str, reach: Callable[[str], tuple[Files, str]]) -> None:
        self._files = files
        self._root = root
        self._reach = reach

    def slices(self, namespace: Namespace) -> Sequence[SliceFolder]:
        """All slice folders of an application, also those that have only parts of unfinished uploads."""
        top = layout.slices_folder(namespace)
        uploads: dict[str, list[PartUpload]] = {}
        for upload in self._uploads(top):  # before the files: what is completed meanwhile is one of these
            uploads.setdefault(upload.path.rpartition("/")[0], []).append(upload)
        held = self._held(self._files, joined(self._root, top), depth=2)
        found = []
        for name in sorted({*held, *(path[len(top) + 1 :] for path in uploads)}):
            made = _slice_folder(top, name)
            if made is not None:
                here = held.get(name, _Held())
                parts = tuple(uploads.get(made.path, ()))
                found.append(replace(made, files=here.files, bytes=here.bytes, newest_ms=here.newest_ms, uploads=parts))
        return found

    def batches(self, namespace: Namespace) -> Sequence[BatchFolder]:
        """All folders of batches' documents.

        :raises StagingMissing: if there is no staging folder, as where its mount is missing.
        """
        self._files.require_folder(self._root)
        held = self._held(self._files, joined(self._root, layout.batches_folder(namespace)), depth=1)
        found = []
        for name, here in sorted(held.items()):
            with suppress(ValueError):
                batch_id = layout.unquoted(name)
                newest_ms = here.newest_ms if here.files else here.made_ms
                found.append(BatchFolder(batch_id, here.files, here.bytes, newest_ms, layout.MANIFEST in here.names))
        return found

    def manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """The manifests of batches; ``None`` for one that is not there."""
        names = {layout.manifest_path(namespace, batch_id): batch_id for batch_id in batch_ids}
        contents = self._files.contents(self._root, list(names)) if names else {}
        return {batch_id: contents.get(name) for name, batch_id in names.items()}

    def remove_slice(self, folder: SliceFolder) -> None:
        """Remove a slice folder with its files, and abort its uploads."""
        for upload in folder.uploads:
            path = joined(self._root, upload.path)
            with explained("abort the upload of", path):
                self._files.filesystem.handler.abort_upload(path, upload.upload_id)
        _remove(self._files, joined(self._root, folder.path))

    def remove_batch(self, namespace: Namespace, batch_id: str) -> None:
        """Remove a batch's documents; an application that is still at work for it is refused at every moment."""
        folder = joined(self._root, layout.batch_folder(namespace, batch_id))
        attempts = joined(self._root, layout.attempts_folder(namespace, batch_id))
        self._files.write(joined(attempts, layout.RETIRED), b"{}\n")
        for left in (layout.WORKS, "starts"):
            _remove(self._files, joined(folder, left))
        numbers = sorted((int(name), name) for name in self._files.names(attempts) if name.isdigit())
        for _, name in numbers:
            self._files.remove([joined(attempts, name)])
        self._files.remove([joined(folder, layout.MANIFEST)])
        _remove(self._files, folder)

    def starts(self, root: str, batch_id: str) -> Sequence[StartFolder]:
        """What starts of a batch have written below a root."""
        files, path = self._reach(root)
        folder = joined(path, layout.batch_output(batch_id))
        found = []
        for name, here in sorted(self._held(files, folder, depth=1).items()):
            start_id = layout.start_of(name)
            if start_id is not None:
                found.append(StartFolder(batch_id, start_id, here.files, here.bytes))
        return found

    def remove_start(self, root: str, folder: StartFolder) -> None:
        """Remove what a start has written below a root."""
        files, path = self._reach(root)
        _remove(files, joined(path, layout.output_folder(folder.batch_id, folder.start_id)))

    def decisions(self, root: str) -> Mapping[str, Decision]:
        """The highest decision of every batch that a root tells of."""
        files, path = self._reach(root)
        told = markers.told(files, path)
        return {entry.decision.batch_id: entry.decision for entry in told.entries.values()}

    def sweep(self, root: str, *, dry_run: bool) -> int:
        """Remove the markers and sums of a root that a sum covers which has stood for long enough; how many."""
        files, path = self._reach(root)
        return sweep_markers(files, path, dry_run=dry_run)

    def _uploads(self, folder: str) -> Iterable[PartUpload]:
        """The uploads below a folder that were never completed, where the file system tells; pyarrow's own does not."""
        list_uploads = getattr(getattr(self._files.filesystem, "handler", None), "uploads", None)
        if list_uploads is None:
            return ()
        path = joined(self._root, folder)
        with explained("list the uploads of", path):
            return [
                PartUpload(name.partition(self._root + "/")[2], upload_id, size)
                for name, upload_id, size in list_uploads(path)
            ]

    def _held(self, files: Files, folder: str, *, depth: int) -> dict[str, _Held]:
        """What stands in each folder that lies so deep below a folder, by its path from there; files above are left
        out. A file system that has folders tells empty ones, too."""
        found: dict[str, _Held] = {}
        for info in _listed(files, folder):
            names = info.path.partition(folder + "/")[2].split("/")
            key = "/".join(names[:depth])
            if info.type == pafs.FileType.File and len(names) > depth:
                found.setdefault(key, _Held()).add(info, "/".join(names[depth:]))
            elif info.type == pafs.FileType.Directory and len(names) == depth:
                found.setdefault(key, _Held()).made(info)
        return found


def _ms(info: Any) -> int:
    return int(info.mtime.timestamp() * 1000)


def _listed(files: Files, folder: str) -> list[Any]:
    """All that stands below a folder. On a disk, a file that goes while it is listed is an error: then once more."""
    selector = pafs.FileSelector(folder, allow_not_found=True, recursive=True)
    with explained("list", folder):
        for _ in range(TRIES - 1):
            with suppress(FileNotFoundError):
                return list(files.filesystem.get_file_info(selector))
        return list(files.filesystem.get_file_info(selector))


def _remove(files: Files, folder: str) -> None:
    """Remove a folder with all that stands in it, and the folder above if that is empty now and is a start's."""
    with explained("remove", folder):
        for _ in range(TRIES):
            try:
                files.filesystem.delete_dir(folder)
                break
            except (FileNotFoundError, pa.ArrowInvalid):
                if files.filesystem.get_file_info(folder).type == pafs.FileType.NotFound:
                    break
    above = folder.rpartition("/")[0]
    if files.filesystem.type_name == "local" and "batch_id=" in above.rpartition("/")[2]:
        with suppress(OSError):
            os.rmdir(above)


def _slice_folder(top: str, name: str) -> SliceFolder | None:
    """The slice folder of a path below the folder of all slices; ``None`` if the path is not one's."""
    shard, _, last = name.partition("/")
    parsed = layout.slice_of(last)
    if parsed is None:
        return None
    try:
        return SliceFolder(f"{top}/{name}", layout.unquoted(shard), *parsed)
    except ValueError:
        return None
