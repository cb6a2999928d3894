# SPDX-License-Identifier: Apache-2.0
"""What an application leaves with the service of its stream."""

from __future__ import annotations

from typing import Protocol


class Registered(Protocol):
    """What an application has registered with its stream under its name, and what costs money while it stands. Errors
    are :class:`SourceError`."""

    @property
    def name(self) -> str:
        """What the service calls it."""
        ...

    def stands(self) -> bool:
        """Whether the service has it; not where the stream is gone."""
        ...

    def take_away(self) -> bool:
        """Remove it; whether there was one."""
        ...
