# SPDX-License-Identifier: Apache-2.0
"""Templates are rendered once, as texts.

What a template brings in (a run's conf or params, an XCom) is treated as data afterwards. Otherwise a person who may
trigger a run could have text rendered that uses ``var`` and ``conn``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from airflow.sdk import BaseOperator

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.templates import renderer
from shardbatch.operators.explained import Explained
from shardbatch.operators.failure import final

if TYPE_CHECKING:
    from airflow.sdk import Context


def as_text(expression: str) -> str:
    """A template of an expression that renders to its text, even where a DAG or a task renders native objects, which
    would turn ``2026`` into a number."""
    # Only a native environment makes a number of a captured 1. There, what is rendered is read as a Python literal.
    return f"{{% set n %}}1{{% endset %}}{{{{ '%r' % (({expression}) ~ '') if n is number else ({expression}) }}}}"


def place(task: BaseOperator) -> str:
    """The names of a task and its DAG, for errors."""
    return f"DAG {task.dag.dag_id!r}, task {task.task_id!r}" if task.has_dag() else f"Task {task.task_id!r}"


@runtime_checkable
class Renderable(Protocol):
    """What says where something is, in texts that may be templates: a stream, a lease store, a staging folder."""

    def rendered(self, render: Callable[[str], str]) -> Any:
        """The same with its templates rendered.

        :raises ConfigurationError: for a text that rendering left unusable.
        """
        ...


class RendersOnce(Explained):
    """Renders its template fields as texts when Airflow renders them, together with the objects (streams, stores,
    staging) that contain templates. Nothing is rendered later."""

    def render_template(
        self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As in ``BaseOperator``; Airflow calls this for each template field.

        :raises AirflowFailException: for an object that rendering made unusable, which a retry cannot fix.
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
