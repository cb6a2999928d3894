# SPDX-License-Identifier: Apache-2.0
"""Which starts a commit records (PROTOCOL I): the rule holds in random walks, and breaks when any part is left out."""

from __future__ import annotations

import pytest

from tests.unit.models.starts import ABLATED, KEPT, explore


def test_readers_see_whole_decisions_and_never_an_older_one() -> None:
    walks, steps, broken = explore(KEPT, 300, 7)
    assert (walks, broken) == (300, [])
    assert steps > 5_000


@pytest.mark.parametrize("name", ABLATED)
def test_each_part_of_the_rule_is_needed(name: str) -> None:
    assert explore(ABLATED[name], 3_000, 1, enough=1)[2]
