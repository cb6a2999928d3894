# SPDX-License-Identifier: Apache-2.0
"""Whose a root is, in every order of steps: what holds, and the shortest way in which simpler rules break."""

from __future__ import annotations

from tests.unit.models.root_owners import first_owner, handed_over


def own(process: str) -> str:
    return process


def application(process: str) -> str:
    return process[0]


def test_with_a_claim_for_each_try_at_most_one_application_decides() -> None:
    assert first_owner(("A1", "A2", "B1", "B2"), claim_of=own)[1] == ""


def test_with_one_claim_for_an_application_a_try_takes_away_that_of_another() -> None:
    assert first_owner(("A1", "B1"), claim_of=application)[1] == ""
    assert first_owner(("A1", "A2", "B1"), claim_of=application)[1].endswith("both decide")


def test_a_claim_that_is_removed_after_success_is_missed_together_with_the_owner() -> None:
    assert first_owner(("A1", "B1"), claim_of=own, tidy=True)[1].endswith("both decide")


def test_a_handover_that_claims_before_it_looks_at_rows_holds() -> None:
    assert handed_over(("A", "A", "B"), ("B1",))[1] == ""
    assert handed_over(("A", "B", "C"), ("B1", "C1"))[1] == ""


def test_a_handover_that_looks_at_rows_first_misses_a_commit_that_looks_meanwhile() -> None:
    assert handed_over(("A",), ("B1",), claim_first=False)[1] != ""


def test_the_rows_of_all_that_have_or_claim_the_root_are_looked_at() -> None:
    assert handed_over(("A", "B"), ("B1", "C1"), all_rows=False)[1] != ""
