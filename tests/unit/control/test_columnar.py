# SPDX-License-Identifier: Apache-2.0
"""Values as columns."""

from __future__ import annotations

from shardbatch.control.columnar import columnar
from shardbatch.core.shard import KeyRange


def test_each_value_is_a_row_of_the_named_attributes_in_their_order() -> None:
    found = columnar(("end", "start", "size"), [KeyRange(1, 4), KeyRange(5, 5)])
    assert found == {"columns": ["end", "start", "size"], "rows": [[4, 1, 4], [5, 5, 1]]}
    assert columnar(("start",), []) == {"columns": ["start"], "rows": []}
