# SPDX-License-Identifier: Apache-2.0
"""Templates are rendered once, as texts.

What a template brought in (a run's conf or params, an XCom) is data from then on: whoever may trigger a run must not
have text of theirs rendered, with ``var`` and ``conn`` in reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import render_template_to_string

from shardbatch.errors import ConfigurationError
from shardbatch.operators.failure import final

if TYPE_CHECKING:
    from airflow.sdk import Context


def as_text(expression: str) -> str:
    """A template of an expression that renders to its text, also where a DAG or a task renders native objects, which
    would make a number of ``2026``."""
    # Only a native environment makes a number of a captured 1. There, what is rendered is read as a Python literal.
    return f"{{% set n %}}1{{% endset %}}{{{{ '%r' % (({expression}) ~ '') if n is number else ({expression}) }}}}"


def place(task: BaseOperator) -> str:
    """Which task of which DAG, for errors."""
    return f"DAG {task.dag.dag_id!r}, task {task.task_id!r}" if task.has_dag() else f"Task {task.task_id!r}"


def renderer(task: BaseOperator, context: Context) -> Callable[[str], str]:
    """Renders texts with the macros and filters of a task's DAG.

    The result is a text also where the DAG renders native objects: there the name ``2026_11`` would become a number.
    """
    # The environment of a native DAG hands out objects; the sandboxed one is the one that other DAGs have.
    environment = (
        task.dag.get_template_env(force_sandboxed=True) if task.has_dag() else BaseOperator.get_template_env(task)
    )

    def render(text: str) -> str:
        return render_template_to_string(environment.from_string(text), context)

    return render


@runtime_checkable
class Renderable(Protocol):
    """What says where something is, in texts that may be templates: a stream, a lease store, a staging folder."""

    def rendered(self, render: Callable[[str], str]) -> Any:
        """The same with its templates rendered.

        :raises ConfigurationError: for a text that rendering left unusable.
        """
        ...


class RendersOnce(BaseOperator):
    """Renders its texts as texts, and the objects that say where something is with them, when Airflow renders the
    template fields. Nothing is rendered later."""

    def render_template(
        self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As ``BaseOperator`` does it; called by Airflow for each template field.

        :raises AirflowFailException: for an object that rendering left unusable; no retry would mend it.
        """
        if seen_oids is not None and id(content) in seen_oids:
            return content  # of an XCom or another task: Airflow renders none of these
        if isinstance(content, str):
            return renderer(self, context)(content)
        if isinstance(content, Renderable):
            try:
                return content.rendered(renderer(self, context))
            except ConfigurationError as error:
                raise final(error, f"{place(self)}: {error}") from None
        return super().render_template(content, context, jinja_env, seen_oids)
