# SPDX-License-Identifier: Apache-2.0
"""Reading a root while others write to it, sum it up and sweep it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbatch.core.sums import GUARD, GUARD_TEXT, Entry, Sum, Token, Told
from shardbatch.core.views import Wanted, changes
from shardbatch.errors import StagingError, UnsupportedSchema
from shardbatch.landing import layout
from shardbatch.landing.location import joined
from shardbatch.landing.markers import TRIES, sums_folder, told
from tests.support.markers import highest_markers
from tests.support.roots import ROOT, MemoryRoot, decision

MARKERS = joined(ROOT, layout.MARKERS)


def held(found: Told) -> dict[str, int]:
    return {batch_id: entry.decision.decided for batch_id, entry in found.entries.items()}


def test_an_empty_root_tells_nothing() -> None:
    assert told(MemoryRoot(), ROOT) == Told({})


def test_one_sum_and_the_markers_that_it_lacks_are_read_and_no_more() -> None:
    root = MemoryRoot()
    for n in range(200):
        root.mark(decision(f"b-{n}"))
    root.put_sum(1, "a", [Entry(decision(f"b-{n}"), 1) for n in range(100)])
    second = root.put_sum(2, "b", [Entry(decision(f"b-{n}"), 1 if n < 100 else 2) for n in range(190)], ["1-a.json"])

    found = told(root, ROOT)

    assert held(found) == {f"b-{n}": 1 for n in range(200)}
    assert sorted(root.read) == sorted([second, *(f"b-{n}.1.json" for n in range(190, 200))])
    assert (found.number, found.sums) == (2, ("1-a.json", "2-b.json"))
    assert {b for b, e in found.entries.items() if e.taken == 1} == {f"b-{n}" for n in range(100)}


def test_two_sums_of_one_number_are_both_read() -> None:
    root = MemoryRoot()
    root.put_sum(1, "a", [Entry(decision("a", 2), 1), Entry(decision("b"), 1)])
    root.put_sum(1, "b", [Entry(decision("a", 1), 1), Entry(decision("c"), 1)])

    assert held(told(root, ROOT)) == {"a": 2, "b": 1, "c": 1}


def test_a_marker_above_its_sum_counts_and_one_below_is_not_read() -> None:
    root = MemoryRoot()
    root.put_sum(1, "a", [Entry(decision("a", 2), 1)])
    for decided in (1, 2, 3, 10):
        root.mark(decision("a", decided))

    assert held(told(root, ROOT)) == {"a": 10}
    assert root.read == ["1-a.json", "a.10.json"]


def test_old_markers_are_read_and_the_guard_is_passed_over() -> None:
    root = MemoryRoot()
    old = {"batch_id": "a", "decided": 1, "folders": ["x"], "starts": [{"start_id": "s", "attempt": 1, "work": ""}]}
    root.files[joined(MARKERS, "a.1.json")] = json.dumps(old).encode()
    root.files[joined(MARKERS, GUARD)] = GUARD_TEXT.encode()

    (entry,) = told(root, ROOT).entries.values()

    assert (entry.decision.starts, entry.decision.app, entry.decision.interval) == ((("s", 1),), "", None)
    assert highest_markers([GUARD]), "an older reader takes it for a marker"
    assert "folders" not in json.loads(GUARD_TEXT), "and fails"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"batch_id": "b", "decided": 1, "starts": []}'])
def test_a_damaged_marker_is_named(content: bytes) -> None:
    root = MemoryRoot()
    root.files[joined(MARKERS, "a.1.json")] = content

    with pytest.raises(StagingError, match=r"a\.1\.json is not a committed marker"):
        told(root, ROOT)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 2}', b'{"version":2,"read":[],"apps":[],"roots":[]}'])
def test_a_damaged_sum_is_named_and_not_passed_over(content: bytes) -> None:
    root = MemoryRoot()
    root.files[joined(sums_folder(ROOT), "1-a.json")] = content

    with pytest.raises(StagingError, match=r"1-a\.json is not a sum"):
        told(root, ROOT)


def test_a_sum_of_a_later_version_is_refused() -> None:
    root = MemoryRoot()
    root.files[joined(sums_folder(ROOT), "1-a.json")] = b'{"version": 3}'

    with pytest.raises(UnsupportedSchema):
        told(root, ROOT)


def test_what_was_swept_between_listing_and_reading_is_found_in_the_sum() -> None:
    root = MemoryRoot()
    path = root.mark(decision("a"))
    reads = root.contents

    def swept(folder: str, names: list[str]) -> dict[str, bytes]:
        if path in root.files:
            root.put_sum(1, "a", [Entry(decision("a"), 1)])
            del root.files[path]
        return reads(folder, names)

    root.contents = swept  # type: ignore[method-assign, assignment]

    assert held(told(root, ROOT)) == {"a": 1}


def test_a_marker_that_can_never_be_read_is_no_batch_less() -> None:
    root = MemoryRoot()
    root.mark(decision("a"))
    root.contents = lambda folder, names: {}  # type: ignore[method-assign, assignment]

    with pytest.raises(StagingError, match="gone"):
        told(root, ROOT)


def test_a_listing_that_never_rests_is_no_ground_for_a_token() -> None:
    root = MemoryRoot()
    names = root.names

    def restless(folder: str) -> list[str]:
        root.mark(decision(f"b-{root.listings}"))
        return names(folder)

    root.names = restless  # type: ignore[method-assign]

    assert told(root, ROOT).agreed is False
    assert root.listings == 2 * TRIES


def test_a_root_that_tells_less_than_the_token_is_listed_again_and_then_refused() -> None:
    root = MemoryRoot()
    token = Token(0, frozenset({("a", 1)}))
    with pytest.raises(StagingError, match="less than"):
        told(root, ROOT, at_least=token)

    names = root.names

    def late(folder: str) -> list[str]:
        if root.listings == 6:
            root.mark(decision("a"))
        return names(folder)

    root.names, root.listings = late, 0  # type: ignore[method-assign]
    assert held(told(root, ROOT, at_least=token)) == {"a": 1}


def summed(root: MemoryRoot, found: Told, unique: str) -> None:
    number = found.number + 1
    entries = [Entry(e.decision, e.taken or number) for e in found.entries.values()]
    root.put_sum(number, unique, entries, found.sums)


def swept(root: MemoryRoot, at: int) -> None:
    """Remove what the sum at this place covers, as if it were older than the grace."""
    sums = sorted(path for path in root.files if path.startswith(sums_folder(ROOT)))
    if not sums:
        return
    one = Sum.loads(10**6, root.files[sums[at % len(sums)]])
    covers = {layout.marker_name(e.decision.batch_id, d) for e in one.entries for d in range(e.decision.decided + 1)}
    for path in [*(joined(MARKERS, name) for name in covers), *(joined(sums_folder(ROOT), name) for name in one.read)]:
        root.files.pop(path, None)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_readers_see_no_older_decision_than_before_and_each_once_while_others_sum_and_sweep(
    data: st.DataObject,
) -> None:
    root = MemoryRoot()
    truth: dict[str, int] = {}
    waiting = dict.fromkeys("abcd", 1)
    pending: list[tuple[Told, str]] = []
    busy, count = [False], [0]

    def others() -> None:
        if busy[0]:
            return
        busy[0] = True
        for _ in range(data.draw(st.integers(0, 2))):
            count[0] += 1
            if count[0] > 40:
                break
            kind = data.draw(st.sampled_from(["mark", "mark", "load", "sum", "sweep"]))
            if kind == "mark":
                batch_id = data.draw(st.sampled_from(sorted(waiting)))
                root.mark(decision(batch_id, waiting[batch_id]))
                truth[batch_id] = waiting[batch_id]
                waiting[batch_id] += 1
            elif kind == "load":
                pending.append((told(root, ROOT), f"s{count[0]}"))
            elif kind == "sum" and pending:
                found, unique = pending.pop(0)  # written long after it looked
                if found.agreed:
                    summed(root, found, unique)
            elif kind == "sweep":
                swept(root, count[0])
        busy[0] = False

    root.between = others
    before: dict[str, int] = {}
    token, got = None, set()
    for _ in range(4):
        least = dict(truth)
        found = told(root, ROOT, at_least=token)
        if not found.agreed:
            continue
        now = held(found)
        assert all(now.get(b, 0) >= d for b, d in {**before, **least}.items())
        new = {(one.batch_id, one.decided) for one in changes(found, Wanted(), token).shown}
        assert not new & got
        got |= new
        assert all((b, d) in got for b, d in now.items())
        before, token = now, found.token
