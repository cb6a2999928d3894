# SPDX-License-Identifier: Apache-2.0
"""What a person says to write down where an application stands, or to go on where it was written down."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardbatch.control.verb import Argument, UseCase, Verb

if TYPE_CHECKING:
    from shardbatch.core.position import Position
    from shardbatch.core.position_formats import PositionsFormat


def content_of(path: str) -> str:
    """What stands in a file; ``-`` is standard input.

    :raises ConfigurationError: if it cannot be read.
    """
    from shardbatch.errors import ConfigurationError

    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.", remedy="Name a file with positions.") from error


def _format(given: Any) -> PositionsFormat:
    from shardbatch.core.choices import chosen
    from shardbatch.core.position_formats import PositionsFormat

    return chosen(PositionsFormat, given, f"The format of positions {given!r}")


def _start(given: Any) -> Position | None:
    from shardbatch.control.reset import target_of

    return None if given is None else target_of(given)


def _import() -> UseCase:
    from shardbatch.control.import_positions import import_positions

    return import_positions


FORMAT = Argument(
    "form",
    "--format",
    "How the positions are written: json, all of an application, for any stream; bloop, a token of Bloop",
    field="format",
    required=True,
    read=_format,
    words=("json", "bloop"),
)

IMPORT_POSITIONS = Verb(
    name="positions import",
    word="import",
    past="imported",
    help="Go on where an application or another program stands, by positions that were written down",
    more=(
        "Makes a new application that reads every record behind the positions, once. All is checked first, also with "
        "the stream. All or nothing; one that died is finished by another, and nothing can be claimed before. "
        "A preview unless --yes is given."
    ),
    arguments=(
        FORMAT,
        Argument("positions", "FILE", "Their file; -: standard input", required=True),
        Argument(
            "start",
            "--start",
            "Where shards begin of which the positions name no place: TRIM_HORIZON, or an instant with its time zone. "
            "Default: as the program does that wrote them; the preview says what that leaves out. Not with json, which "
            "names them all",
            read=_start,
            words=("TRIM_HORIZON",),
        ),
    ),
    use_case=_import,
    operator="ImportPositionsOperator",
    positions=True,
)
