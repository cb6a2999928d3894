# SPDX-License-Identifier: Apache-2.0
"""A stream as plain JSON, for a trigger, which Airflow makes anew from literals in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from importlib import import_module
from typing import Any, cast

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.streams import Stream


def literals_of(stream: Stream) -> dict[str, Any]:
    """The class of a stream and the arguments that it was made of.

    :raises ConfigurationError: if it has a template, which nothing renders outside a task; if its class is not a
        dataclass at the top of a module; or if an argument is not text, a number, an instant or a time.
    """
    kind = type(stream)
    if not is_dataclass(stream) or "." in kind.__qualname__:
        raise ConfigurationError(
            f"{kind.__qualname__} cannot be handed to the triggerer.",
            remedy="Write it as a frozen dataclass at the top of a module that the triggerer can import.",
        )
    given = {field.name: _literal(kind, field.name, getattr(stream, field.name)) for field in fields(stream)}
    path = f"{kind.__module__}.{kind.__qualname__}"
    return {"class": path, "name": stream.stream_name, "arguments": given}


def stream_of(value: Mapping[str, Any]) -> Stream:
    """The stream that :func:`literals_of` wrote.

    :raises ConfigurationError: if its class cannot be imported here, or does not take these arguments.
    """
    module, _, name = str(value.get("class")).rpartition(".")
    given = {argument: _value(item) for argument, item in dict(value.get("arguments") or {}).items()}
    try:
        return cast("Stream", getattr(import_module(module), name)(**given))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"The stream {value.get('class')} cannot be made here: {error}.",
            remedy="Install what defines it, in the same version, where the triggerer runs. A class in a DAG file "
            "cannot be imported there.",
        ) from error


def require_no_template(what: str, value: Any) -> None:
    """Check that a text of an author is what it says.

    :raises ConfigurationError: if it is a template.
    """
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        raise ConfigurationError(
            f"{what} = {value!r} is a template, and nothing renders it in the triggerer.",
            remedy="Give the text that is meant.",
        )


def _literal(kind: type, name: str, value: Any) -> Any:
    require_no_template(f"{kind.__qualname__}({name})", value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return {"instant": value.isoformat()}
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise ConfigurationError(
        f"{kind.__qualname__}({name}=...) is of {type(value).__name__}, which cannot be handed to the triggerer.",
        remedy="Use text, numbers, an instant or a time.",
    )


def _value(item: Any) -> Any:
    if isinstance(item, Mapping) and "instant" in item:
        return datetime.fromisoformat(item["instant"])
    if isinstance(item, Mapping) and "seconds" in item:
        return timedelta(seconds=item["seconds"])
    return item
