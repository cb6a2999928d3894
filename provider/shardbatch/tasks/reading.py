# SPDX-License-Identifier: Apache-2.0
"""Where a read task shows how far it has come: in Airflow's state of tasks, for the Streams page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shardbatch.core.say import Say, Show, unshown

#: The key under which it stands.
KEY = "shardbatch_reading"
#: How long Airflow keeps it: it counts only while the task works.
RETENTION = timedelta(days=1)


def shown_in(state: Any, warn: Say) -> Show:
    """Shows progress in the state store of the running task.

    If the store refuses, a warning says so once, no more is shown, and the task goes on.

    :param state: the context's ``task_state_store``; ``None`` where Airflow has none: then nothing is shown.
    :param warn: says that the store has refused.
    """
    if state is None:
        return unshown
    refused: list[BaseException] = []

    def show(progress: Mapping[str, object]) -> None:
        if refused:
            return
        try:
            state.set(KEY, dict(progress), retention=RETENTION)
        except Exception as error:  # noqa: BLE001 - the API server, or a backend of the deployment's own, fails in any way
            refused.append(error)
            warn(
                f"The Streams page does not see this read: Airflow did not keep its progress ({type(error).__name__})."
            )

    return show
