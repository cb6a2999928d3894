# SPDX-License-Identifier: Apache-2.0
"""Clean-up of staging and of output roots, as a task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from shardbatch.operators.actions import ActionOperator


class CleanStagingOperator(ActionOperator):
    """Removes what nothing can use any more from staging and from the application's output roots.

    Batches whose archive time is over are retired: they cannot be replayed any more, and their output stays. What a
    row still names is never removed. It may run at any time, beside all other runs; once a week is enough. It needs
    staging. The task's output has a line for each kind of things, with their ``number`` and ``bytes``.

    :param archive_for: how long the slices of a committed batch are kept after its last decision or attempt, as a
        ``timedelta`` or a text of days; templated. Default: the setting ``[shardbatch] archive_for``, else 7 days.
    """

    verb = "gc"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "archive_for")

    def __init__(self, *, archive_for: timedelta | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.archive_for = archive_for
