# SPDX-License-Identifier: Apache-2.0
"""What every command opens before it asks: the store and namespace of its arguments; its errors become one line."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import sys
from argparse import Namespace as Arguments
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shardbatch.control import applications as listing
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, ShardbatchError

if TYPE_CHECKING:
    from shardbatch.control.verb import Verb
    from shardbatch.hooks.leases import Leases
    from shardbatch.hooks.staging import Staging
    from shardbatch.hooks.streams import Stream


@contextmanager
def opened(args: Arguments) -> Iterator[tuple[LeaseStore, Namespace]]:
    """The store and namespace of the arguments; every foreseen error becomes one line and exit code 1."""
    with foreseen():
        namespace = named(args)
    with opened_store(args) as store, listing.near_names(store, namespace):
        yield store, namespace


@contextmanager
def opened_store(args: Arguments) -> Iterator[LeaseStore]:
    """As :func:`opened`, for a command that asks of no application."""
    from shardbatch.hooks.leases import existing_store

    logging.getLogger("shardbatch").setLevel(logging.WARNING)
    with foreseen(), existing_store(leases_named(args.leases)) as store:
        yield store


@contextmanager
def foreseen() -> Iterator[None]:
    """Every foreseen error becomes one line; what Airflow's hooks log goes there too, and not between the answer."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except ShardbatchError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None


def chosen_of(verb: Verb, args: Arguments) -> dict[str, Any]:
    """What a verb's use-case takes of the arguments.

    :raises ConfigurationError: if something that was given cannot be read.
    """
    return verb.chosen(lambda argument: getattr(args, argument.given_as))


def staging_named(args: Arguments) -> Staging | None:
    """The staging area that an argument names, else the deployment's, where it has one that every group uses."""
    from shardbatch.hooks.settings import default_staging, staging_of

    return staging_of(args.staging, "--staging") if args.staging else default_staging()


def stream_named(args: Arguments, store: LeaseStore, namespace: Namespace) -> Stream | None:
    """The stream that an application reads, as its row names it; ``None`` if its service is none that is known here."""
    from shardbatch.hooks.addresses import is_known, stream_at
    from shardbatch.run.consumer import Rows

    row = Rows(namespace=namespace, store=store).application()
    if row is None or not is_known(row.stream_id):
        return None
    return stream_at(row.stream_id, args.conn_id or None, args.region)


def named(args: Arguments) -> Namespace:
    """The namespace of the arguments."""
    from shardbatch.hooks.names import namespace_of

    return namespace_of(args.app_name, args.stream_name)


def leases_named(text: str | None) -> Leases:
    """The lease store that an argument names, else that of the deployment."""
    # As Airflow's own connection commands do: without it only connections in environment variables are found here.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    from shardbatch.hooks.settings import default_leases, leases_of

    leases = leases_of(text, "--leases") if text else default_leases()
    if leases is None:
        raise ConfigurationError(
            "No lease store given.", remedy="Give --leases, or set [shardbatch] leases in Airflow's configuration."
        )
    return leases


def person() -> str:
    """Who calls, for the rows that this changes."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id that has no name
        return f"user id {os.getuid()}"
