# SPDX-License-Identifier: Apache-2.0
"""What Airflow's pages say of our tasks: what a task does, and what to press when it is red."""

from __future__ import annotations

from inspect import getdoc
from typing import Any, ClassVar

from airflow.sdk import BaseOperator


class Explained(BaseOperator):
    """An operator whose tasks explain themselves, unless the author has given ``doc_md``."""

    #: What to do when a task of it is red.
    red: ClassVar[str] = "The last line of its log says what to do; then clear it with its downstream tasks."

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.doc_md is None:
            self.doc_md = self.explanation()

    @classmethod
    def explanation(cls) -> str:
        """The first paragraph of the class's docstring, and what to do when it is red, in Markdown."""
        first = (getdoc(cls) or "").partition("\n\n")[0]
        return f"{first}\n\n**If it is red:** {cls.red}".strip()

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """As in ``BaseOperator``: a mapped task has its texts before any instance of it is made."""
        made = super().partial(**kwargs)
        if made.kwargs.get("doc_md") is None:
            made.kwargs["doc_md"] = cls.explanation()
        return made
