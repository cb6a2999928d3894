# SPDX-License-Identifier: Apache-2.0
"""Attribute values: checked, brought to one form, and weighed as DynamoDB does."""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from shardbatch.local.failure import malformed
from shardbatch.local.fields import mistyped

MOST_DIGITS = 38
LARGEST_EXPONENT = 125
SMALLEST_EXPONENT = -130
DEEPEST = 32
MOST_ITEM_BYTES = 400 * 1024
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
Json = dict[str, Any]


def canonical_item(item: Any, name: str) -> Json:
    """An item, or a key, in the form in which it is stored: equal items are equal there.

    :param name: member of the request, for errors
    :raises ServiceError: ValidationException, SerializationException
    """
    if not isinstance(item, dict):
        raise mistyped(name, "an object of attribute values")
    if "" in item:
        raise malformed(f"{name} has an attribute without a name")
    return {attribute: canonical(value, attribute) for attribute, value in item.items()}


def canonical(value: Any, name: str, depth: int = 0) -> Json:
    """An attribute value in the form in which it is stored: plain numbers, sorted sets."""
    if not isinstance(value, dict):
        raise mistyped(name, "an attribute value such as {'S': 'text'}")
    if len(value) != 1:
        raise malformed(f"the value of {name} must have exactly one type, has {sorted(value)}")
    if depth > DEEPEST:
        raise malformed(f"{name} is nested deeper than {DEEPEST} levels")
    ((kind, content),) = value.items()
    if kind in ("M", "L"):
        return {kind: _canonical_document(kind, content, name, depth)}
    if kind in ("SS", "NS", "BS"):
        return {kind: _canonical_set(kind, content, name)}
    if kind not in _SCALARS:
        raise malformed(f"the value of {name} has the unknown type {kind!r}")
    return {kind: _SCALARS[kind](content, name)}


def _canonical_document(kind: str, content: Any, name: str, depth: int) -> Any:
    if kind == "M":
        if not isinstance(content, dict):
            raise mistyped(name, "a map")
        return {inner: canonical(value, f"{name}.{inner}", depth + 1) for inner, value in content.items()}
    if not isinstance(content, list):
        raise mistyped(name, "a list")
    return [canonical(value, f"{name}[{index}]", depth + 1) for index, value in enumerate(content)]


def _canonical_set(kind: str, content: Any, name: str) -> list[str]:
    if not isinstance(content, list):
        raise mistyped(name, "a set")
    members = [_SCALARS[kind[0]](member, name) for member in content]
    if not members:
        raise malformed(f"{name}: a set may not be empty")
    if len(set(members)) < len(members):
        raise malformed(f"{name}: a set may not hold a value twice")
    return sorted(members, key=_SET_ORDER[kind])


def _text(content: Any, name: str) -> str:
    if not isinstance(content, str):
        raise mistyped(name, "a string")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise mistyped(name, "a string of whole characters") from None
    return content


def _binary(content: Any, name: str) -> str:
    try:
        return b64encode(_decode(_text(content, name))).decode("ascii")
    except (Base64Error, ValueError):
        raise mistyped(name, "base64 text") from None


def _decode(content: str) -> bytes:
    return a2b_base64(content, strict_mode=True)


def _flag(content: Any, name: str) -> bool:
    if not isinstance(content, bool):
        raise mistyped(name, "true or false")
    return content


def _null(content: Any, name: str) -> bool:
    if content is not True:
        raise malformed(f"{name}: NULL must be true")
    return True


def _number(content: Any, name: str) -> str:
    """A number as plain decimal text without needless zeros.

    :raises ServiceError: ValidationException beyond 38 digits, or beyond the range of DynamoDB
    """
    text = _text(content, name)
    if not _NUMBER.fullmatch(text):
        raise malformed(f"{name}: {text[:100]!r} is not a number")
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    kept = "".join(map(str, digits)).lstrip("0")
    exponent += len(kept) - len(kept.rstrip("0"))
    kept = kept.rstrip("0")
    if not kept:
        return "0"
    if len(kept) > MOST_DIGITS:
        raise malformed(f"{name}: a number has at most {MOST_DIGITS} significant digits, not {len(kept)}")
    if not SMALLEST_EXPONENT <= len(kept) - 1 + exponent <= LARGEST_EXPONENT:
        raise malformed(f"{name}: {text[:100]} is outside the range of numbers, 1E-130 to 9.9...E+125")
    minus = "-" if sign else ""
    if exponent >= 0:
        return minus + kept + "0" * exponent
    kept = kept.rjust(1 - exponent, "0")
    return f"{minus}{kept[:exponent]}.{kept[exponent:]}"


_SCALARS: dict[str, Callable[[Any, str], Any]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _flag,
    "NULL": _null,
}
_SET_ORDER: dict[str, Callable[[str], Any]] = {"SS": str.encode, "NS": Decimal, "BS": _decode}


def size_of_item(item: Json) -> int:
    """Bytes of an item, or of a key: names and values."""
    return sum(len(name.encode()) + size_of(value) for name, value in item.items())


def size_of(value: Json) -> int:
    """Bytes of a stored attribute value."""
    ((kind, content),) = value.items()
    if kind == "M":
        return 3 + size_of_item(content) + len(content)
    if kind == "L":
        return 3 + sum(1 + size_of(inner) for inner in content)
    if kind in ("SS", "NS", "BS"):
        return sum(_SIZES[kind[0]](inner) for inner in content)
    return _SIZES[kind](content)


def _size_of_number(text: str) -> int:
    digits = text.replace("-", "").replace(".", "").strip("0")
    return 1 + (len(digits) + 1) // 2 + text.startswith("-")


_SIZES: dict[str, Callable[[Any], int]] = {
    "S": lambda text: len(text.encode()),
    "N": _size_of_number,
    "B": lambda text: len(_decode(text)),
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
}
