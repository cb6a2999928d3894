# SPDX-License-Identifier: Apache-2.0
"""Ids of shards as an author gives them to a sensor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.stream_literals import PLAIN_CLASS, stream_to_json
from shardbatch.operators.rendering import place
from shardbatch.sensors.waiting import WaitingSensor

#: What stands between ids where a template has rendered a list as text.
BETWEEN = re.compile(r"[\s,\[\]()'\"]+")


def shard_ids_of(name: str, value: Any) -> tuple[str, ...]:
    """The ids of a list, or of a text with commas between them, each once.

    :raises ConfigurationError: if there are none: of no shard at all everything is true.
    """
    if isinstance(value, str):
        found: Sequence[str] = [text for text in BETWEEN.split(value) if text]
    else:
        found = [str(item).strip() for item in value or ()]
    if not found or not all(found):
        raise ConfigurationError(
            f"{name}={value!r} names no shard, or an empty one.", remedy="Give one id or more, in a list."
        )
    return tuple(dict.fromkeys(found))


def require_stream(sensor: WaitingSensor) -> None:
    """Check, when the DAG file is parsed, that the sensor can look at the stream where it waits.

    :raises ConfigurationError: if only its name is known, or a trigger cannot make it.
    """
    if isinstance(sensor.stream, str):
        raise ConfigurationError(
            f"{place(sensor)}: stream={sensor.stream!r} is a name only, and this sensor lists the stream's shards.",
            remedy="Give the stream itself, or batch=.",
        )
    if sensor.deferrable and stream_to_json(sensor.stream) is None:
        raise ConfigurationError(
            f"{place(sensor)}: {type(sensor.stream).__name__} cannot be written as literals for a trigger.",
            remedy=f"{PLAIN_CLASS} Or give mode='reschedule'.",
        )
