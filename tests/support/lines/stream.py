# SPDX-License-Identifier: Apache-2.0
"""A stream of lines, as an author says it in a DAG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from shardbatch.core.position import LATEST, TRIM_HORIZON, Position
from shardbatch.errors import ConfigurationError

if TYPE_CHECKING:
    from shardbatch.core.ports import Source


@dataclass(frozen=True)
class LinesStream:
    """A folder of lines. All texts may be templates.

    :param name: the stream's name.
    :param root: the folder of all streams.
    :param start: ``TRIM_HORIZON`` (default) or ``LATEST``.
    """

    name: str
    root: str
    start: str = "TRIM_HORIZON"

    @property
    def address(self) -> str:
        return self.name

    @property
    def stream_name(self) -> str:
        return self.name

    @property
    def position(self) -> Position:
        return {"TRIM_HORIZON": TRIM_HORIZON, "LATEST": LATEST}[self.start]

    def rendered(self, render: Callable[[str], str]) -> LinesStream:
        done = replace(self, name=render(self.name), root=render(self.root), start=render(self.start))
        if done.start not in ("TRIM_HORIZON", "LATEST"):
            raise ConfigurationError(f"LinesStream(start={done.start!r}) is not known.", remedy="Choose another.")
        return done

    def open(self, app_name: str = "", budget: timedelta | None = None) -> Source:
        from tests.support.lines.files import LineFiles
        from tests.support.lines.source import LinesSource

        return LinesSource(LineFiles(self.root, self.name))
