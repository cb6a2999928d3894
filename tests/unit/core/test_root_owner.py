# SPDX-License-Identifier: Apache-2.0
"""Who is kept from an output root, by what the owners folder says."""

from __future__ import annotations

import pytest

from shardbatch.core.root_owner import (
    Holder,
    claimed_epoch,
    has_it,
    holders_of,
    other_application,
    rival,
    top_epoch,
)

A, B = "a/s", "b/s"


def owner(app: str, epoch: int = 1, *, shared: bool = False) -> Holder:
    return Holder(app, epoch, shared, owns=True)


def claim(app: str, epoch: int = 1, *, shared: bool = False) -> Holder:
    return Holder(app, epoch, shared, owns=False)


def test_what_is_written_reads_back() -> None:
    written = [owner(A, 3, shared=True), claim(B, 4)]
    files = {holder.name("x", "7f"): holder.dumps() for holder in written}
    assert sorted(files) == ["x.3-shared.owner.json", "x.7f.claim.json"]
    assert set(holders_of(files)) == set(written)


def test_other_names_and_hidden_ones_are_passed_over_and_damaged_ones_are_named() -> None:
    assert holders_of({"notes.json": b"{", ".x.claim.json.1.tmp": b"{", ".x.claim.json": b"{"}) == ()
    for content in (
        b"{",
        b"[]",
        b"{}",
        b'{"app": "a/s"}',
        b'{"app": "a/s", "epoch": "x"}',
        b'{"app": "a", "epoch": 1}',
    ):
        with pytest.raises(ValueError, match=r"x\.claim\.json"):
            holders_of({"x.claim.json": content})


@pytest.mark.parametrize(
    ("known", "shared", "other"),
    [
        ([], False, None),
        ([owner(A)], False, None),
        ([owner(B)], False, B),
        ([owner(B)], True, B),
        ([owner(B, shared=True)], False, B),
        ([owner(B, shared=True)], True, None),
        ([owner(A, 2), owner(B, 1)], False, None),  # handed over long ago
        ([owner(A, 1), owner(B, 2)], False, B),
        ([owner(A, 1), claim(B, 1)], False, None),  # an owner does not mind the claims of its time
        ([owner(A, 1), claim(B, 2)], False, B),  # it is being handed over
        ([owner(A, 2), claim(B, 2)], False, None),
        ([claim(B, 1)], False, B),
        ([claim(A, 1)], False, None),
        ([owner(A, 1, shared=True), owner(B, 1, shared=True)], True, None),
        ([owner(A, 1, shared=True), owner(B, 1, shared=True)], False, B),
        ([owner(A, 2), owner(B, 2)], False, B),
    ],
)
def test_who_keeps_an_application_from_a_root(known: list[Holder], shared: bool, other: str | None) -> None:
    assert other_application(known, A, shared=shared) == other


def test_an_owner_claims_again_only_if_it_means_something_else() -> None:
    known = [owner(A, 2), owner(B, 1)]
    assert has_it(known, A, shared=False)
    assert not has_it(known, A, shared=True)
    assert not has_it(known, B, shared=False)
    assert claimed_epoch(known, A, shared=True) == 3
    assert claimed_epoch([], A, shared=False) == 1
    assert claimed_epoch([owner(B, 4, shared=True)], A, shared=True) == 4
    assert top_epoch([claim(A, 7)]) == 0


def test_after_a_claim_only_what_is_not_older_counts() -> None:
    assert rival([claim(B, 1), claim(A, 1)], A, shared=False, since=0) == B
    assert rival([claim(B, 1, shared=True)], A, shared=True, since=0) is None
    assert rival([claim(B, 1)], A, shared=False, since=2) is None
    assert rival([owner(B, 2)], A, shared=False, since=2) == B
    assert rival([claim(B, 2, shared=True)], A, shared=False, since=2) == B
