# SPDX-License-Identifier: Apache-2.0
"""The watermark, copied to where Airflow's users look: an asset's event, and its state store (PROTOCOL C6).

A copy is for people, and for programs that cannot reach the lease store. Sensors read rows.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from shardbatch.core.watermark import Watermark

log = logging.getLogger("shardbatch")

#: The key of the asset's state store: ``[reset_count, ms]``, where ``ms`` is ``null`` if nothing can be said.
KEY = "committed_up_to"


class Kept(Protocol):
    """The state store of one asset."""

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or the default."""
        ...

    def set(self, key: str, value: Any) -> None:
        """Write a value."""
        ...


def told(mark: Watermark | None) -> dict[str, Any]:
    """What an event tells of a watermark; nothing is known of one that is not there."""
    ms = None if mark is None else mark.ms
    instant = None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"committed_up_to": instant, "committed_up_to_ms": ms}


def copy(kept: Kept, mark: Watermark) -> None:
    """Copy a watermark to a state store, unless that has a higher one of the same history.

    A state store has no conditional write. Of two commits at once the lesser may stand there until the next one; it is
    true as well.
    """
    before = kept.get(KEY)
    ms = _known(before, mark.resets)
    if ms is None or (mark.ms is not None and mark.ms > ms):
        kept.set(KEY, [mark.resets, mark.ms])


def _known(value: Any, resets: int) -> int | None:
    """What a state store has of this history."""
    if not isinstance(value, list) or len(value) != 2 or value[0] != resets:
        return None
    return value[1] if isinstance(value[1], int) else None
