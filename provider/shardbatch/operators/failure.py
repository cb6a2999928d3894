# SPDX-License-Identifier: Apache-2.0
"""How one of our errors ends a task: one sentence in its log, under the error's name, with what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from shardbatch.core.shortlist import shortened
from shardbatch.errors import ShardbatchError
from shardbatch.masking import masked
from shardbatch.tasks.task_error import leave

log = logging.getLogger("shardbatch")

#: Most characters that are shown of what an error came from.
LONGEST_CAUSE = 300


@contextmanager
def final_errors() -> Iterator[None]:
    """Ends the task without a retry if a retry cannot help.

    :raises AirflowFailException: instead of an error that is not retryable: see :func:`final`.
    """
    try:
        yield
    except ShardbatchError as error:
        if error.retryable:
            leave(error, error.message + _cause(error))
            raise
        log.debug("The task ends for good.", exc_info=error)
        # Airflow shows every exception of a chain with its frames. This one says what happened and what to do.
        raise final(error) from None


def final(error: ShardbatchError, text: str = "") -> AirflowFailException:
    """The exception that ends a task without a retry, named as the error is. After its text it names the cause of the
    error, if that is not one of our errors and the text does not already have its words.

    :param text: instead of the error's own.
    """
    leave(error, (text or error.message) + _cause(error))
    named: type[AirflowFailException] = type(
        type(error).__name__, (AirflowFailException,), {"__module__": type(error).__module__}
    )
    return named((text or str(error)) + _cause(error))


def _cause(error: BaseException) -> str:
    told, cause = str(error), error.__cause__
    while isinstance(cause, ShardbatchError):
        cause = cause.__cause__
    if cause is None:
        return ""
    words = masked(" ".join(str(cause).split()))
    if words and words in told:
        return ""
    shown = shortened(words, LONGEST_CAUSE)
    return f" (Caused by {type(cause).__name__}{': ' if shown else ''}{shown})"
