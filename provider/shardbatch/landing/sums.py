# SPDX-License-Identifier: Apache-2.0
"""Writes the sums of an output root's markers, and sweeps away what they cover. Best effort: readers need neither."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone

from shardbatch.core.archive import READER_GRACE
from shardbatch.core.sums import GUARD, GUARD_TEXT, Entry, Sum, sum_name, sum_number
from shardbatch.errors import StagingError, UnsupportedSchema
from shardbatch.landing import layout
from shardbatch.landing.files import Files
from shardbatch.landing.location import joined
from shardbatch.landing.markers import Gone, covered_by, loose, read_sums, sums_folder, told

log = logging.getLogger(__name__)

#: A sum is written once so many markers stand that none covers.
LEAST = 64
#: How long a sum stands before what it covers may go: longer than the longest plan of a reader and than the longest
#: hang of a commit between its look at the folders and its marker.
GRACE = READER_GRACE
#: So many files are removed at once at most; the rest goes with the next sums.
SWEPT_AT_ONCE = 1000
#: A marker this much older than the newest sum is taken for one that it covers, without reading it.
_SLACK = timedelta(hours=1)

Times = Mapping[str, "datetime | None"]


def sum_markers(
    files: Files,
    root: str,
    *,
    least: int = LEAST,
    grace: timedelta = GRACE,
    now: Callable[[], datetime] | None = None,
) -> int | None:
    """Write a sum of an output root's markers if it is due, then remove what an older one covers.

    :param files: the root's file system.
    :param root: the root's path on it.
    :param least: how many markers must stand that no sum covers, 1 or more.
    :param grace: how long a sum must have stood, by the store's own times, before what it covers goes.
    :param now: the store's time; default the one at which it says the new sum was written.
    :return: how many markers the sum covers that none did; ``None`` if no sum was due or it failed, which is logged and
        changes nothing for readers.
    """
    try:
        return _summed(files, root, least, grace, now)
    except (StagingError, UnsupportedSchema, Gone) as error:
        log.warning("The markers of %s were not summed up; readers are slower; nothing else changes. %s", root, error)
        return None


def _summed(files: Files, root: str, least: int, grace: timedelta, now: Callable[[], datetime] | None) -> int | None:
    markers = files.listed(joined(root, layout.MARKERS))
    standing = _sums_of(files, root)
    if least > 1 and _recent(markers, standing) < least:
        return None
    covered = covered_by(read_sums(files, root, standing))
    count = sum(len(found) for found in loose(markers, covered).values())
    if count < least:
        return None
    found = told(files, root)
    if not found.agreed:
        log.warning("The markers of %s change faster than they are listed; a later commit sums them up.", root)
        return None
    number = found.number + 1
    entries = tuple(
        Entry(entry.decision, number if entry.taken is None else entry.taken) for entry in found.entries.values()
    )
    name = sum_name(number, secrets.token_hex(8))
    files.create(joined(sums_folder(root), name), Sum(number, found.sums, entries).dumps())
    log.info("Summed up %d markers of %s in %s.", count, root, name)
    after = _sums_of(files, root)
    moment = now() if now is not None else after.get(name)
    if moment is not None:
        _sweep(files, root, after, moment - grace)
    return count


def sweep_markers(files: Files, root: str, *, dry_run: bool, grace: timedelta = GRACE) -> int:
    """Remove what a sum covers that has stood for the grace, by the store's own times, without writing a sum.

    :param dry_run: remove nothing. Then this machine's clock counts, since the store's is known of a new file only.
    :return: how many markers and sums went, or would go.
    """
    sums = _sums_of(files, root)
    if not sums:
        return 0
    moment: datetime | None = datetime.now(timezone.utc)
    if not dry_run:
        probe = ".probe-" + secrets.token_hex(6)
        files.write(joined(sums_folder(root), probe), b"shardbatch\n")
        moment = files.listed(sums_folder(root)).get(probe)
        files.remove([joined(sums_folder(root), probe)])
    try:
        return 0 if moment is None else _sweep(files, root, sums, moment - grace, dry_run=dry_run)
    except Gone:
        return 0  # another sweep is at work


def _sweep(files: Files, root: str, sums: Times, before: datetime, *, dry_run: bool = False) -> int:
    """Remove the markers that a sum from before that time covers, and the sums that it names as read; how many."""
    old = [name for name, written in sums.items() if written is not None and written < before]
    if not old:
        return 0
    newest = max(old, key=lambda name: (sum_number(name) or 0, name))
    (one, *_) = read_sums(files, root, [newest])
    covered = covered_by([one])
    folder = joined(root, layout.MARKERS)
    names = files.names(folder)
    paths = [joined(sums_folder(root), name) for name in one.read if name in sums]
    for name in names:
        parsed = layout.marker(name) if name != GUARD else None
        if parsed is not None and parsed[1] <= covered.get(parsed[0], -1):
            paths.append(joined(folder, name))
    if dry_run or not paths:
        return len(paths[:SWEPT_AT_ONCE])
    files.create(joined(folder, GUARD), GUARD_TEXT.encode("ascii"))
    files.remove(paths[:SWEPT_AT_ONCE])
    log.info("Removed %d markers and sums of %s that %s covers.", len(paths[:SWEPT_AT_ONCE]), root, newest)
    return len(paths[:SWEPT_AT_ONCE])


def _sums_of(files: Files, root: str) -> dict[str, datetime | None]:
    return {n: at for n, at in files.listed(sums_folder(root)).items() if sum_number(n) is not None}


def _recent(markers: Times, sums: Times) -> int:
    """How many markers the newest sum may lack, by the times that the store tells."""
    times = [at for at in sums.values() if at is not None]
    since = max(times) - _SLACK if times else None
    return sum(
        1 for name, at in markers.items() if layout.marker(name) and (since is None or at is None or at >= since)
    )
