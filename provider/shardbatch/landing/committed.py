# SPDX-License-Identifier: Apache-2.0
"""What was committed below an output root, as a list of files: for DuckDB, Polars, pyarrow and others without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow.fs as pafs

from shardbatch.core.views import Moment, shown, wanted
from shardbatch.landing import layout
from shardbatch.landing.files import Files, explained
from shardbatch.landing.location import joined, locate, rewritten
from shardbatch.landing.markers import told
from shardbatch.landing.reach import HADOOP_S3, reach

#: What Spark and Hive call the partition of null.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_THREADS = 16


@dataclass(frozen=True)
class CommittedFile:
    """A file of a committed start.

    :param path: absolute; a plain path of a local folder, a URI as the root's is of any other.
    :param partition: the author's partition columns and values, as texts; ``None`` for null.
    :param batch_id: the batch that its rows are of.
    :param attempt: the attempt whose start wrote it.
    """

    path: str
    partition: dict[str, str | None] = field(hash=False)
    batch_id: str
    attempt: int


def read_committed_files(
    out: str,
    filesystem: pafs.FileSystem | None = None,
    *,
    interval: tuple[Moment, Moment] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    committed_since: Moment | None = None,
    batches: Iterable[str] | None = None,
) -> list[CommittedFile]:
    """The files that committed batches wrote below an output root, in the order of their paths.

    Hidden files (``_…`` and ``.…``) are left out, and folders of starts that do not count are not looked into. Which
    batches there are and what ``interval``, ``since``, ``until``, ``committed_since`` and ``batches`` ask for is as
    :func:`shardbatch.spark.read_committed` has it.

    :param out: the root that was given to ``batch.output``.
    :param filesystem: a file system of pyarrow that reaches it; default made from the URI (credentials and settings
        from the environment; S3 through boto3 where it is installed).
    :return: none, if no such batch is committed.
    :raises StagingError: if the markers or a folder that they name cannot be read.
    :raises ConfigurationError: for a moment without a time zone.
    """
    view = wanted(interval=interval, since=since, until=until, committed_since=committed_since, batches=batches)
    location, shared = locate(out), rewritten(out, HADOOP_S3)  # as others than Hadoop spell it
    if filesystem is None:
        filesystem = reach(out)
    files, root = Files(filesystem), os.path.abspath(location.path) if location.local else location.path
    shown_as = root if location.local else shared.rstrip("/")

    def found(one: tuple[str, str, int]) -> list[CommittedFile]:
        batch_id, start_id, attempt = one
        folder = layout.output_folder(batch_id, start_id)
        inside = _inside(files, joined(root, folder))
        return [
            CommittedFile(joined(shown_as, folder, *names), _partition(names[:-1]), batch_id, attempt)
            for names in inside
        ]

    starts = [
        (decision.batch_id, start_id, attempt)
        for decision in shown(told(files, root), view)
        for start_id, attempt in decision.starts
    ]
    with ThreadPoolExecutor(min(_THREADS, len(starts) or 1)) as pool:
        return sorted((file for many in pool.map(found, starts) for file in many), key=lambda file: file.path)


def _inside(files: Files, folder: str) -> list[list[str]]:
    """The files below a folder that are not hidden, each as its names from there on.

    :raises StagingError: if there is no such folder.
    """
    selector = pafs.FileSelector(folder, recursive=True)
    with explained("list", folder):
        found = files.filesystem.get_file_info(selector)
    paths = [
        info.path[-(len(info.path) - info.path.rindex(folder) - len(folder) - 1) :] for info in found if info.is_file
    ]
    split = [path.split("/") for path in paths]
    return [names for names in split if not any(name.startswith(("_", ".")) for name in names)]


def _partition(names: list[str]) -> dict[str, str | None]:
    pairs = (name.partition("=") for name in names if "=" in name)
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}
