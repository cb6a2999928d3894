# SPDX-License-Identifier: Apache-2.0
"""Renders the texts of an author as texts, with the macros and filters of a task's DAG."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import render_template_to_string

if TYPE_CHECKING:
    from airflow.sdk import Context


def renderer(task: BaseOperator, context: Context) -> Callable[[str], str]:
    """Renders texts with the macros and filters of a task's DAG.

    The result is a text even where the DAG renders native objects, which would turn the name ``2026_11`` into a number.
    """
    # The environment of a native DAG hands out objects; the sandboxed one is the one that other DAGs have.
    environment = (
        task.dag.get_template_env(force_sandboxed=True) if task.has_dag() else BaseOperator.get_template_env(task)
    )

    def render(text: str) -> str:
        return render_template_to_string(environment.from_string(text), context)

    return render
