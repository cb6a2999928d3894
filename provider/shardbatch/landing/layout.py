# SPDX-License-Identifier: Apache-2.0
"""Where things stand below the staging folder and below an output root. Texts only, no I/O.

::

    <staging>/<app>/<stream>/slices/<shard>/<after>-t<tenure>-<unique>/part-NNNNN.parquet
    <staging>/<app>/<stream>/batches/<batch_id>/manifest.json
                                               /attempts/<attempt>
                                               /works/<work>/begun/<attempt>-<start_id>/begun.json
                                               /works/<work>/done/<attempt>-<start_id>/start.json
                                               /works/<work>/ended/<attempt>-<try>-<unique>.json
    <output>/batch_id=<batch_id>/start=<start_id>/…
    <output>/_shardbatch/<batch_id>.<decided>.json
    <output>/_shardbatch/sums/<number>-<unique>.json

Paths are never parsed back, but for the names of markers, starts and end records, which begin or end with numbers.
"""

from __future__ import annotations

import hashlib
import re

from shardbatch.core.position import Kind, Position
from shardbatch.core.rows import Namespace

#: Folder of the committed markers below an output root; the leading underscore hides it from Spark.
MARKERS = "_shardbatch"
#: Folder of their sums below that.
SUMS = "sums"
MANIFEST = "manifest.json"
#: Folders beside a manifest: of all works; of one, what its starts and its tries left.
WORKS, BEGUN, DONE, ENDED = "works", "begun", "done", "ended"
#: Instead of a work's name; no name can be quoted so.
UNNAMED = "~"
#: Characters of a text that stand in a name; file systems take 255 bytes, and some of ours get a suffix.
LONGEST_NAME = 150

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^[._]")
_MARKER = re.compile(r"^(?P<batch>.+)\.(?P<decided>[0-9]+)\.json$")


def quoted(text: str) -> str:
    """A text as one name in a path: what is unsafe becomes ``~`` and two hex digits a byte.

    Not ``%``: some readers of URIs decode it and others do not. Hadoop dislikes ``:``, globs mean ``*?[]{}``, a leading
    ``.`` or ``_`` hides a name from Spark, and ``=`` looks like a partition.
    """
    return _UNSAFE.sub(lambda found: "".join(f"~{b:02x}" for b in found.group().encode("utf-8")), text)


def place(position: Position) -> str:
    """A position as part of a name."""
    if position.kind is Kind.AT_TIMESTAMP:
        return f"AT_TIMESTAMP-{position.timestamp_ms}"
    return quoted(str(position).replace("/", "."))


def namespace_folder(namespace: Namespace) -> str:
    """All that an application has of a stream; what a permission can fence."""
    return f"{quoted(namespace.app_name)}/{quoted(namespace.stream_name)}"


def slice_folder(namespace: Namespace, shard_id: str, after: Position, tenure: int, unique: str) -> str:
    """The folder of one slice that was read in a tenure of its lease; ``unique`` tells apart the tries of one read."""
    return f"{namespace_folder(namespace)}/slices/{quoted(shard_id)}/{place(after)}-t{tenure}-{unique}"


def part(number: int) -> str:
    """The name of a slice's file."""
    return f"part-{number:05d}.parquet"


def batch_folder(namespace: Namespace, batch_id: str) -> str:
    """The folder of a batch's documents."""
    return f"{namespace_folder(namespace)}/batches/{quoted(batch_id)}"


def manifest_path(namespace: Namespace, batch_id: str) -> str:
    """The manifest's path."""
    return f"{batch_folder(namespace, batch_id)}/{MANIFEST}"


def attempt_path(namespace: Namespace, batch_id: str, attempt: int) -> str:
    """The file that freeze leaves for every attempt it opens; ``batch.check()`` looks at their names."""
    return f"{batch_folder(namespace, batch_id)}/attempts/{attempt}"


def starts_folder(namespace: Namespace, batch_id: str) -> str:
    """The folder of the done markers that applications with version 0.1.0 leave."""
    return f"{batch_folder(namespace, batch_id)}/starts"


def works_folder(namespace: Namespace, batch_id: str) -> str:
    """The folder of what works leave."""
    return f"{batch_folder(namespace, batch_id)}/{WORKS}"


def work_folder(work: str) -> str:
    """The folder of one work in it; of applications that were not told for which they work, too."""
    return short(work) or UNNAMED


def short(text: str) -> str:
    """As :func:`quoted`, but of a text that is too long its beginning and its hash stand for it."""
    name = quoted(text)
    if len(name) <= LONGEST_NAME:
        return name
    return "{}~{}".format(name[:LONGEST_NAME], hashlib.sha256(text.encode("utf-8")).hexdigest()[:32])


def start_name(attempt: int, start_id: str) -> str:
    """The name of one start's folder."""
    return f"{attempt}-{quoted(start_id)}"


def end_name(attempt: int, try_number: int, unique: str) -> str:
    """The name of an end record."""
    return f"{attempt}-{try_number}-{quoted(unique)}.json"


def attempt_of(name: str) -> int | None:
    """The attempt in the name of a start or an end record, or ``None`` if it is neither."""
    number = name.partition("-")[0]
    return int(number) if number.isdigit() else None


def staging_of(manifest_uri: str, namespace: Namespace, batch_id: str) -> str | None:
    """The staging folder that a manifest's URI lies in, or ``None`` if the manifest stands elsewhere."""
    tail = "/" + manifest_path(namespace, batch_id)
    return manifest_uri[: -len(tail)] if manifest_uri.endswith(tail) else None


def output_folder(batch_id: str, start_id: str) -> str:
    """The folder of a start's data, relative to the output root."""
    return f"batch_id={quoted(batch_id)}/start={quoted(start_id)}"


def marker_name(batch_id: str, decided: int) -> str:
    """The name of a committed marker."""
    return f"{quoted(batch_id)}.{decided}.json"


def marker(name: str) -> tuple[str, int] | None:
    """The quoted batch id and the number of the decision in a marker's name; ``None`` if it is not a marker's."""
    found = _MARKER.match(name)
    if not found or name.startswith((".", "_")):
        return None
    return found.group("batch"), int(found.group("decided"))
