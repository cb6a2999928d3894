# SPDX-License-Identifier: Apache-2.0
"""Sharded streams: which word stands for which source, and how its class is loaded."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shardbatch.errors import ConfigurationError

#: Scheme of a stream -> module and class of its source; a vendor library is imported only when its source is asked for.
SOURCES = {"kinesis": ("shardbatch.sources.kinesis", "KinesisSource")}


def load_source(scheme: str) -> type[Any]:
    """The class that reads streams of this scheme (``kinesis``).

    :raises ConfigurationError: for a scheme that is not known, or whose vendor library is not installed.
    """
    try:
        module, name = SOURCES[scheme]
    except KeyError:
        raise ConfigurationError(
            f"There is no source for {scheme!r} streams.", remedy=f"Choose one of: {', '.join(sorted(SOURCES))}."
        ) from None
    try:
        found: type[Any] = getattr(import_module(module), name)
    except ImportError as error:
        raise ConfigurationError(
            f"The {scheme} source needs {error.name}, which is not installed.",
            remedy="Install airflow-provider-shardbatch[aws].",
        ) from error
    return found
