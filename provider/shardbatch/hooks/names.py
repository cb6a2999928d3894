# SPDX-License-Identifier: Apache-2.0
"""Checks names where they enter, because they become parts of row keys and folders."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError
from shardbatch.stores.keys import length

#: The scheme of our assets. With ``x-`` before it Airflow takes a URI as it stands; else it loads the asset handlers of
#: every provider to ask them, boto3 among them, in each parse and each task.
SCHEME = "x-shardbatch"


def asset_uri(app_name: str, stream_name: str) -> str:
    """The URI of the asset that stands for an application's committed batches."""
    return f"{SCHEME}://{quote(app_name, safe='')}/{quote(stream_name, safe='')}"


def namespace_of(app_name: Any, stream_name: Any) -> Namespace:
    """The namespace of an application on a stream.

    :param app_name: 1 to 128 printable characters, without a slash and without blanks around it; not ``.`` or ``..``.
    :param stream_name: the same, of up to 255 characters.
    :raises ConfigurationError: naming the name that cannot be used, and why.
    """
    for what, name in (("app_name", app_name), ("stream_name", stream_name)):
        if not isinstance(name, str):
            raise ConfigurationError(
                f"{what} must be text, not {type(name).__name__}: {name!r}.", remedy="Give a name in quotes."
            )
        if len(name) > length(what):
            raise ConfigurationError(
                f"{what} {name[:40]!r}… has {len(name)} characters; it may have {length(what)}.",
                remedy="Choose a shorter name.",
            )
        if name in (".", ".."):
            raise ConfigurationError(f"{what} {name!r} is not a valid name.", remedy="Choose another name.")
    try:
        return Namespace(app_name, stream_name)
    except ValueError as error:
        raise ConfigurationError(f"{error}.", remedy="Choose another name.") from error
