# SPDX-License-Identifier: Apache-2.0
"""Output roots: who owns each output root, and the markers that readers follow."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.fs as pafs

from shardbatch.core import root_owner
from shardbatch.core.decision import Decision
from shardbatch.core.root_owner import Holder, RootChange
from shardbatch.errors import OutputTaken, StagingError
from shardbatch.landing import layout, location, markers
from shardbatch.landing.files import Files
from shardbatch.landing.location import hadoop_form, joined
from shardbatch.landing.sums import sum_markers

log = logging.getLogger("shardbatch")

_SHARE = "Write to a file system that the cluster and the Airflow workers share."
_PROBE = b"shardbatch\n"


class OutputRoots:
    """Implements :class:`shardbatch.core.ports.HandedRoots`.

    :param files: those of the staging area; roots on the same kind of file system are reached through them.
    :param kind: that kind.
    :param others: file systems for roots of other kinds.
    :param staging: the staging folder, for messages.
    """

    def __init__(self, files: Files, kind: str, others: Mapping[str, pafs.FileSystem], staging: str) -> None:
        self._files = files
        self._kind = kind
        self._others = dict(others)
        self._staging = staging

    def place(self, root: str) -> str:
        """One text for a root in whatever spelling; see :func:`shardbatch.landing.location.place`."""
        return location.place(root)

    def folder(self, batch_id: str, start_id: str) -> str:
        """Where a start's data stands, relative to every root that it wrote to."""
        return layout.output_folder(batch_id, start_id)

    def look(self, root: str, folders: Sequence[str], app: str, *, shared: bool) -> None:
        """Check before a decision that its marker can be written here. Only the claim of a root without an owner stays.

        :param folders: where starts wrote, relative to the root; none for a root that is to be emptied.
        :param app: the application, ``app_name/stream_name``.
        :param shared: whether it shares the root with other applications that say so too.
        :raises StagingError: if the root cannot be reached or written to, or if a folder is not seen.
        :raises OutputTaken: if the root is another application's.
        """
        files, path = self.reach(root)
        self._see(files, path, root, folders)
        known = self._holders(files, path)
        _refuse(known, root_owner.other_application(known, app, shared=shared), root, app)
        _probe(files, joined(path, layout.MARKERS), root)
        if not root_owner.has_it(known, app, shared=shared):
            self._claim(files, path, root, Holder(app, 0, shared, owns=False), known)

    def mark(self, root: str, decision: Decision) -> None:
        """Leave the marker of a decision, named by batch and ``decided``; one that stands is never overwritten.

        :raises StagingError: if the root cannot be reached, or if a marker of this name names other starts.
        """
        files, path = self.reach(root)
        self._see(files, path, root)
        told = replace(decision, starts=tuple(sorted(decision.starts)))
        name = joined(path, layout.MARKERS, layout.marker_name(told.batch_id, told.decided))
        folders = [layout.output_folder(told.batch_id, start_id) for start_id, _ in told.starts]
        content = json.dumps({**told.to_json(), "folders": folders}, sort_keys=True) + "\n"
        while not files.create(name, content.encode("ascii")):
            standing = files.read_if_there(name)
            if standing is not None:
                _compare(name, standing, told)
                return

    def sum_if_due(self, root: str) -> bool:
        """Write a sum of the markers if many are loose, and remove what older sums cover; whether one was written.

        It only makes readers quicker: what goes wrong is logged.
        """
        files, path = self.reach(root)
        return sum_markers(files, path) is not None

    def sum_now(self, root: str) -> int | None:
        """Write a sum of the markers, however few are loose, and remove what older sums cover; how many markers it has
        that none had, ``None`` if every marker is in a sum already.

        :raises StagingError: if the root cannot be reached, read or written to.
        """
        files, path = self.reach(root)
        self._see(files, path, root)
        _probe(files, joined(path, layout.MARKERS), root)
        return sum_markers(files, path, least=1)

    def told(self, root: str) -> dict[str, int]:
        """Of every batch that the root tells of, the number of its highest decision.

        :raises StagingError: if the root cannot be reached or read.
        """
        files, path = self.reach(root)
        self._see(files, path, root)
        return {entry.decision.batch_id: entry.decision.decided for entry in markers.told(files, path).entries.values()}

    def holders(self, root: str) -> Sequence[Holder]:
        """What the files say that tell whose the root is.

        :raises StagingError: if the root cannot be reached.
        """
        files, path = self.reach(root)
        self._see(files, path, root)
        return self._holders(files, path)

    def begin_change(self, root: str, app: str) -> RootChange:
        """Claim an epoch above all that were ever claimed, which keeps every other application out.

        :raises StagingError: if the root cannot be reached or written to.
        :raises OutputTaken: if another process claims that epoch at this moment; nothing stays of this claim.
        """
        files, path = self.reach(root)
        self._see(files, path, root)
        _probe(files, joined(path, layout.MARKERS), root)
        epoch = 1 + max([1, *(holder.epoch for holder in self._holders(files, path))])
        name = self._write_claim(files, path, Holder(app, epoch, shared=False, owns=False))
        known = self._holders(files, path)
        other = root_owner.rival(known, app, shared=False, since=epoch)
        if other is not None:
            files.delete(name)
        _refuse(known, other, root, app)
        return RootChange(app, epoch, name)

    def finish_change(self, root: str, change: RootChange) -> None:
        """The root is the application's, and no other's."""
        files, path = self.reach(root)
        self._write_owner(files, path, Holder(change.app, change.epoch, shared=False, owns=True))

    def withdraw_change(self, root: str, change: RootChange) -> None:
        """The owner stays the one that it was."""
        files, _ = self.reach(root)
        files.delete(change.claim)

    def _claim(self, files: Files, path: str, root: str, holder: Holder, known: Sequence[Holder]) -> None:
        """Make the root this application's, unless another one claims it too."""
        app, shared, since = holder.app, holder.shared, root_owner.top_epoch(known)
        epoch = root_owner.claimed_epoch(known, app, shared=shared)
        name = self._write_claim(files, path, replace(holder, epoch=epoch))
        found = self._holders(files, path)
        other = root_owner.rival(found, app, shared=shared, since=since)
        if other is not None:
            files.delete(name)
        _refuse(found, other, root, app)
        if not since and self._has_markers(files, path):
            log.warning(
                "%s holds committed output that does not say whose it is (version 0.1.0 did not write that down). "
                "From now on the root is %s's, and other applications are refused.",
                root,
                app,
            )
        self._write_owner(files, path, replace(holder, epoch=epoch, owns=True))

    def _write_claim(self, files: Files, path: str, holder: Holder) -> str:
        name = joined(path, _OWNERS, holder.name(layout.short(holder.app), secrets.token_hex(8)))
        files.write(name, holder.dumps())
        return name

    def _write_owner(self, files: Files, path: str, holder: Holder) -> None:
        files.create(joined(path, _OWNERS, holder.name(layout.short(holder.app))), holder.dumps())

    def _holders(self, files: Files, path: str) -> tuple[Holder, ...]:
        folder = joined(path, _OWNERS)
        found = files.contents(folder, files.names(folder))
        try:
            return root_owner.holders_of(found)
        except ValueError as error:
            raise StagingError(
                f"{folder}: {error}.", remedy="Remove the file; who owns the root can then be claimed anew."
            ) from error

    def _has_markers(self, files: Files, path: str) -> bool:
        return any(layout.marker(name) for name in files.names(joined(path, layout.MARKERS)))

    def _see(self, files: Files, path: str, root: str, folders: Sequence[str] = ()) -> None:
        """Every folder is seen; without any, the root. A mount that went away must not become a folder of that name."""
        for folder, there in zip(folders, files.all_there([joined(path, folder) for folder in folders])):
            if not there:
                raise StagingError(f"The start's data are not seen in {joined(root, folder)}.", remedy=_SHARE)
        if not folders and not files.whole and not files.exists(path):
            raise StagingError(
                f"The output root {root} is not seen.",
                remedy=f"{_SHARE} If it is gone for good, 'airflow shardbatch forget-root' takes it out of the rows.",
            )

    def seen(self, root: str) -> tuple[Files, str]:
        """As :meth:`reach`, of a root that is there.

        :raises StagingError: if it is out of reach.
        """
        files, path = self.reach(root)
        self._see(files, path, root)
        return files, path

    def reach(self, root: str) -> tuple[Files, str]:
        """The files of a root's file system, and its path there."""
        found = hadoop_form(root)
        if found.kind == self._kind:
            return self._files, found.path
        if found.kind in self._others:
            return Files(self._others[found.kind]), found.path
        if found.local:
            return Files(pafs.LocalFileSystem()), found.path
        raise StagingError(
            f"The output {root} is on a {found.kind} file system, out of reach of staging {self._staging}.",
            remedy="Put outputs and staging on one kind of file system, or give Staging a connection for it.",
        )


_OWNERS = f"{layout.MARKERS}/{root_owner.OWNERS}"


def _refuse(known: Sequence[Holder], other: str | None, root: str, app: str) -> None:
    """Nothing if there is no other application."""
    if other is None:
        return
    has = any(item.owns and item.app == other and item.epoch == root_owner.top_epoch(known) for item in known)
    raise OutputTaken(
        "The output root {} {} {}, so {} commits nothing there.".format(
            root, "belongs to" if has else "is being claimed by", other, app
        )
    )


def _probe(files: Files, folder: str, root: str) -> None:
    """What is written here reads back, and can be removed."""
    probe = joined(folder, ".probe-" + secrets.token_hex(6))
    files.write(probe, _PROBE)
    if files.read(probe) != _PROBE:
        raise StagingError(f"What was written to {root} reads back as something else.")
    files.delete(probe)


def _compare(name: str, standing: bytes, decision: Decision) -> None:
    """A marker that stands names the same starts; version 0.1.0 wrote less beside them."""
    try:
        value: Any = json.loads(standing)
        starts = sorted(Decision.from_json(value).starts)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StagingError(f"{name} is not a committed marker.", remedy="Remove it and run the task again.") from error
    if starts != list(decision.starts):
        raise StagingError(
            f"{name} records another start than the batch's row does.",
            remedy="Compare it with 'airflow shardbatch batches'; remove the marker if the row is right.",
        )
