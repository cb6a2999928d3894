# SPDX-License-Identifier: Apache-2.0
"""The error of a failed try, left at its task and read again."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.context import set_current_context

from shardbatch.control.banner import TaskError
from shardbatch.errors import StreamNotFound
from shardbatch.tasks.task_error import KEY, LONGEST, leave, left


class Pushed:
    """What a task that executes has left."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.values[key] = value


def test_what_was_left_is_read_again_without_secrets_and_not_longer_than_a_row_should_be() -> None:
    ti: Any = Pushed()
    context: Any = {"ti": ti}
    with set_current_context(context):
        leave(StreamNotFound("No stream.", remedy="Create it; token=abcdefgh"), "x" * 5000)
    found = left(ti.values[KEY])
    assert found == TaskError("StreamNotFound", "x" * (LONGEST - 1) + "…", "Create it; token=***")


def test_nothing_is_left_where_no_task_executes() -> None:
    leave(StreamNotFound("No stream."), "No stream.")


@pytest.mark.parametrize("value", [None, "s3://bucket/xcom", {"error": "E"}, {"error": 1, "message": "", "remedy": ""}])
def test_a_value_of_another_form_is_no_error(value: Any) -> None:
    assert left(value) is None
