# SPDX-License-Identifier: Apache-2.0
"""How an error of one shard's read affects the other shards, and how it is reported."""

from __future__ import annotations

import traceback

from shardbatch.errors import LeaseLost, ProtocolError, ShardbatchError


class Stopped(Exception):
    """The task was told to stop; nothing was stored, and the next try reads again."""


def is_shards_own(error: BaseException) -> bool:
    """Whether the other shards may still be read after this error.

    They may not if the task has to end: it was told to, or its time is over (Airflow then raises an error that is not
    an ``Exception``). They may not if a row contradicts what this code assumes, since the other rows would be written
    with the same assumption. A lost lease does not stop the others.
    """
    if not isinstance(error, Exception) or isinstance(error, Stopped):
        return False
    return isinstance(error, LeaseLost) or not isinstance(error, ProtocolError)


def named(error: Exception) -> str:
    """A short form: one of our errors by its text, another one with its class."""
    return str(error) if isinstance(error, ShardbatchError) else f"{type(error).__name__}: {error}"


def told(error: Exception) -> str:
    """The form for the log: an error that is not ours comes with its origin."""
    if isinstance(error, ShardbatchError):
        return str(error)
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
