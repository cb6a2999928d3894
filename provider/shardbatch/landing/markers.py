# SPDX-License-Identifier: Apache-2.0
"""Reads what an output root tells: its markers and the sums of them. It needs the standard library only.

A listing is not one moment: a name may be missed that was there before another that is seen. So names are listed until
two listings agree; a listed file that is gone was summed up and removed; then everything is listed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from shardbatch.core.decision import Decision
from shardbatch.core.sums import GUARD, Sum, Token, Told, merged, sum_number
from shardbatch.errors import StagingError, UnsupportedSchema
from shardbatch.landing import layout
from shardbatch.landing.location import joined

#: How often names are listed, and how often all of it is tried, before a reader takes or leaves what it has.
TRIES = 5


class SmallFiles(Protocol):
    """What reading a root asks of a file system."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, those of folders below left out; none if there is no such folder."""

    def contents(self, folder: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """What stands in these files of a folder, by name; one that is gone is left out."""


class Gone(Exception):
    """A file that was listed is not there any more."""


def told(files: SmallFiles, root: str, *, at_least: Token | None = None) -> Told:
    """What a root tells now.

    :param at_least: of a reader that has seen that much before.
    :raises StagingError: if it cannot be read, a document is damaged, it changes faster than it can be read, or it
        tells less than a reader has seen.
    :raises UnsupportedSchema: if a later version wrote a sum.
    """
    complaint = ""
    for _ in range(TRIES):
        markers, sums, agreed = _listed(files, root)
        try:
            found = _read(files, root, markers, sums, agreed)
        except Gone as error:
            complaint = f"{error} was listed and then gone"
            continue
        if at_least is None or found.reaches(at_least):
            return found
        complaint = "it tells less than the token's reader has seen"
    raise StagingError(
        f"The markers of {root} could not be read: {complaint}, {TRIES} times.",
        remedy="Try again; if it stays so, see that nothing but shardbatch removes files of _shardbatch, that the token"
        " is this output's, and that the file system lists what was written at once (not NFS with an attribute cache).",
        path=root,
    )


def sums_folder(root: str) -> str:
    """The folder of a root's sums."""
    return joined(root, layout.MARKERS, layout.SUMS)


def loose(markers: Iterable[str], covered: Mapping[str, int]) -> dict[str, list[tuple[int, str]]]:
    """Of names in a marker folder those that no sum covers: by quoted batch id, their numbers and names.

    :param covered: by quoted batch id, the highest decision that a sum has.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for name in markers:
        parsed = layout.marker(name) if name != GUARD else None
        if parsed is not None and parsed[1] > covered.get(parsed[0], -1):
            found.setdefault(parsed[0], []).append((parsed[1], name))
    return found


def covered_by(sums: Iterable[Sum]) -> dict[str, int]:
    """By quoted batch id, the highest decision that these sums have."""
    return {layout.quoted(entry.decision.batch_id): entry.decision.decided for entry in merged(sums, ()).values()}


def read_sums(files: SmallFiles, root: str, names: Iterable[str]) -> list[Sum]:
    """The sums of these names, but for those that another of them names as read, since that holds all of theirs.

    :raises StagingError: if one is damaged.
    """
    folder, left, found = sums_folder(root), sorted(names, key=lambda name: (sum_number(name) or 0, name)), []
    while left:
        name = left.pop()
        content = files.contents(folder, [name]).get(name)
        if content is None:
            raise Gone(joined(folder, name))
        try:
            one = Sum.loads(sum_number(name) or 0, content)
        except UnsupportedSchema:
            raise
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise StagingError(
                f"{joined(folder, name)} is not a sum of markers.",
                remedy="Restore it from a backup of the output. It may be removed if a sum with a higher number names"
                " it under 'read'; else batches may be told by it alone.",
            ) from error
        found.append(one)
        left = [other for other in left if other not in one.read]
    return found


def _listed(files: SmallFiles, root: str) -> tuple[list[str], list[str], bool]:
    last: tuple[list[str], list[str]] | None = None
    for _ in range(TRIES):
        markers = sorted(name for name in files.names(joined(root, layout.MARKERS)) if layout.marker(name))
        sums = sorted(name for name in files.names(sums_folder(root)) if sum_number(name) is not None)
        if (markers, sums) == last:
            return markers, sums, True
        last = (markers, sums)
    return markers, sums, False


def _read(files: SmallFiles, root: str, markers: list[str], sum_names: list[str], agreed: bool) -> Told:
    sums = read_sums(files, root, sum_names)
    folder = joined(root, layout.MARKERS)
    names = [max(found)[1] for found in loose(markers, covered_by(sums)).values()]
    contents = files.contents(folder, names) if names else {}
    decisions = []
    for name in names:
        if name not in contents:
            raise Gone(joined(folder, name))
        decisions.append(_decision(joined(folder, name), name, contents[name]))
    number = max((sum_number(name) or 0 for name in sum_names), default=0)
    return Told(merged(sums, decisions), number, tuple(sum_names), agreed)


def _decision(path: str, name: str, content: bytes) -> Decision:
    try:
        decision = Decision.from_json(json.loads(content))
        if layout.marker_name(decision.batch_id, decision.decided) != name:
            raise ValueError(name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StagingError(
            f"{path} is not a committed marker.",
            remedy="Remove it and clear the batch's commit task, which writes it anew.",
        ) from error
    return decision
