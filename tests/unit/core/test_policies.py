# SPDX-License-Identifier: Apache-2.0
"""Policies: each choice is taken as a word too, and what is not known, or out of its range, is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardbatch.core.policies import ClaimOptions, GapPolicy, Intervals, Outputs, Policies, ShardErrors, Sink
from shardbatch.errors import ConfigurationError


@pytest.mark.parametrize(
    "wrong",
    [{"max_shards": 0}, {"read_tasks": 0}, {"read_tasks": 1001}, {"stuck_after": timedelta(0)}, {"lease_duration": 5}],
)
def test_claim_options_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="ClaimOptions"):
        ClaimOptions(**wrong)  # type: ignore[arg-type]


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="'fail' or 'record'"):
        Policies(gap="skip")  # type: ignore[arg-type]
    assert Policies(gap="record").gap is GapPolicy.RECORD  # type: ignore[arg-type]


def test_a_word_is_the_choice_that_it_names() -> None:
    chosen = Policies("record", "fail", "own", 3)  # type: ignore[arg-type]
    assert chosen == Policies(GapPolicy.RECORD, ShardErrors.FAIL, Sink.OWN, 3)
    assert Outputs(intervals="join") == Outputs(intervals=Intervals.JOIN)  # type: ignore[arg-type]
    assert [Outputs(intervals=each).joins for each in Intervals] == [False, True]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"shard_errors": "skip"}, "'isolate' or 'fail'"),
        ({"sink": "s3"}, "'starts' or 'own'"),
        ({"max_attempts": 0}, "1 or more"),
    ],
)
def test_a_policy_that_is_not_known_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Policies(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'apart' or 'join'"):
        Outputs(intervals="live")  # type: ignore[arg-type]
