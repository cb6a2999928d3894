# SPDX-License-Identifier: Apache-2.0
"""What ended a read: a word for machines, and a clause for the log that ends "..., read"."""

from __future__ import annotations

import json

import pytest

from shardbatch.core.stop import Stop


@pytest.mark.parametrize("stop", Stop)
def test_a_machine_reads_the_word_and_a_person_the_clause(stop: Stop) -> None:
    assert json.dumps(stop) == f'"{stop.value}"'
    assert str(stop).startswith(("to the ", "until "))
    assert f"{stop}" == str(stop)


def test_no_two_ends_are_told_alike() -> None:
    assert len({str(stop) for stop in Stop}) == len(Stop)
