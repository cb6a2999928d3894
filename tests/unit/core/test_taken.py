# SPDX-License-Identifier: Apache-2.0
"""What becomes of shards of which another library kept nothing, or never began anything."""

from __future__ import annotations

import pytest

from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Lines, Taken, reached, unseen, youngest_first

#: 1 rolls into 2, which splits into 3 and 4; 5 stands alone.
SHARDS = {
    shard.shard_id: shard
    for shard in (
        *(Shard("1", closed=True), Shard("2", ("1",), closed=True), Shard("3", ("2",)), Shard("4", ("2",))),
        Shard("5"),
    )
}


def test_children_come_before_their_parents() -> None:
    assert youngest_first(SHARDS) == ["3", "4", "2", "1", "5"]
    with pytest.raises(ValueError, match="circle"):
        youngest_first({"a": Shard("a", ("b",)), "b": Shard("b", ("a",))})


@pytest.mark.parametrize(
    ("kept", "unfinished", "passed"),
    [
        ({"3"}, {"3"}, "1 2"),
        ({"1", "3"}, {"1", "3"}, ""),  # 2 stands between one that is not read to its end and what descends from it
        ({"1", "3"}, {"3"}, "2"),
        ({"2"}, {"2"}, "1"),
        (set(), set(), ""),
    ],
)
def test_what_was_not_kept_is_read_unless_only_its_descendants_were(
    kept: set[str], unfinished: set[str], passed: str
) -> None:
    lines = Lines(SHARDS, kept, unfinished)
    found = {name: lines.unkept(SHARDS[name], passed="p", fresh="f") for name in SHARDS if name not in kept}
    for name, taken in found.items():
        assert (taken.position, taken.meaning) == ((SHARD_END, "p") if name in passed.split() else (TRIM_HORIZON, "f"))


def test_only_what_was_never_begun_and_lost_all_its_known_parents_may_have_lost_records() -> None:
    child = Taken(Shard("b", ("a",)), TRIM_HORIZON, "begins")
    assert unseen(child, {"a"}, {"b"})
    assert not unseen(child, set(), {"b"})  # its parent was gone before anything was kept
    assert not unseen(child, {"a"}, {"a", "b"})
    assert not unseen(child, {"a"}, set())  # it is a gap anyway
    assert not unseen(Taken(Shard("b", ("a",)), after("5"), ""), {"a"}, {"b"})
    assert not unseen(Taken(Shard("b", ("a",)), TRIM_HORIZON, "", refused="why"), {"a"}, {"b"})
    assert child.marked_unseen().unseen
    assert "becomes a gap" in child.marked_unseen().meaning


def test_what_edges_lead_to_is_found_once_also_in_a_circle() -> None:
    assert reached(["a"], {"a": ["b"], "b": ["c", "a"]}) == {"a", "b", "c"}
