# SPDX-License-Identifier: Apache-2.0
"""Small files on any file system of pyarrow, whole or not at all, with errors that name the place and the remedy."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime

import pyarrow as pa
import pyarrow.fs as pafs

from shardbatch.errors import StagingError, StagingMissing

#: So many small files are read or removed at a time where there are many: on an object store each waits for an answer.
_THREADS = 16

#: Where an object appears whole when its writer is closed, so that no temporary name is needed.
_OBJECT_STORES = ("s3", "s3a", "gcs", "gs", "abfs", "abfss", "az")

#: Small files that are read at once.
READERS = 16

_REMEDIES = {
    errno.ENOSPC: "Free space there or enlarge it; nothing is lost, the task may be retried.",
    errno.EDQUOT: "Raise the quota; nothing is lost, the task may be retried.",
    errno.EACCES: "Give the workers' user permission to list, read, write and delete there.",
    errno.EPERM: "Give the workers' user permission to list, read, write and delete there.",
    errno.EROFS: "It is mounted read-only; mount it writable on every worker.",
    errno.ENOENT: "Create the folder, mount it on every worker and cluster node, or correct the staging URI.",
}


def appears_whole(filesystem: pafs.FileSystem) -> bool:
    """Whether this is an object store: no folders, no cheap rename, and no file is seen before it is complete."""
    return filesystem.type_name.rpartition("+")[2] in _OBJECT_STORES


@contextmanager
def explained(doing: str, where: str) -> Iterator[None]:
    """Turn what a file system says into a :class:`StagingError` that names the place and the remedy."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        remedy = getattr(error, "remedy", None)
        number = None if remedy else getattr(error, "errno", None)
        if number is None and not remedy and isinstance(error, FileNotFoundError):
            number = errno.ENOENT
        if number is None and not remedy and isinstance(error, PermissionError):
            number = errno.EACCES
        reason = os.strerror(number) if number else str(error).strip().splitlines()[0][:300]
        raise StagingError(
            "Could not {} {}: {}.".format(doing, where, reason.rstrip(".")),
            remedy=remedy or _REMEDIES.get(number or 0),
            path=where,
        ) from error


class Files:
    """Whole small files on a file system; paths are the file system's own.

    :param private: whether users who are neither the owner nor of the folder's group are kept out of new files and
        folders, default no; on a local or mounted file system, whatever the umask is. What the group may do, the umask
        says.
    """

    def __init__(self, filesystem: pafs.FileSystem, private: bool = False) -> None:
        self.filesystem = filesystem
        self.whole = appears_whole(filesystem)
        self._local = filesystem.type_name == "local"
        self._private = private and self._local

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, if they are missing."""
        if not self._private:
            self.filesystem.create_dir(path, recursive=True)
            return
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another worker makes it, too
                os.mkdir(folder, 0o770)

    def require_folder(self, path: str, name: str = "") -> None:
        """Check that the staging folder is there: a mount that went away must not become an empty folder of the same
        name, nor be taken for one. An object store has no folders.

        :param name: how the error calls it; default by its path.
        :raises StagingMissing: if it is not.
        """
        if self.whole:
            return
        with explained("look at", name or path):
            there = self.filesystem.get_file_info(path).type
        if there != pafs.FileType.Directory:
            raise StagingMissing(f"The staging folder {name or path} does not exist.")

    def make_one(self, path: str) -> bool:
        """Make a folder in one that is there; false if that is not there."""
        with explained("look at", path):
            above = self.filesystem.get_file_info(_parent(path)).type
        if above != pafs.FileType.Directory:
            return False
        with explained("create", path):
            self.make_folder(path)
        return True

    def keep_private(self, path: str) -> None:
        """Keep others out of a file that was just made. A mount that knows no permissions says so and is left."""
        if self._private:
            with suppress(OSError):
                os.chmod(path, os.stat(path).st_mode & 0o770)

    def write(self, path: str, content: bytes) -> None:
        """Write a file so that it is seen whole or not at all, in place of one that stands there.

        It is not forced to the disk: a machine that loses power may lose it, as it loses the landed files themselves.
        """
        with explained("write", path):
            if self.whole:
                self._put(path, content)
                return
            self.make_folder(_parent(path))
            hidden = self._hidden(path)
            try:
                self._put(hidden, content)
                self.filesystem.move(hidden, path)
            except BaseException:
                self._drop(hidden)
                raise

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless one stands there; whether it was written.

        Atomic on the local file system. Elsewhere pyarrow has no conditional write: callers that race must write the
        same content, as the callers of a committed marker do.
        """
        if not self._local:
            if self.exists(path):
                return False
            self.write(path, content)
            return True
        hidden = self._hidden(path)
        with explained("write", path):
            self.make_folder(_parent(path))
            try:
                self._put(hidden, content)
                os.link(hidden, path)
            except FileExistsError:
                return False
            finally:
                self._drop(hidden)
        return True

    def read(self, path: str) -> bytes:
        """A file's content."""
        with explained("read", path), self.filesystem.open_input_stream(path, compression=None) as stream:
            content: bytes = stream.read()
        return content

    def read_if_there(self, path: str) -> bytes | None:
        """A file's content, or ``None`` if there is no such file."""
        return self.read(path) if self.exists(path) else None

    def exists(self, path: str) -> bool:
        """Whether a file or a folder stands there."""
        with explained("look at", path):
            found = self.filesystem.get_file_info(path).type != pafs.FileType.NotFound
        return bool(found)

    def present(self, paths: list[str]) -> list[bool]:
        """Whether a file stands at each of these paths."""
        if not paths:
            return []
        with explained("look at", paths[0]):
            found = self.filesystem.get_file_info(paths)
        return [info.type == pafs.FileType.File for info in found]

    def listed(self, folder: str) -> dict[str, datetime | None]:
        """The names of the files in a folder, each with the time at which the store says it was written (``None`` if it
        does not say); those of folders below left out; none if there is no such folder.
        """
        selector = pafs.FileSelector(folder, allow_not_found=True)
        with explained("list", folder):
            found = self.filesystem.get_file_info(selector)
        return {info.base_name: info.mtime for info in found if info.type == pafs.FileType.File}

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, those of folders below left out; none if there is no such folder."""
        return sorted(self.listed(folder))

    def contents(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """What stands in these files of a folder, by name; one that is gone is left out."""

        def content(name: str) -> tuple[str, bytes | None]:
            try:
                return name, self.read(f"{folder}/{name}")
            except StagingError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    return name, None
                raise

        with ThreadPoolExecutor(min(_THREADS, len(names) or 1)) as pool:
            return {name: found for name, found in pool.map(content, names) if found is not None}

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files; a file that is already gone is not an error."""

        def drop(path: str) -> None:
            try:
                self.delete(path)
            except StagingError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise

        with ThreadPoolExecutor(min(_THREADS, len(paths) or 1)) as pool:
            list(pool.map(drop, paths))

    def below(self, folder: str) -> list[str]:
        """The paths of all files below a folder, in order; none if there is no such folder."""
        selector = pafs.FileSelector(folder, allow_not_found=True, recursive=True)
        with explained("list", folder):
            found = self.filesystem.get_file_info(selector)
        return sorted(info.path for info in found if info.type == pafs.FileType.File)

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The content of these files, by path; several are read at once, since each costs a call of its own."""
        if len(paths) < 2:
            return {path: self.read(path) for path in paths}
        with ThreadPoolExecutor(min(READERS, len(paths))) as pool:
            return dict(zip(paths, pool.map(self.read, paths)))

    def all_there(self, paths: Sequence[str]) -> list[bool]:
        """Whether a file or a folder stands at each of these paths; several are looked at at once."""
        if len(paths) < 2:
            return [self.exists(path) for path in paths]
        with ThreadPoolExecutor(min(READERS, len(paths))) as pool:
            return list(pool.map(self.exists, paths))

    def abandon(self, path: str) -> None:
        """See that an object that is being written is not completed, where the file system can do that."""
        drop = getattr(getattr(self.filesystem, "handler", None), "abandon", None)
        if drop is not None:
            drop(path)

    def delete(self, path: str) -> None:
        """Remove a file."""
        with explained("remove", path):
            self.filesystem.delete_file(path)

    def _put(self, path: str, content: bytes) -> None:
        with self.filesystem.open_output_stream(path, compression=None) as stream:
            try:
                self.keep_private(path)
                stream.write(content)
            except BaseException:
                self.abandon(path)  # closing would show what there is of it, or an empty file
                raise

    def _hidden(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        return f"{folder}/.{name}.{secrets.token_hex(6)}.tmp"

    def _drop(self, path: str) -> None:
        if self.filesystem.get_file_info(path).type == pafs.FileType.File:
            self.filesystem.delete_file(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
