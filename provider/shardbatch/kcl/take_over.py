# SPDX-License-Identifier: Apache-2.0
"""Import: the leases of a Kinesis Client Library (KCL) application become those of one of ours (PROTOCOL D8, L1).

Nothing can be claimed before every lease is there and KCL was seen to stand still to the last.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from shardbatch.control.action import Action, Done
from shardbatch.control.import_leases import Import, import_leases
from shardbatch.core.ports import Source
from shardbatch.core.position import Position
from shardbatch.core.say import Say
from shardbatch.errors import ConfigurationError, WorkersAlive
from shardbatch.kcl.lease import KclLease, KclLeases, of_stream, plan_import

log = logging.getLogger("shardbatch")

#: More than two of KCL's own failover times (10 s): a worker renews its leases three times in each.
WATCHED = timedelta(seconds=30)
#: Looks at the KCL leases within the time for which they are watched.
LOOKS = 6


def import_kcl(
    action: Action,
    *,
    source: Source,
    kcl: KclLeases,
    start: Position | None = None,
    watched: timedelta = WATCHED,
    say: Say = log.info,
) -> tuple[Done, ...]:
    """Make an application that goes on where a KCL application stands; its table is left as it is.

    All or nothing: if one of KCL's leases names no place, none is imported. KCL may be at work during a preview.

    :param start: where shards begin of which KCL says ``LATEST`` or ``AT_TIMESTAMP`` and no instant: ``TRIM_HORIZON``
        or an instant. Default: none, then such a lease is left, and with it all.
    :param watched: how long KCL's leases must stand still by this machine's monotonic clock, default 30 seconds; less
        than twice the failover time of its workers may overlook one that is alive.
    :raises WorkersAlive: if a lease of KCL's moved.
    :raises ConfigurationError: if the application has leases of its own, the table is not KCL's or is of another
        stream, the start is a record, the time is not above zero, or the reason is empty.
    """
    action.require_reason()
    _require_choice(start, watched)
    identity = source.identity()
    seen = of_stream(kcl.leases(), identity)
    return import_leases(
        action,
        Import(
            identity=identity,
            plan=plan_import(seen, source.list_shards(), start),
            text=f"{len(seen)} leases of the KCL table {kcl.name}",
            where="KCL",
            clock_ms=source.clock_ms,
            before=lambda: _watch(action, kcl, seen, identity, watched, say),
            last=lambda: _require_still(kcl, seen, identity),  # a worker may have come to life meanwhile
        ),
    )


def _require_choice(start: Position | None, watched: timedelta) -> None:
    if start is not None and start.exact:
        raise ConfigurationError(
            f"Shards of which KCL names no place cannot all begin at {start}.",
            remedy="Give TRIM_HORIZON or an instant with its time zone.",
        )
    if watched <= timedelta(0):
        raise ConfigurationError(
            "KCL's leases would not be watched at all.", remedy="Give more than twice its failover time, in seconds."
        )


def _watch(
    action: Action, kcl: KclLeases, seen: Sequence[KclLease], identity: str, watched: timedelta, say: Say
) -> None:
    """See that KCL's leases stand still.

    :raises WorkersAlive: if one does not.
    """
    seconds = watched.total_seconds()
    say(f"Watching {len(seen)} leases of KCL for {seconds:.0f} s to see whether its workers are alive.")
    began = action.clock.monotonic()
    for look in range(1, LOOKS + 1):
        action.clock.sleep(max(0.0, began + seconds * look / LOOKS - action.clock.monotonic()))
        _require_still(kcl, seen, identity)


def _require_still(kcl: KclLeases, seen: Sequence[KclLease], identity: str) -> None:
    before = {lease.key: lease for lease in seen}
    now = {lease.key: lease for lease in of_stream(kcl.leases(), identity)}
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        found = new or old
        assert found is not None
        what = "was written by" if old and new else "was made by" if new else "was removed, last held by"
        raise WorkersAlive("KCL's lease {} {} {} while it was looked at.".format(key, what, found.owner or "no owner"))
