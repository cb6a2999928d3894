# SPDX-License-Identifier: Apache-2.0
"""Members of a request, checked against the shapes that the service publishes."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, TypeVar

from shardbatch.local.failure import ServiceError, malformed

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
NUMBER = re.compile(r"0|[1-9]\d{0,128}")
ARN = re.compile(r"arn:aws[^:]*:kinesis:([^:]*):(\d{12}):stream/([a-zA-Z0-9_.-]{1,128})")
E = TypeVar("E", bound=Enum)


def mistyped(name: str, wanted: str) -> ServiceError:
    """A member whose JSON type is wrong."""
    return ServiceError("SerializationException", f"{name} must be {wanted}")


class Fields:
    """The JSON object of a request."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def has(self, name: str) -> bool:
        """Whether the member is there and not null."""
        return self.values.get(name) is not None

    def text(self, name: str, pattern: re.Pattern[str] = NAME) -> str | None:
        """A string that matches ``pattern`` as a whole, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise mistyped(name, "a string")
        if not pattern.fullmatch(value):
            raise malformed(f"{name} must match {pattern.pattern}, got {value[:200]!r}")
        return value

    def need(self, name: str, pattern: re.Pattern[str] = NAME) -> str:
        """As :meth:`text`, and it must be there."""
        value = self.text(name, pattern)
        if value is None:
            raise malformed(f"{name} is required")
        return value

    def any_text(self, name: str, longest: int, *, shortest: int = 1) -> str:
        """A string that must be there, of ``shortest`` to ``longest`` characters."""
        value = self.values.get(name)
        if value is None:
            raise malformed(f"{name} is required")
        if not isinstance(value, str):
            raise mistyped(name, "a string")
        if not shortest <= len(value) <= longest:
            raise malformed(f"{name} must have {shortest} to {longest} characters, has {len(value)}")
        return value

    def integer(self, name: str, least: int, most: int) -> int | None:
        """An integer from ``least`` to ``most``, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise mistyped(name, "an integer")
        if not least <= value <= most:
            raise malformed(f"{name} must be from {least} to {most}, got {value}")
        return value

    def need_integer(self, name: str, least: int, most: int) -> int:
        """As :meth:`integer`, and it must be there."""
        value = self.integer(name, least, most)
        if value is None:
            raise malformed(f"{name} is required")
        return value

    def timestamp_ms(self, name: str) -> int | None:
        """Seconds since the epoch as milliseconds, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e12:
            raise mistyped(name, "a number of seconds since the epoch")
        return round(value * 1000)

    def choice(self, name: str, kind: type[E]) -> E | None:
        """A member of an enumeration, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise malformed(f"{name} must be one of {known}, got {value!r}") from None

    def inner(self, name: str) -> Fields | None:
        """An object inside the request, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise mistyped(name, "an object")
        return Fields(value)

    def array(self, name: str, least: int, most: int) -> list[Any]:
        """A list that must be there, of ``least`` to ``most`` elements."""
        value = self.values.get(name)
        if value is None:
            raise malformed(f"{name} is required")
        if not isinstance(value, list):
            raise mistyped(name, "a list")
        if not least <= len(value) <= most:
            raise malformed(f"{name} must have {least} to {most} elements, has {len(value)}")
        return value

    def strings(self, name: str) -> dict[str, str] | None:
        """An object whose values are strings, or None if absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise mistyped(name, "an object of strings")
        return value
