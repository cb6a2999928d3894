# SPDX-License-Identifier: Apache-2.0
"""A stream as literals, for a trigger that looks at it in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from importlib import import_module
from typing import Any, cast

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.streams import Stream


def stream_to_json(stream: Stream) -> dict[str, Any] | None:
    """As plain JSON, for :func:`stream_from`; ``None`` for a class of an author's own that cannot be written so.

    It has to be a dataclass at the top of a module, whose fields are texts, numbers and datetimes.
    """
    kind: type = type(stream)
    if not is_dataclass(stream) or "<" in kind.__qualname__ or kind.__module__ == "__main__":
        return None
    values = {item.name: _plain(getattr(stream, item.name)) for item in fields(stream) if item.init}
    if any(value is NOT_PLAIN for value in values.values()):
        return None
    return {"class": f"{kind.__module__}:{kind.__qualname__}", **values}


def stream_from(value: Mapping[str, Any]) -> Stream:
    """The stream of plain JSON.

    :raises ConfigurationError: if its class cannot be imported here.
    """
    module, _, name = str(value["class"]).partition(":")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"The triggerer cannot import the stream's class {value['class']}: {error}",
            remedy="Install its module for the triggerer, too. A sensor can also wait with mode='reschedule'.",
        ) from error
    made = {key: _restored(item) for key, item in value.items() if key != "class"}
    return cast("Stream", kind(**made))


#: What a field's value is that has no plain form.
NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    return value if value is None or isinstance(value, (str, int, float, bool)) else NOT_PLAIN


def _restored(value: Any) -> Any:
    return datetime.fromisoformat(value["datetime"]) if isinstance(value, dict) else value
