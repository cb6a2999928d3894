# SPDX-License-Identifier: Apache-2.0
"""Whose an output root is, by the small files below ``_shardbatch/owners/`` (O3). Rules only, no I/O.

An application that has a root leaves an *owner* file; of several those of the highest epoch count. Before it does, it
leaves a *claim* and only then lists what others left. This asks for no file that is created only if it is not there
yet, which not every file system can do: of two that claim at once, at least one sees the other and withdraws. So that
it holds for several processes of one application too, each try has a claim of its own, which only that try withdraws,
and which stays when it succeeds. A root is handed over by a claim of a higher epoch: from then on its owners are
refused, and what they had begun can be looked at in peace. No file is ever changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shardbatch.core.rows import Namespace

#: Folder of these files, beside the committed markers.
OWNERS = "owners"
#: How their names end; before that stands the application.
OWNER_SUFFIX, CLAIM_SUFFIX = ".owner.json", ".claim.json"


@dataclass(frozen=True)
class Holder:
    """What one file says.

    :param app: the application, ``app_name/stream_name``.
    :param epoch: how often the root was handed over, from 1; a claim's is the one that it asks for.
    :param shared: whether the application shares the root with others that say so too.
    :param owns: whether this is an owner, else a claim.
    """

    app: str
    epoch: int
    shared: bool
    owns: bool

    def name(self, prefix: str, unique: str = "") -> str:
        """The file's name. ``prefix`` is the application as part of a name, ``unique`` tells claims apart."""
        if not self.owns:
            return f"{prefix}.{unique}{CLAIM_SUFFIX}"
        return "{}.{}-{}{}".format(prefix, self.epoch, "shared" if self.shared else "alone", OWNER_SUFFIX)

    def dumps(self) -> bytes:
        """The file's content. It is always the same for the same owner."""
        value: dict[str, Any] = {"app": self.app, "epoch": self.epoch, "shared": self.shared}
        return (json.dumps(value, sort_keys=True) + "\n").encode("ascii")


@dataclass(frozen=True)
class RootChange:
    """A root that is going to another application, at an epoch; ``claim`` is the file that keeps others out."""

    app: str
    epoch: int
    claim: str


def is_holder(name: str) -> bool:
    """Whether a file of the owners folder is an owner or a claim, and not one in the making."""
    return name.endswith((OWNER_SUFFIX, CLAIM_SUFFIX)) and not name.startswith((".", "_"))


def holders_of(files: Mapping[str, bytes]) -> tuple[Holder, ...]:
    """What the files of the owners folder say, by name; other names and hidden ones are passed over.

    :raises ValueError: if one of them is not such a file; its name is in the text.
    """
    found = []
    for name, content in sorted(files.items()):
        if not is_holder(name):
            continue
        try:
            value = json.loads(content)
            holder = Holder(
                value["app"], int(value["epoch"]), bool(value.get("shared")), owns=name.endswith(OWNER_SUFFIX)
            )
            Namespace(*holder.app.split("/", 1))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{name} does not say whose the root is") from error
        found.append(holder)
    return tuple(found)


def top_epoch(holders: Iterable[Holder]) -> int:
    """The epoch whose owners count; 0 while there is none."""
    return max((holder.epoch for holder in holders if holder.owns), default=0)


def other_application(holders: Iterable[Holder], app: str, *, shared: bool) -> str | None:
    """The application that keeps ``app`` from this root, or ``None`` if there is none.

    That is an owner of the highest epoch, or an application that claims a higher one, because the root is being handed
    over to it. An application that shares the root does not keep ``app`` out if ``app`` shares it too.
    """
    known = tuple(holders)
    highest = top_epoch(known)
    for holder in known:
        counts = holder.epoch == highest if holder.owns else holder.epoch > highest
        if counts and _apart(holder, app, shared=shared):
            return holder.app
    return None


def has_it(holders: Iterable[Holder], app: str, *, shared: bool) -> bool:
    """Whether ``app`` is an owner of the highest epoch in this sense of ``shared``, so that it need not claim."""
    known = tuple(holders)
    return any(holder == Holder(app, top_epoch(known), shared, owns=True) for holder in known)


def claimed_epoch(holders: Iterable[Holder], app: str, *, shared: bool) -> int:
    """The epoch that ``app`` claims: that of the owners that it joins; a new one if it was an owner in another sense of
    ``shared``, so that claims of that time do not count any more."""
    known = tuple(holders)
    highest = top_epoch(known)
    return highest + 1 if has_it(known, app, shared=not shared) else max(highest, 1)


def rival(holders: Iterable[Holder], app: str, *, shared: bool, since: int) -> str | None:
    """After ``app`` has claimed, the application because of which it withdraws, or ``None`` if it is alone.

    ``since`` is the highest epoch that it saw before its claim; older files do not count.
    """
    for holder in holders:
        if holder.epoch >= max(since, 1) and _apart(holder, app, shared=shared):
            return holder.app
    return None


def _apart(holder: Holder, app: str, *, shared: bool) -> bool:
    return holder.app != app and not (holder.shared and shared)
