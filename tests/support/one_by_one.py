# SPDX-License-Identifier: Apache-2.0
"""Many writes of a lease store as so many single ones, for stores of tests that let something happen at a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardbatch.core.rows import Row


class OneByOne:
    """The batched writes of the port, over ``create`` and ``replace`` of the class that inherits this."""

    create: Any
    replace: Any

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        return [bool(self.create(row)) for row in rows]

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        return [bool(self.replace(seen, new)) for seen, new in changes]
