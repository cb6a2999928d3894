# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that several classes of streams have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from shardbatch.core.choices import Choice, chosen
from shardbatch.core.policies import StartingPosition
from shardbatch.core.position import LATEST, TRIM_HORIZON, Position, at_timestamp
from shardbatch.errors import ConfigurationError

#: Arguments that take one of a few words, and what they take beside them.
Choices = tuple[tuple[str, type[Choice], str], ...]
START: Choices = (("start", StartingPosition, "an aware datetime"),)


def require_zone(start: object, what: str) -> None:
    """Check that an instant says where on earth it is meant.

    :raises ConfigurationError: if it does not.
    """
    if isinstance(start, datetime) and start.utcoffset() is None:
        raise ConfigurationError(f"{what}(start={start}) has no time zone.", remedy="Give an aware datetime.")


def require_ranges(stream: object, *ranges: tuple[str, bool, str]) -> None:
    """Check numbers: the argument's name, whether it fits, and what does.

    :raises ConfigurationError: for the first that does not fit.
    """
    for name, fits, words in ranges:
        if not fits:
            raise ConfigurationError(
                f"{type(stream).__name__}({name}={getattr(stream, name)}) is out of range.", remedy=f"It is {words}."
            )


def choose(stream: object, choices: Choices, known: Callable[[object], bool]) -> None:
    """Put the words in place of their texts, where these are ``known``, because they are not templates (any more).

    :raises ConfigurationError: for a text that is not one of the words.
    """
    what = type(stream).__name__
    for name, kind, other in choices:
        value = getattr(stream, name)
        if known(value) and not (name == "start" and isinstance(value, datetime)):
            object.__setattr__(stream, name, chosen(kind, value, f"{what}({name}={value!r})", other=other))


def position_of(start: object) -> Position:
    """A start as a position."""
    if isinstance(start, datetime):
        return at_timestamp(round(start.timestamp() * 1000))
    return LATEST if start == StartingPosition.LATEST else TRIM_HORIZON


def rendered(stream: object, render: Callable[[str], str], names: Iterable[str]) -> dict[str, Any]:
    """The texts among some arguments with their templates rendered, and the others as they are."""
    values = {name: getattr(stream, name) for name in names}
    return {name: render(value) if isinstance(value, str) else value for name, value in values.items()}
