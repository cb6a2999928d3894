# SPDX-License-Identifier: Apache-2.0
"""Where things stand below the staging folder and below an output root. Texts only, no I/O.

::

    <staging>/<app>/<stream>/slices/<shard>/<after>-t<tenure>-<unique>/part-NNNNN.parquet
    <staging>/<app>/<stream>/batches/<batch_id>/manifest.json
                                               /attempts/<attempt>
                                               /attempts/retired
                                               /works/<work>/begun/<attempt>-<start_id>/begun.json
                                               /works/<work>/done/<attempt>-<start_id>/start.json
                                               /works/<work>/ended/<attempt>-<try>-<unique>.json
    <output>/batch_id=<batch_id>/start=<start_id>/…
    <output>/_shardbatch/<batch_id>.<decided>.json
    <output>/_shardbatch/sums/<number>-<unique>.json

Paths are never parsed back, but for the names of markers, starts and end records, which begin or end with numbers; and,
by clean-up, those of the folders that it lists.
"""

from __future__ import annotations

import hashlib
import re

from shardbatch.core.position import Kind, Position, after, at_timestamp
from shardbatch.core.rows import Namespace

#: Folder of the committed markers below an output root; the leading underscore hides it from Spark.
MARKERS = "_shardbatch"
#: Folder of their sums below that.
SUMS = "sums"
MANIFEST = "manifest.json"
#: Folders beside a manifest: of all works; of one, what its starts and its tries left.
WORKS, BEGUN, DONE, ENDED = "works", "begun", "done", "ended"
#: Beside the numbers of attempts: clean-up removes the batch's files.
RETIRED = "retired"
#: Instead of a work's name; no name can be quoted so.
UNNAMED = "~"
#: Characters of a text that stand in a name; file systems take 255 bytes, and some of ours get a suffix.
LONGEST_NAME = 150

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^[._]")
_QUOTED = re.compile(r"(?:~[0-9a-f]{2})+")
#: The place and, since version 0.2.0, the tenure in the name of a slice's folder.
_SLICE = re.compile(r"^(?P<place>.+?)(?:-t(?P<tenure>[0-9]+))?-[0-9a-f]{16}$")
_AFTER = re.compile(r"^(?P<number>[0-9]+)(?:\.(?P<sub>[0-9]+))?(?:@(?P<instant>[0-9]+))?$")
_MARKER = re.compile(r"^(?P<batch>.+)\.(?P<decided>[0-9]+)\.json$")


def quoted(text: str) -> str:
    """A text as one name in a path: what is unsafe becomes ``~`` and two hex digits a byte.

    Not ``%``: some readers of URIs decode it and others do not. Hadoop dislikes ``:``, globs mean ``*?[]{}``, a leading
    ``.`` or ``_`` hides a name from Spark, and ``=`` looks like a partition.
    """
    return _UNSAFE.sub(lambda found: "".join(f"~{b:02x}" for b in found.group().encode("utf-8")), text)


def unquoted(name: str) -> str:
    """The text that :func:`quoted` made a name of.

    :raises ValueError: if none was.
    """
    text = _QUOTED.sub(lambda found: bytes.fromhex(found.group().replace("~", "")).decode("utf-8"), name)
    if quoted(text) != name:
        raise ValueError(f"{name!r} is not a quoted name")
    return text


def place(position: Position) -> str:
    """A position as part of a name."""
    if position.kind is Kind.AT_TIMESTAMP:
        return f"AT_TIMESTAMP-{position.timestamp_ms}"
    return quoted(str(position).replace("/", "."))


def namespace_folder(namespace: Namespace) -> str:
    """All that an application has of a stream; what a permission can fence."""
    return f"{quoted(namespace.app_name)}/{quoted(namespace.stream_name)}"


def slice_folder(namespace: Namespace, shard_id: str, begins: Position, tenure: int, unique: str) -> str:
    """The folder of one slice that was read in a tenure of its lease; ``unique`` tells apart the tries of one read."""
    return f"{slices_folder(namespace)}/{quoted(shard_id)}/{place(begins)}-t{tenure}-{unique}"


def slices_folder(namespace: Namespace) -> str:
    """The folder of all slices of an application, shard by shard."""
    return f"{namespace_folder(namespace)}/slices"


def slice_of(name: str) -> tuple[Position, int | None] | None:
    """The checkpoint and the tenure in the name of a slice's folder; the tenure ``None`` for one of version 0.1.0, and
    ``None`` for a name that is not a slice's."""
    found = _SLICE.match(name)
    if found is None:
        return None
    try:
        position = _position(unquoted(found.group("place")))
    except ValueError:
        return None
    return position, int(found.group("tenure")) if found.group("tenure") else None


def _position(text: str) -> Position:
    if text.startswith("AT_TIMESTAMP-"):
        return at_timestamp(int(text.partition("-")[2]))
    found = _AFTER.match(text)
    if found is None:
        return Position.parse(text)
    sub, instant = found.group("sub"), found.group("instant")
    return after(found.group("number"), int(sub or 0), int(instant) if instant else None)


def part(number: int) -> str:
    """The name of a slice's file."""
    return f"part-{number:05d}.parquet"


def batches_folder(namespace: Namespace) -> str:
    """The folder of the documents of all batches."""
    return f"{namespace_folder(namespace)}/batches"


def batch_folder(namespace: Namespace, batch_id: str) -> str:
    """The folder of a batch's documents."""
    return f"{batches_folder(namespace)}/{quoted(batch_id)}"


def manifest_path(namespace: Namespace, batch_id: str) -> str:
    """The manifest's path."""
    return f"{batch_folder(namespace, batch_id)}/{MANIFEST}"


def attempts_folder(namespace: Namespace, batch_id: str) -> str:
    """The folder of the numbers of a batch's attempts."""
    return f"{batch_folder(namespace, batch_id)}/attempts"


def attempt_path(namespace: Namespace, batch_id: str, attempt: int) -> str:
    """The file that freeze leaves for every attempt it opens; ``batch.check()`` looks at their names."""
    return f"{attempts_folder(namespace, batch_id)}/{attempt}"


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


def batch_output(batch_id: str) -> str:
    """The folder of all starts of a batch, relative to the output root."""
    return f"batch_id={quoted(batch_id)}"


def output_folder(batch_id: str, start_id: str) -> str:
    """The folder of a start's data, relative to the output root."""
    return f"{batch_output(batch_id)}/start={quoted(start_id)}"


def start_of(name: str) -> str | None:
    """The id of a start in the name of its folder; ``None`` for another name."""
    try:
        return unquoted(name[len("start=") :]) if name.startswith("start=") else None
    except ValueError:
        return None


def marker_name(batch_id: str, decided: int) -> str:
    """The name of a committed marker."""
    return f"{quoted(batch_id)}.{decided}.json"


def marker(name: str) -> tuple[str, int] | None:
    """The quoted batch id and the number of the decision in a marker's name; ``None`` if it is not a marker's."""
    found = _MARKER.match(name)
    if not found or name.startswith((".", "_")):
        return None
    return found.group("batch"), int(found.group("decided"))
