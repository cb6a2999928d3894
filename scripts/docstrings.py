# SPDX-License-Identifier: Apache-2.0
"""What the reference makes of docstrings: the few marks of reStructuredText that Markdown has not are taken out.

An extension of griffe, which ``mkdocs.yml`` names; it runs where the docs are built and nowhere else.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

#: ``:class:`Name```, and with a tilde or a path before the name.
ROLE = re.compile(r":(?:class|data|func|meth|attr|mod|exc):`~?([^`]+)`")
#: A line of two colons: what follows is code by its indent, in Markdown too.
LITERAL = re.compile(r"^[ \t]*::[ \t]*$", re.MULTILINE)


class Marks(Extension):  # type: ignore[misc]
    """Brings every docstring into Markdown before it is taken apart."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by griffe for each object that it has found."""
        if obj.docstring is not None:
            obj.docstring.value = LITERAL.sub("", ROLE.sub(r"`\1`", obj.docstring.value))
