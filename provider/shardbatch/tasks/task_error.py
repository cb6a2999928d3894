# SPDX-License-Identifier: Apache-2.0
"""The error of a failed try as an XCom of its task: Airflow keeps it in the log only, and the Streams page reads none.

Airflow removes it before the task is tried again, and keeps it after a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from shardbatch.core.shortlist import shortened
from shardbatch.masking import masked

if TYPE_CHECKING:
    from shardbatch.control.banner import TaskError
    from shardbatch.errors import ShardbatchError

log = logging.getLogger("shardbatch")

#: The XCom, and most characters of each of its texts.
KEY, LONGEST = "shardbatch_error", 1000


def leave(error: ShardbatchError, text: str) -> None:
    """Leave an error at the task that executes; nothing where none does.

    :param text: what the error says, without its remedy.
    """
    try:
        ti: Any = get_current_context()["ti"]
    except RuntimeError:  # a person's own code, outside of a task
        return
    told = {
        "error": type(error).__name__,
        "message": shortened(text, LONGEST),
        "remedy": shortened(masked(error.remedy), LONGEST),
    }
    try:
        ti.xcom_push(key=KEY, value=told)
    except Exception as failed:  # noqa: BLE001 - the error itself has to reach the log, whatever becomes of its copy
        log.warning("The Streams page will not show this error, which could not be left as an XCom: %s", failed)


def left(value: Any) -> TaskError | None:
    """The error of an XCom's value; ``None`` if it is none, as where a backend of XComs keeps values itself."""
    from shardbatch.control.banner import TaskError

    names = ("error", "message", "remedy")
    if not isinstance(value, Mapping) or not all(isinstance(value.get(name), str) for name in names):
        return None
    return TaskError(*(value[name] for name in names))
