# SPDX-License-Identifier: Apache-2.0
"""What an error of one shard's read is to the other shards, and how it is told."""

from __future__ import annotations

import traceback

from shardbatch.errors import LeaseLost, ProtocolError, ShardbatchError


class Stopped(Exception):
    """The task was told to stop; nothing was stored, and the next try reads anew."""


def is_shards_own(error: BaseException) -> bool:
    """Whether the other shards may be read all the same, whatever it is.

    Not if the task is to end: it was told so, or its time is over (Airflow raises no ``Exception`` then). Nor if a row
    contradicts what this code believes: the others would be written in the same belief. A lost lease does not.
    """
    if not isinstance(error, Exception) or isinstance(error, Stopped):
        return False
    return isinstance(error, LeaseLost) or not isinstance(error, ProtocolError)


def named(error: Exception) -> str:
    """In short: one of ours by its text, another with its kind."""
    return str(error) if isinstance(error, ShardbatchError) else "{}: {}".format(type(error).__name__, error)


def told(error: Exception) -> str:
    """As it stands in the log: one that is not ours with where it comes from."""
    if isinstance(error, ShardbatchError):
        return str(error)
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
