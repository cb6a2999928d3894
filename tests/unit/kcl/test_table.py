# SPDX-License-Identifier: Apache-2.0
"""Items of lease tables as KCL 1, 2 and 3 write them."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.core.shard import KeyRange
from shardbatch.errors import ConfigurationError
from shardbatch.kcl.lease import KclStream
from shardbatch.kcl.table import lease_of
from tests.support.kcl import item_1, item_2, item_3, item_of_many

SHARD = "shardId-000000000003"
NUMBER = "49606519059088154242424702813598998791816825219170959362"


def test_a_row_of_kcl_1() -> None:  # K-25
    found = lease_of(item_1(SHARD, NUMBER, owner="w1", counter=41, parents=("shardId-000000000001",)))
    assert found is not None
    assert (found.key, found.shard_id, found.counter, found.owner) == (SHARD, SHARD, 41, "w1")
    assert (found.checkpoint, found.sub_sequence_number, found.prepared) == (NUMBER, 0, None)
    assert (found.parent_shard_ids, found.child_shard_ids, found.hash_range) == (("shardId-000000000001",), (), None)


def test_a_row_of_kcl_2_has_hash_range_children_and_a_prepared_checkpoint() -> None:  # K-25, K-46
    given = item_2(SHARD, "13", sub=4, children=("b", "a"), hash_range=(0, 2**127 - 1), prepared=("127", 0))
    found = lease_of(given)
    assert found is not None
    assert (found.owner, found.sub_sequence_number, found.prepared) == (None, 4, "127")
    assert (found.child_shard_ids, found.hash_range) == (("a", "b"), KeyRange(0, 2**127 - 1))


def test_a_row_of_kcl_3_that_is_being_handed_over() -> None:  # K-31, R46
    found = lease_of(item_3(SHARD, "SHARD_END", owner="new", checkpoint_owner="old", throughput=12.5))
    assert found is not None
    assert (found.owner, found.checkpoint) == ("new", "SHARD_END")


def test_a_row_of_one_of_several_streams() -> None:  # K-25
    found = lease_of(item_of_many("123456789012", "orders", 1_700_000_000, SHARD, "TRIM_HORIZON"))
    assert found is not None
    assert (found.stream, found.shard_id) == (KclStream("123456789012", "orders", 1_700_000_000), SHARD)
    assert found.key == f"123456789012:orders:1700000000:{SHARD}"


def test_a_number_where_the_state_of_a_prepared_checkpoint_belongs_does_no_harm() -> None:  # K-27
    given = {**item_2(SHARD, "13", prepared=("127", 3)), "pendingCheckpointState": {"N": "0"}}
    found = lease_of(given)
    assert found is not None
    assert found.prepared == "127/3"


@pytest.mark.parametrize("kind", ["WORKER_METRICS", "LEADER", "SOMETHING_LATER"])
def test_what_is_no_lease_is_passed_over(kind: str) -> None:
    assert lease_of({"leaseKey": {"S": "x"}, "entityType": {"S": kind}}) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda item: item.pop("leaseKey"),
        lambda item: item.pop("leaseCounter"),
        lambda item: item.pop("checkpoint"),
        lambda item: item.update(leaseCounter={"N": "many"}),
        lambda item: item.update(leaseKey={"S": "a:b"}),
        lambda item: item.update(leaseKey={"S": "a:b:soon:c"}),
        lambda item: item.update(startingHashKey={"S": "9"}, endingHashKey={"S": "3"}),
    ],
)
def test_what_kcl_does_not_write_is_refused(spoil: Any) -> None:
    item = item_1(SHARD, NUMBER)
    spoil(item)
    with pytest.raises(ConfigurationError, match="no lease of KCL"):
        lease_of(item)
