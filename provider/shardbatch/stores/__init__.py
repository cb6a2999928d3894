# SPDX-License-Identifier: Apache-2.0
"""Lease stores: a scheme names the backend, which is loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shardbatch.core.ports import LeaseStore
from shardbatch.errors import ConfigurationError

#: Scheme (of a SQLAlchemy URL: the dialect before a ``+``) to the module and the function that opens it.
LOADERS = {
    "sqlite": ("shardbatch.stores.sql", "open_url"),
    "postgresql": ("shardbatch.stores.sql", "open_url"),
    "mysql": ("shardbatch.stores.sql", "open_url"),
    "mariadb": ("shardbatch.stores.sql", "open_url"),
    "dynamodb": ("shardbatch.stores.dynamodb", "open_url"),
    "memory": ("shardbatch.stores.memory", "open_url"),
}


def open_store(url: str, **options: Any) -> LeaseStore:
    """The store at a URL.

    ``sqlite:///…``, ``postgresql://…``, ``mysql://…`` and ``mariadb://…`` are SQLAlchemy URLs; ``dynamodb://TABLE``
    needs ``client=`` (a boto3 client); ``memory://NAME`` is shared within this process. ``options`` go to the
    backend's class.

    :raises ConfigurationError: for an unknown scheme, or a backend whose library is not installed.
    """
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme not in LOADERS:
        raise ConfigurationError(
            "There is no lease store for {}.".format(
                repr(scheme) if scheme.isalnum() and "@" not in url else "this URL"
            ),
            remedy="Use one of: {}.".format(", ".join(sorted(LOADERS))),
        )
    module, function = LOADERS[scheme]
    try:
        opened: LeaseStore = getattr(import_module(module), function)(url, **options)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The lease store {scheme!r} needs the Python package {error.name!r}.",
            remedy="Install it on every worker.",
        ) from error
    return opened
