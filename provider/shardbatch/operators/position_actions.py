# SPDX-License-Identifier: Apache-2.0
"""Positions of an application, written down or taken up again, as tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shardbatch.core.choices import chosen
from shardbatch.core.position_formats import PositionsFormat
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import chosen_leases
from shardbatch.hooks.streams import Stream
from shardbatch.operators.actions import ActionOperator
from shardbatch.operators.failure import final_errors
from shardbatch.operators.rendering import RendersOnce, place
from shardbatch.tasks.positions import export

if TYPE_CHECKING:
    from airflow.sdk import Context


def format_of(given: PositionsFormat | str) -> PositionsFormat | str:
    """The format that was given; a template stays one until it is rendered.

    :raises ConfigurationError: for another text.
    """
    return given if "{{" in str(given) else chosen(PositionsFormat, given, f"format={given!r}")


class ExportPositionsOperator(RendersOnce):
    """Writes down where an application stands, by what is committed. Nothing is changed.

    Its output is a small dictionary: ``format``; ``positions``, of JSON's own types; and ``remarks``, a list of what
    the positions cannot say, row by row. The log has the remarks as warnings. The stream is asked for its shards.

    :param app_name: the application, templated.
    :param stream: the stream that the application reads.
    :param format: how they are written: ``PositionsFormat.JSON`` or ``BLOOP``, or its text; templated.
    :param leases: where leases are kept, default: the setting ``[shardbatch] leases``.
    :raises ConfigurationError: without a lease store, or for another format.
    """

    template_fields: Sequence[str] = ("app_name", "stream", "format", "leases")
    ui_color = "#f4e9d8"

    def __init__(
        self,
        *,
        app_name: str,
        stream: Stream,
        format: PositionsFormat | str,
        leases: Leases | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app_name = app_name
        self.stream = stream
        self.leases = leases
        try:
            self.format = format_of(format)
            chosen_leases(leases)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error

    def execute(self, context: Context) -> dict[str, Any]:
        """Write them down."""
        with final_errors():
            wanted = chosen(PositionsFormat, self.format, f"format={self.format!r}")
            namespace = namespace_of(self.app_name, self.stream.stream_name)
            found = export(chosen_leases(self.leases), namespace, self.stream, wanted)
        for remark in found.remarks:
            self.log.warning("%s %s: %s: %s.", remark.kind, remark.name, remark.result, remark.text)
        return {
            "format": str(wanted),
            "positions": dict(found.positions),
            "remarks": [asdict(remark) for remark in found.remarks],
        }


class ImportPositionsOperator(ActionOperator):
    """Makes a new application that goes on where another one, or another program, stands.

    Everything is checked first, also with the stream; all or nothing. The tables of the lease store are made if they
    are missing.

    :param format: how they are written: ``PositionsFormat.JSON`` or ``BLOOP``, or its text; templated.
    :param positions: the positions: a dictionary, or its text as JSON; templated.
    :param start: where shards begin of which they name no place: ``TRIM_HORIZON`` or an instant (aware ``datetime`` or
        ISO text); default: as the program does that wrote them. Templated.
    :raises ConfigurationError: without a lease store or a reason, or for another format.
    """

    verb = "positions import"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "format", "positions", "start")

    def __init__(
        self,
        *,
        format: PositionsFormat | str,
        positions: str | Mapping[str, Any],
        start: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.format = format_of(format)
        self.positions = positions
        self.start = start
