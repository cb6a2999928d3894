# SPDX-License-Identifier: Apache-2.0
"""Fields of positions in JSON: each is what it has to be, or an error says which is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shardbatch.core.position import Kind, Position
from shardbatch.errors import InvalidToken

#: The lease stores keep whole numbers in 64 bits.
_TOO_LARGE = 2**63


def entries(
    value: Any, what: str, needed: Collection[str] = (), known: Collection[str] | None = None
) -> Mapping[str, Any]:
    """An object that has what is needed, and nothing that is not known, since that would be dropped in silence.

    :param known: default: whatever it has.
    :raises InvalidToken: otherwise.
    """
    if not isinstance(value, Mapping):
        raise InvalidToken(f"{what} of the positions is not an object, it is {type(value).__name__}.")
    lacking = sorted(set(needed) - value.keys())
    strange = sorted(value.keys() - set(known)) if known is not None else []
    if lacking or strange:
        words = [f"lacks {lacking}"] if lacking else []
        words += [f"has {strange}, which this version does not know"] if strange else []
        raise InvalidToken(f"{what} of the positions {' and '.join(words)}.")
    return value


def text_of(value: Any, what: str) -> str:
    """A text that is not empty.

    :raises InvalidToken: if it is none.
    """
    if not isinstance(value, str) or not value:
        raise InvalidToken(f"{what} of the positions is {value!r}, and not a text.")
    return value


def texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of texts.

    :raises InvalidToken: if it is none.
    """
    if not isinstance(value, (list, tuple)):
        raise InvalidToken(f"{what} of the positions is not a list.")
    return tuple(text_of(item, what) for item in value)


def whole(value: Any, what: str) -> int:
    """A whole number from zero on, for which a column has room.

    :raises InvalidToken: if it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_LARGE:
        raise InvalidToken(f"{what} of the positions is {value!r}, and not a whole number from 0 to {_TOO_LARGE - 1}.")
    return value


def instant(value: Any, what: str) -> int | None:
    """Milliseconds since the epoch, or a number of milliseconds; ``None`` if it is not stated.

    :raises InvalidToken: if it is something else.
    """
    return None if value is None else whole(value, what)


def place(value: Any, what: str, *, tip: bool = False) -> Position:
    """A place, as ``shards`` shows a checkpoint.

    :param tip: whether it may be ``LATEST``, which is not a place of a shard.
    :raises InvalidToken: if it is none.
    """
    try:
        found = Position.parse(text_of(value, what))
    except ValueError as error:
        raise InvalidToken(f"{what} of the positions is {value!r}, which is not a place: {error}.") from error
    if found.kind is Kind.LATEST and not tip:
        raise InvalidToken(f"{what} of the positions is LATEST, which is not a place.")
    return found
