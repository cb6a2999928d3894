# SPDX-License-Identifier: Apache-2.0
"""The rules of a batch's asset event (PROTOCOL N), each of which is needed."""

from __future__ import annotations

import pytest

from tests.unit.models.events import RULES, broken


def test_with_all_rules_a_batch_has_one_event_once_a_commit_of_its_owner_ended_well() -> None:
    assert broken() is None


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_an_event_is_lost_or_comes_twice(rule: str) -> None:
    assert broken(rule) is not None
