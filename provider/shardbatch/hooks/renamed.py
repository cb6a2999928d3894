# SPDX-License-Identifier: Apache-2.0
"""Old names of what has another: they work, and a warning says what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from shardbatch.errors import ConfigurationError

T = TypeVar("T", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[T], T]:
    """A class or function that takes arguments by their old names too, each given as ``old="new"``."""

    def decorate(made: T) -> T:
        call: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]

        @wraps(call)
        def take_old_names(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **by_new_names(kwargs, names, made.__name__))

        # Airflow finishes an operator when the innermost of its class's constructors ends, which it finds by this.
        vars(take_old_names)["__wrapped__"] = getattr(call, "__wrapped__", call)
        vars(take_old_names)["old_names"] = names
        if not isinstance(made, type):
            return cast("T", take_old_names)
        made.__init__ = take_old_names  # type: ignore[misc]
        return made

    return decorate


def by_new_names(given: Mapping[str, Any], names: Mapping[str, str], where: str) -> dict[str, Any]:
    """Values by their names, those that stand under an old name by the new one.

    It warns in the name of the caller's caller, who wrote them.

    :raises ConfigurationError: if one stands under both.
    """
    found = dict(given)
    for old, new in names.items():
        if old not in found:
            continue
        if new in found:
            raise ConfigurationError(f"{where} has {old} and {new}, which are the same.", remedy=f"Give {new} only.")
        found[new] = found.pop(old)
        warn(f"{where}: {old}= is deprecated; use {new}=.", stacklevel=4)
    return found


def warn(text: str, *, stacklevel: int = 3) -> None:
    """Warn of an old name, by default in the name of the caller's caller."""
    from airflow.exceptions import AirflowProviderDeprecationWarning

    warnings.warn(text, AirflowProviderDeprecationWarning, stacklevel=stacklevel)
