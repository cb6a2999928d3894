# SPDX-License-Identifier: Apache-2.0
"""How one of our errors ends a task: one sentence in its log, under the error's name, with what to do.

It is left as an XCom, too, since Airflow keeps no error of a task but in its log, and the Streams page reads no logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from shardbatch.core.shortlist import shortened
from shardbatch.errors import ShardbatchError
from shardbatch.masking import masked

log = logging.getLogger("shardbatch")

#: Most characters that are shown of what an error came from.
LONGEST_CAUSE = 300
#: The XCom of a failed try with its error, and most characters of each of its texts.
ERROR, LONGEST_TEXT = "shardbatch_error", 1000


@contextmanager
def final_errors() -> Iterator[None]:
    """Ends the task without a retry if a retry cannot help.

    :raises AirflowFailException: instead of an error that is not retryable: see :func:`final`.
    """
    try:
        yield
    except ShardbatchError as error:
        if error.retryable:
            _leave(error, error.message)
            raise
        log.debug("The task ends for good.", exc_info=error)
        # Airflow shows every exception of a chain with its frames. This one says what happened and what to do.
        raise final(error) from None


def final(error: ShardbatchError, text: str = "") -> AirflowFailException:
    """The exception that ends a task without a retry, named as the error is. After its text it names the cause of the
    error, if that is not one of our errors and the text does not already have its words.

    :param text: instead of the error's own.
    """
    _leave(error, text or error.message)
    named: type[AirflowFailException] = type(
        type(error).__name__, (AirflowFailException,), {"__module__": type(error).__module__}
    )
    return named((text or str(error)) + _cause(error))


def _leave(error: ShardbatchError, text: str) -> None:
    """Leave an error as an XCom of its task. Airflow removes it before the task is tried again."""
    try:
        ti: Any = get_current_context()["ti"]
    except RuntimeError:  # no task executes here: a hook of a person's own code
        return
    told = {
        "error": type(error).__name__,
        "message": shortened(f"{text}{_cause(error)}", LONGEST_TEXT),
        "remedy": shortened(masked(error.remedy), LONGEST_TEXT),
    }
    try:
        ti.xcom_push(key=ERROR, value=told)
    except Exception as failed:  # noqa: BLE001 - the error itself has to reach the log, whatever becomes of its copy
        log.warning("The Streams page will not show this error, which could not be left as an XCom: %s", failed)


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
