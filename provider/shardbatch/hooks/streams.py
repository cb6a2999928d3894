# SPDX-License-Identifier: Apache-2.0
"""What an author's class of streams gives, whatever the service is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from shardbatch.hooks.renamed import moved

if TYPE_CHECKING:
    from shardbatch.core.ports import Source
    from shardbatch.core.position import Position

__getattr__ = moved(__name__)


class Stream(Protocol):
    """Which stream is read, as an author says it. Its texts may be templates.

    Make it a frozen dataclass: Airflow keeps the text of an operator's arguments with each version of a DAG, so an
    object must have the same text each time the DAG file is parsed. Import the vendor's library in :meth:`open` only.
    """

    @property
    def address(self) -> str:
        """The text that names the stream, as the author gave it."""
        ...

    @property
    def stream_name(self) -> str:
        """The name that stands in the namespace: up to 255 printable characters, no slash. Once the templates are
        rendered, two streams of one application have two names."""
        ...

    @property
    def position(self) -> Position:
        """Where an application begins that has no checkpoints yet: ``TRIM_HORIZON``, ``LATEST`` or an instant."""
        ...

    def rendered(self, render: Callable[[str], str]) -> Stream:
        """With its templates rendered.

        :raises ConfigurationError: for a text that rendering left unusable.
        """
        ...

    def open(self, app_name: str = "", budget: timedelta | None = None) -> Source:
        """The source; no call is made yet.

        :param app_name: the application that reads, for what a source sets up in its name.
        :param budget: time that one task will read, by which a source that has a second way, faster and dearer, can
            choose; ``None``: without end, as for a look or an interval. A source with one way needs neither.
        :raises ConfigurationError: if the connection or a library is missing.
        """
        ...
