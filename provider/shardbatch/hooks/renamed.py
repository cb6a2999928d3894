# SPDX-License-Identifier: Apache-2.0
"""Old names of what has another: they work, and a warning says what to write instead."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from shardbatch.errors import ConfigurationError

T = TypeVar("T", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[T], T]:
    """A class or function that takes arguments by their old names too, each given as ``old="new"``.

    An operator's ``partial`` takes them as well, and a task has them as attributes.
    """

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
        if hasattr(made, "partial"):  # it is an operator
            _take_in_partial(made, names)
            for old, new in names.items():
                setattr(made, old, _attribute(made.__name__, old, new))
        return made

    return decorate


def _attribute(where: str, old: str, new: str) -> property:
    """The attribute of an old name, which is that of the new one."""
    text = f"{where}.{old} is deprecated; use {new}."

    def get(self: Any) -> Any:
        warn(text)
        return getattr(self, new)

    def put(self: Any, value: Any) -> None:
        setattr(self, new, value)
        warn(text, stacklevel=_above_airflow())

    return property(get, put, doc=f"The old name of ``{new}``.")


def _above_airflow() -> int:
    """How far above :func:`warn` the author's line is who set an attribute: Airflow's operators set each by a method of
    their own."""
    frame, level = sys._getframe(2), 3
    while frame is not None and frame.f_code.co_name == "__setattr__":
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def _take_in_partial(made: Any, names: Mapping[str, str]) -> None:
    def partial(cls: Any, /, **kwargs: Any) -> Any:
        return super(made, cls).partial(**by_new_names(kwargs, names, made.__name__))

    made.partial = classmethod(partial)


def moved(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose classes for authors stand in other modules beside it now."""

    def find(name: str) -> Any:
        public = import_module("shardbatch")
        room = module.rpartition(".")[0]
        if name not in public.__all__ or not getattr(public, name).__module__.startswith(f"{room}."):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name} is deprecated; use: from shardbatch import {name}.")
        return getattr(public, name)

    return find


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
