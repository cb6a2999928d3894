# SPDX-License-Identifier: Apache-2.0
"""An application is removed, as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardbatch.operators.actions import ActionOperator


class RemoveApplicationOperator(ActionOperator):
    """Removes an application: its rows, its files in staging, and what it registered with its stream.

    What it committed stays in its output roots. Its own row stays and refuses its runs. While a run of it is at work,
    the task fails and nothing is removed. It needs staging, and a stream that can be asked. The
    task's output has a line for each kind of things, with their ``number`` and ``bytes``.

    :param discard: also remove what is unfinished, which is lost: frozen and parked batches, batches kept for a replay,
        replays, landed records, what a reset holds, and owners of which Airflow cannot say whether they are over.
        Default no; templated: ``true`` or ``false``.
    :param free_name: also remove the application's own row, so that a first claim may begin anew under its name; only
        once no run of it is left anywhere. Default no; templated: ``true`` or ``false``.
    """

    verb = "remove"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "discard", "free_name")

    def __init__(self, *, discard: bool | str = False, free_name: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.discard = discard
        self.free_name = free_name
