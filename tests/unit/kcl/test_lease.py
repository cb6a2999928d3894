# SPDX-License-Identifier: Apache-2.0
"""What becomes of shards that KCL has read in part: never a record lost, none read again that KCL had done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.errors import ConfigurationError
from shardbatch.kcl.lease import KclLease, KclStream, Taken, of_stream, plan_import

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders@1700000000123"


def lease(shard_id: str, checkpoint: str = "500", **more: Any) -> KclLease:
    return KclLease(shard_id, shard_id, 1, checkpoint, **more)


def shards(text: str) -> list[Shard]:
    """``7(2,3)`` is a shard with its parents; one with a child is closed."""
    found: dict[str, tuple[str, ...]] = {}
    for word in text.split():
        name, _, parents = word.rstrip(")").partition("(")
        found[name] = tuple(parents.split(",")) if parents else ()
    closed = {parent for parents in found.values() for parent in parents}
    return [Shard(name, parents, closed=name in closed) for name, parents in found.items()]


#: The graphs of KCL's own tests (KV-5).
GRAPHS = {
    "A": "0 1 2 3 4 5 6(0,1) 7(2,3) 8(6,7) 9(5) 10(5)",
    "B": "0 1 2(0,1) 3(2) 4(2) 5(3,4) 6(5) 7(5) 8(6,7) 9(8) 10(8)",
    "C": "0 1 2 3 4(0) 5(0) 6(2,3) 7(4) 8(4) 9(5) 10(5)",
}


def taken(found: list[Taken]) -> dict[str, str]:
    return {each.shard.shard_id: str(each.position) for each in found}


@pytest.mark.parametrize(
    ("graph", "held", "completed"),
    [
        ("A", "3,4,5", ""),
        ("A", "4,5,7", "2,3"),
        ("A", "2,6", "0,1"),
        ("A", "4,9,10", "5"),
        ("A", "8,9,10", "0,1,2,3,5,6,7"),
        ("A", "0,1,4,7,9,10", "2,3,5"),
        ("B", "6", "0,1,2,3,4,5"),
        ("B", "0,1,2,3,4,5", ""),
        ("B", "9,10", "0,1,2,3,4,5,6,7,8"),
        ("C", "9,10", "0,5"),
    ],
)
def test_what_kcl_has_no_lease_of_is_read_unless_it_has_gone_beyond_it(graph: str, held: str, completed: str) -> None:
    """KV-5, K-38: KCL deletes leases of shards once their children have begun, and makes those of children late."""
    found = taken(plan_import([lease(name) for name in held.split(",")], shards(GRAPHS[graph]), None))
    expected = dict.fromkeys(found, "TRIM_HORIZON")
    expected.update(dict.fromkeys(held.split(","), "500"))
    expected.update(dict.fromkeys(filter(None, completed.split(",")), "SHARD_END"))
    assert found == expected


def test_a_shard_between_one_that_kcl_has_yet_to_end_and_its_descendant_is_read() -> None:
    line = shards("0 1(0) 2(1)")
    assert taken(plan_import([lease("0"), lease("2")], line, None))["1"] == "TRIM_HORIZON"
    assert taken(plan_import([lease("0", "SHARD_END"), lease("2")], line, None))["1"] == "SHARD_END"


def test_children_of_a_shard_that_kcl_has_ended_begin_at_their_oldest_record() -> None:  # K-37
    found = taken(plan_import([lease("0", "SHARD_END")], shards("0 1(0) 2(0) 3(1)"), None))
    assert found == {"0": "SHARD_END", "1": "TRIM_HORIZON", "2": "TRIM_HORIZON", "3": "TRIM_HORIZON"}


def test_children_come_before_their_parents() -> None:
    order = list(taken(plan_import([lease("0")], shards("0 1(0) 2(0) 3(1,2)"), None)))
    assert order == ["3", "1", "2", "0"]


@pytest.mark.parametrize(
    ("checkpoint", "sub", "position"),
    [
        ("49590", 0, after("49590")),
        ("49590", 7, after("49590", 7)),  # K-42: the rest of an aggregate is still to come
        ("TRIM_HORIZON", 0, TRIM_HORIZON),
        ("SHARD_END", 0, SHARD_END),
        ("LATEST", 0, at_timestamp(9)),
        ("AT_TIMESTAMP", 0, at_timestamp(9)),
    ],
)
def test_a_checkpoint_becomes_the_place_that_kcl_means(checkpoint: str, sub: int, position: Position) -> None:
    given = lease("s", checkpoint, sub_sequence_number=sub)
    assert given.position(at_timestamp(9)) == position


@pytest.mark.parametrize("checkpoint", ["LATEST", "AT_TIMESTAMP"])
def test_a_place_of_which_kcl_keeps_no_instant_is_refused_until_one_is_given(checkpoint: str) -> None:
    (found,) = plan_import([lease("0", checkpoint)], shards("0"), None)
    assert f"KCL has {checkpoint} and no instant" in found.refused
    (found,) = plan_import([lease("0", checkpoint)], shards("0"), TRIM_HORIZON)
    assert (found.refused, found.position) == ("", TRIM_HORIZON)


def test_what_is_no_checkpoint_is_refused() -> None:
    (found,) = plan_import([lease("0", "soon")], shards("0"), None)
    assert "decimal digits" in found.refused
    (found,) = plan_import([lease("0", "5", sub_sequence_number=-1)], shards("0"), None)
    assert "zero or more" in found.refused


def test_what_was_prepared_and_not_committed_is_read_again_and_said() -> None:  # K-46, KV-9
    (found,) = plan_import([lease("0", "13", prepared="127/3")], shards("0"), None)
    assert found.position == after("13")
    assert "prepared 127/3" in found.meaning


def test_leases_of_another_stream_of_the_same_name_are_refused() -> None:  # R49
    young = [replace(shards("0")[0], starting_sequence_number="1000")]
    (found,) = plan_import([lease("0", "999")], young, None)
    assert "another stream" in found.refused
    (found,) = plan_import([lease("0", "1000")], young, None)
    assert found.refused == ""
    (found,) = plan_import([lease("0", "SHARD_END")], young, None)
    assert "open" in found.refused
    with pytest.raises(ConfigurationError, match="No shard of the KCL leases"):
        plan_import([lease("7")], young, None)


def test_a_shard_that_left_the_listing_keeps_its_place_and_its_lineage() -> None:  # R102
    held = [
        lease("0", "SHARD_END", child_shard_ids=("1",)),
        lease("x", "77", parent_shard_ids=("0",), hash_range=KeyRange(0, 9)),
        lease("1"),
    ]
    found = {each.shard.shard_id: each for each in plan_import(held, [Shard("1"), Shard("2", ("x",))], None)}
    assert {name: str(each.position) for name, each in found.items()} == {
        "0": "SHARD_END",
        "x": "77",
        "1": "500",
        "2": "TRIM_HORIZON",
    }
    assert "becomes a gap" in found["x"].meaning
    assert (found["x"].shard.parent_shard_ids, found["x"].shard.hash_range) == (("0",), KeyRange(0, 9))
    assert found["1"].shard.parent_shard_ids == ("0",)


def multi(
    shard_id: str, created_s: int = 1_700_000_000, account: str = "123456789012", name: str = "orders"
) -> KclLease:
    key = f"{account}:{name}:{created_s}:{shard_id}"
    return KclLease(key, shard_id, 1, "5", stream=KclStream(account, name, created_s))


def test_of_a_table_for_several_streams_only_the_leases_of_this_one_count() -> None:  # K-25
    table = [multi("0"), multi("1", name="others"), multi("2", account="210987654321"), multi("3", created_s=5)]
    assert [each.shard_id for each in of_stream(table, ARN)] == ["0"]
    assert [each.shard_id for each in of_stream([multi("0", created_s=5)], ARN.partition("@")[0] + "@unknown")] == ["0"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "no leases of the stream"),
        ([multi("0", name="others")], "no leases of the stream"),
        ([multi("0", created_s=5)], "created 5 s after the epoch"),
        ([multi("0"), lease("0")], "two leases of 0"),
    ],
)
def test_a_table_that_does_not_fit_the_stream_is_refused(table: list[KclLease], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        of_stream(table, ARN)
