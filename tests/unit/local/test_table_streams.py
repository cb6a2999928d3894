# SPDX-License-Identifier: Apache-2.0
"""The stream of a table: lineage, listings, places, trims, ends, limits, and steering."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.local.failure import ServiceError
from tests.unit.local.caller import NOW, Json, RefusedError
from tests.unit.local.table_caller import BOTH, TableCaller, key_of, names, numbers, sequence

HOUR = 3_600
DAY = 24 * HOUR


def shape(caller: TableCaller, **fields: Any) -> dict[str, tuple[str | None, bool]]:
    """Parent of each listed shard, and whether it is open."""
    return {
        shard["ShardId"]: (shard.get("ParentShardId"), "EndingSequenceNumber" not in shard["SequenceNumberRange"])
        for shard in caller.describe(**fields)["Shards"]
    }


# lineage


def test_a_roll_closes_a_shard_and_gives_it_one_child() -> None:
    caller = TableCaller()
    (parent,) = caller.listed()
    caller.fill(1, 2)
    (child,) = caller.tables.roll("orders")
    caller.fill(3)
    assert shape(caller) == {parent: (None, False), child: (parent, True)}
    assert (numbers(caller.changes(parent)), numbers(caller.changes(child))) == ([1, 2], [3])


def test_a_split_gives_two_children_and_a_key_stays_in_its_line() -> None:
    caller = TableCaller(shards=2)
    caller.tables.split("orders")
    caller.tables.roll("orders")
    keys = [f"key-{number}" for number in range(40)]
    for round_of in range(2):
        for key in keys:
            caller.put_item(key, n={"N": str(round_of)})
        caller.tables.roll("orders")
    parents = {shard: parent for shard, (parent, _) in shape(caller).items()}
    held: dict[str, list[str]] = {key: [] for key in keys}
    for shard in parents:
        for record in caller.changes(shard):
            held[record["dynamodb"]["Keys"]["id"]["S"]].append(shard)
    assert all(parents[second] == first for first, second in held.values())
    assert len({first for first, _ in held.values()}) == 4


def test_one_shard_alone_can_be_rolled_or_split() -> None:
    caller = TableCaller(shards=2)
    first, second = caller.listed()
    children = caller.tables.split("orders", second)
    assert shape(caller) == {first: (None, True), second: (None, False), **dict.fromkeys(children, (second, True))}
    with pytest.raises(ServiceError, match="is closed"):
        caller.tables.roll("orders", second)
    with pytest.raises(ServiceError, match="does not exist"):
        caller.tables.roll("orders", "missing")


def test_shards_roll_by_themselves_when_they_are_old_enough() -> None:
    caller = TableCaller(roll_seconds=4 * HOUR)
    caller.fill(1)
    caller.clock.advance(13 * HOUR)
    caller.fill(2)
    shards = caller.listed()
    assert len(shards) == 4
    assert [len(caller.changes(shard)) for shard in shards] == [1, 0, 0, 1]
    caller.clock.advance(15 * HOUR)
    shown = shape(caller)
    # What closed at 4 hours is gone at 28; its child goes on naming it.
    assert len(shown) == 7
    assert next(iter(shown.values())) == (shards[0], False)


def test_ids_and_sequence_numbers_have_the_forms_of_the_service() -> None:
    caller = TableCaller()
    caller.fill(*range(12))
    shards = [*caller.listed(), *caller.tables.roll("orders"), *caller.tables.split("orders")]
    assert shards == sorted(shards)
    assert {len(shard) for shard in shards} == {37}
    texts = [sequence(record) for record in caller.changes(shards[0])]
    assert {len(text) for text in texts} == {21, 22}
    assert [int(text) for text in texts] == sorted(map(int, texts))
    assert texts != sorted(texts)
    ranges = [shard["SequenceNumberRange"] for shard in caller.describe()["Shards"]]
    assert ranges[0]["EndingSequenceNumber"] == texts[-1]
    assert int(ranges[0]["StartingSequenceNumber"]) < int(texts[0])
    assert ranges[1]["StartingSequenceNumber"] == ranges[1]["EndingSequenceNumber"]
    starts = [int(item["StartingSequenceNumber"]) for item in ranges]
    assert int(texts[-1]) < starts[1] < min(starts[2:])


# listings


def test_a_listing_has_pages_of_a_hundred() -> None:
    caller = TableCaller(shards=40)
    for _ in range(4):
        caller.tables.roll("orders")
    page = caller.describe()
    assert len(page["Shards"]) == 100
    assert page["LastEvaluatedShardId"] == page["Shards"][-1]["ShardId"]
    found = caller.all_listed()
    assert (len(found), found) == (200, sorted(set(found)))
    assert caller.all_listed(Limit=7) == found
    caller.options.page_size = 3
    assert caller.all_listed() == found
    assert [call.shards for call in caller.calls.list("DescribeStream")][-2:] == [3, 2]


def test_a_full_page_has_a_cursor_even_if_nothing_comes_after_it() -> None:
    caller = TableCaller(shards=2)
    page = caller.describe(Limit=2)
    assert page["LastEvaluatedShardId"] == page["Shards"][1]["ShardId"]
    last = caller.describe(ExclusiveStartShardId=page["LastEvaluatedShardId"])
    assert (last["Shards"], "LastEvaluatedShardId" in last) == ([], False)


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_pages_can_repeat_shards_and_come_to_an_end(limit: int) -> None:
    caller = TableCaller(shards=6, repeated_shards=2)
    found = caller.all_listed(Limit=limit)
    assert sorted(set(found)) == caller.listed()
    assert (len(found) > 6) == (1 < limit < 10)


def test_a_filter_shows_the_children_of_one_shard() -> None:
    caller = TableCaller(shards=2)
    first, _ = caller.listed()
    children = caller.tables.split("orders", first)
    caller.tables.roll("orders")
    wanted = {"Type": "CHILD_SHARDS", "ShardId": first}
    assert caller.listed(ShardFilter=wanted) == children
    assert caller.listed(ShardFilter={**wanted, "ShardId": "shardId-00000000000000000000-00000000"}) == []
    assert caller.all_listed(ShardFilter=wanted, Limit=1) == children
    caller.options.child_filter = False
    assert len(caller.listed(ShardFilter=wanted)) == 7
    for bad in ({"Type": "CHILD_SHARDS"}, {"ShardId": first}, {"Type": "X", "ShardId": first}):
        assert caller.refused("DescribeStream", StreamArn=caller.arn, ShardFilter=bad) == "ValidationException"


def test_a_child_can_appear_after_so_many_listings() -> None:
    caller = TableCaller(child_listings=2)
    (parent,) = caller.listed()
    (child,) = caller.tables.roll("orders")
    wanted = {"Type": "CHILD_SHARDS", "ShardId": parent}
    assert caller.listed() == [parent]
    assert caller.listed(ShardFilter=wanted) == []
    assert caller.listed(ShardFilter=wanted) == [child]


def test_a_child_can_appear_after_so_many_seconds_and_takes_records_before() -> None:
    caller = TableCaller(child_seconds=30)
    (parent,) = caller.listed()
    (child,) = caller.tables.roll("orders")
    caller.fill(1)
    assert shape(caller) == {parent: (None, False)}
    caller.clock.advance(30)
    assert numbers(caller.changes(child)) == [1]
    assert caller.listed() == [parent, child]


def test_listings_suffer_faults() -> None:
    caller = TableCaller(shards=2)
    first, second = caller.listed()
    children = caller.tables.roll("orders")
    caller.faults.add("DescribeStream", "hide_children", shard=first)
    assert caller.listed() == [first, second, children[1]]
    caller.faults.add("DescribeStream", "hide_children")
    assert caller.listed() == [first, second]
    caller.faults.add("DescribeStream", "open_parent", shard=second, stream="orders")
    assert [is_open for _, is_open in shape(caller).values()] == [False, True, True, True]


def test_streams_are_listed_by_table_and_page() -> None:
    caller = TableCaller()
    arns = sorted([caller.arn, *(str(caller.tables.create(name)) for name in ("more", "other"))])
    caller.tables.create("silent", view=None)
    caller.tables.create("elsewhere", region="eu-west-1")
    assert [stream["StreamArn"] for stream in caller.call("ListStreams")["Streams"]] == arns
    (only,) = caller.call("ListStreams", TableName="orders")["Streams"]
    assert only == {"StreamArn": caller.arn, "TableName": "orders", "StreamLabel": caller.arn.partition("/stream/")[2]}
    page = caller.call("ListStreams", Limit=2)
    assert page["LastEvaluatedStreamArn"] == arns[1]
    rest = caller.call("ListStreams", Limit=2, ExclusiveStartStreamArn=arns[1])
    assert [stream["StreamArn"] for stream in rest["Streams"]] == arns[2:]
    assert "LastEvaluatedStreamArn" not in rest
    assert caller.call("ListStreams", TableName="unknown")["Streams"] == []


# places and reads


def test_places_by_sequence_number() -> None:
    caller = TableCaller()
    caller.fill(0, 1, 2, 3)
    (shard,) = caller.listed()
    place = sequence(caller.changes()[1])
    start = caller.describe()["Shards"][0]["SequenceNumberRange"]["StartingSequenceNumber"]
    by_number: list[tuple[str, str, list[int]]] = [
        ("AT_SEQUENCE_NUMBER", place, [1, 2, 3]),
        ("AFTER_SEQUENCE_NUMBER", place, [2, 3]),
        ("AT_SEQUENCE_NUMBER", start, [0, 1, 2, 3]),
        ("AFTER_SEQUENCE_NUMBER", start, [0, 1, 2, 3]),
    ]
    for kind, number, expected in by_number:
        assert numbers(caller.changes(shard, kind, SequenceNumber=number)) == expected
    assert caller.changes(shard, "LATEST") == []


def test_a_place_by_time_goes_by_the_whole_seconds_of_the_records() -> None:
    caller = TableCaller()
    (shard,) = caller.listed()
    for number in range(3):
        caller.fill(number)
        caller.clock.advance(0.5)
    found = {at: numbers(caller.changes(shard, "AT_TIMESTAMP", Timestamp=NOW + at)) for at in (-5, 0, 0.2, 1, 1.2)}
    assert found == {-5: [0, 1, 2], 0: [0, 1, 2], 0.2: [2], 1: [2], 1.2: []}
    assert caller.no_place(shard, "AT_TIMESTAMP", Timestamp=NOW + 2) == "ValidationException"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("AT_SEQUENCE_NUMBER", {}),
        ("AFTER_SEQUENCE_NUMBER", {}),
        ("AT_TIMESTAMP", {}),
        ("LATEST", {"SequenceNumber": "1" * 21}),
        ("TRIM_HORIZON", {"Timestamp": NOW}),
        ("AT_SEQUENCE_NUMBER", {"SequenceNumber": "1" * 20}),
        ("AT_SEQUENCE_NUMBER", {"SequenceNumber": "1" * 21}),
        ("ODD", {}),
    ],
)
def test_a_place_that_is_none_is_refused(kind: str, fields: Json) -> None:
    caller = TableCaller()
    assert caller.no_place(caller.listed()[0], kind, **fields) == "ValidationException"


def test_a_number_of_another_shard_or_beyond_the_last_is_no_place() -> None:
    caller = TableCaller()
    caller.fill(1)
    (parent,) = caller.listed()
    (child,) = caller.tables.roll("orders")
    caller.fill(2)
    first, second = sequence(caller.changes(parent)[0]), sequence(caller.changes(child)[0])
    beyond = str(int(first) + 10**20)
    for shard, number in ((child, first), (parent, second), (parent, beyond)):
        assert caller.no_place(shard, "AT_SEQUENCE_NUMBER", SequenceNumber=number) == "ValidationException"


def test_an_unknown_shard_stream_or_iterator_is_refused() -> None:
    caller = TableCaller()
    (shard,) = caller.listed()
    with pytest.raises(RefusedError, match="Shard does not exist"):
        caller.place("shardId-00000000000000000000-00000000")
    assert caller.no_place("short") == "ValidationException"
    other = caller.arn[:-1] + "x"
    assert caller.refused("DescribeStream", StreamArn=other) == "ValidationException"
    other = caller.arn.replace("/stream/2", "/stream/3")
    assert caller.refused("DescribeStream", StreamArn=other) == "ResourceNotFoundException"
    assert caller.refused("GetRecords", ShardIterator="garbage") == "ValidationException"
    assert caller.refused("GetRecords", ShardIterator=caller.place(shard)[:-4] + "AAAA") == "ValidationException"


def test_an_arn_leads_to_its_region_whatever_a_call_is_signed_for() -> None:
    caller = TableCaller()
    assert caller.describe(region="eu-west-1")["StreamArn"] == caller.arn


def test_a_page_has_at_most_a_thousand_records_or_a_megabyte() -> None:
    caller = TableCaller()
    caller.fill(*range(1_001))
    (shard,) = caller.listed()
    first = caller.get(caller.place(shard))
    assert numbers(first["Records"]) == list(range(1_000))
    assert numbers(caller.get(first["NextShardIterator"])["Records"]) == [1_000]
    assert len(caller.get(caller.place(shard), Limit=3)["Records"]) == 3
    assert caller.refused("GetRecords", ShardIterator=caller.place(shard), Limit=1_001) == "LimitExceededException"
    latest = caller.place(shard, "LATEST")
    for letter in "abcde":
        caller.put_item("big", v={"S": letter * 390_000})
    sizes = []
    for _ in range(4):
        answer = caller.get(latest)
        sizes.append(len(answer["Records"]))
        latest = answer["NextShardIterator"]
    assert sizes == [1, 1, 1, 1]  # two images of 390,000 bytes, but for the first one: two are more than a megabyte


@pytest.mark.parametrize("with_records", [True, False])
def test_a_closed_shard_ends_with_its_last_records_or_after_them(with_records: bool) -> None:
    caller = TableCaller(end_with_records=with_records)
    (shard,) = caller.listed()
    caller.fill(1, 2)
    caller.tables.roll("orders")
    answer = caller.get(caller.place(shard))
    assert numbers(answer["Records"]) == [1, 2]
    if not with_records:
        answer = caller.get(answer["NextShardIterator"])
        assert answer["Records"] == []
    assert answer["NextShardIterator"] is None
    assert caller.get(caller.place(shard, "LATEST")) == {"Records": [], "NextShardIterator": None}


def test_an_iterator_from_before_a_roll_drains_the_shard() -> None:
    caller = TableCaller()
    (shard,) = caller.listed()
    before = caller.get(caller.place(shard, "LATEST"))["NextShardIterator"]
    caller.fill(1)
    caller.tables.roll("orders")
    answer = caller.get(before)
    assert (numbers(answer["Records"]), answer["NextShardIterator"]) == ([1], None)


def test_an_iterator_lives_for_fifteen_minutes() -> None:
    caller = TableCaller()
    (shard,) = caller.listed()
    iterator = caller.place(shard)
    caller.clock.advance(900)
    onward = caller.get(iterator)["NextShardIterator"]
    caller.clock.advance(900.001)
    assert caller.refused("GetRecords", ShardIterator=onward) == "ExpiredIteratorException"


def test_empty_answers_can_stand_before_the_first_records() -> None:
    caller = TableCaller(empty_pages=2)
    (shard,) = caller.listed()
    caller.fill(1)
    caller.tables.roll("orders")
    iterator, found = caller.place(shard), []
    while iterator:
        answer = caller.get(iterator)
        found.append(len(answer["Records"]))
        iterator = answer["NextShardIterator"]
    assert found == [0, 0, 1]


def test_reads_suffer_faults() -> None:
    caller = TableCaller()
    (shard,) = caller.listed()
    caller.fill(1)
    caller.faults.add("GetRecords", "error", error="InternalServerError", stream="orders", shard=shard)
    with pytest.raises(RefusedError) as raised:
        caller.changes()
    assert (raised.value.code, raised.value.status) == ("InternalServerError", 500)
    caller.faults.add("GetRecords", "empty")
    answer = caller.get(caller.place(shard))
    assert answer["Records"] == []
    caller.faults.add("GetRecords", "no_iterator")
    answer = caller.get(answer["NextShardIterator"])
    assert (numbers(answer["Records"]), "NextShardIterator" in answer) == ([1], False)
    read = caller.calls.list("GetRecords", stream="orders", shard=shard)
    assert [call.records for call in read] == [0, 0, 1]


# trims


def test_records_are_gone_after_a_day_and_closed_shards_a_day_after_their_end() -> None:
    caller = TableCaller()
    (parent,) = caller.listed()
    caller.fill(1)
    caller.clock.advance(HOUR)
    caller.fill(2)
    caller.clock.advance(HOUR)
    (child,) = caller.tables.roll("orders")
    caller.clock.advance(22 * HOUR)
    assert numbers(caller.changes(parent)) == [2]
    caller.clock.advance(HOUR)
    assert caller.changes(parent) == []
    assert caller.listed() == [parent, child]
    caller.clock.advance(HOUR)
    assert shape(caller) == {child: (parent, True)}
    assert caller.no_place(parent) == "ResourceNotFoundException"


def test_a_place_before_the_oldest_record_is_trimmed() -> None:
    caller = TableCaller()
    caller.fill(0, 1, 2, 3)
    (shard,) = caller.listed()
    places = [sequence(record) for record in caller.changes()]
    start = caller.describe()["Shards"][0]["SequenceNumberRange"]["StartingSequenceNumber"]
    iterators = {
        "start": caller.place(shard),
        "1": caller.place(shard, "AT_SEQUENCE_NUMBER", SequenceNumber=places[1]),
        "2": caller.place(shard, "AT_SEQUENCE_NUMBER", SequenceNumber=places[2]),
        "latest": caller.place(shard, "LATEST"),
    }
    assert caller.tables.trim("orders", before=places[2]) == 2
    for number in (start, *places[:2]):
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            assert caller.no_place(shard, kind, SequenceNumber=number) == "TrimmedDataAccessException"
    for name in ("start", "1"):
        assert caller.refused("GetRecords", ShardIterator=iterators[name]) == "TrimmedDataAccessException"
    assert numbers(caller.get(iterators["2"])["Records"]) == [2, 3]
    assert numbers(caller.changes()) == [2, 3]
    assert caller.tables.trim("orders") == 2
    assert (caller.changes(), caller.get(iterators["latest"])["Records"]) == ([], [])
    caller.fill(4)
    assert numbers(caller.changes()) == [4]
    assert numbers(caller.get(iterators["latest"])["Records"]) == [4]


def test_a_trim_by_hand_takes_one_shard_or_the_old_or_closed_ones_out() -> None:
    caller = TableCaller()
    (parent,) = caller.listed()
    caller.fill(0, 1, 2)
    (child,) = caller.tables.roll("orders")
    caller.clock.advance(1)
    caller.fill(3)
    assert caller.tables.trim("orders", parent, keep=1) == 2
    assert caller.tables.trim(caller.arn, before_ms=int(NOW * 1000) + 1) == 1
    assert caller.listed() == [parent, child]
    iterator = caller.place(parent)
    assert caller.tables.trim("orders", forget=True) == 1
    assert shape(caller) == {child: (parent, True)}
    assert caller.refused("GetRecords", ShardIterator=iterator) == "ResourceNotFoundException"


# disabled, enabled again, deleted


def test_a_disabled_stream_stays_readable_for_a_day_without_new_shards() -> None:
    caller = TableCaller()
    (shard,) = caller.listed()
    caller.fill(1)
    caller.tables.disable("orders")
    caller.fill(2)
    assert caller.describe()["StreamStatus"] == "DISABLED"
    assert shape(caller) == {shard: (None, False)}
    answer = caller.get(caller.place(shard))
    assert (numbers(answer["Records"]), answer["NextShardIterator"]) == ([1], None)
    iterator = caller.place(shard, "LATEST")
    table = caller.call("DescribeTable", TableName="orders")["Table"]
    assert ("StreamSpecification" in table, table["LatestStreamArn"]) == (False, caller.arn)
    caller.options.change_iterator_seconds = 2 * DAY
    caller.clock.advance(DAY)
    assert caller.refused("DescribeStream", StreamArn=caller.arn) == "ResourceNotFoundException"
    assert caller.refused("GetRecords", ShardIterator=iterator) == "ResourceNotFoundException"
    assert caller.call("ListStreams")["Streams"] == []


def test_a_stream_that_is_enabled_again_is_another_one() -> None:
    caller = TableCaller()
    caller.fill(1)
    again = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    update = {"TableName": "orders", "StreamSpecification": again}
    assert caller.refused("UpdateTable", **update) == "ValidationException"
    off = {"TableName": "orders", "StreamSpecification": {"StreamEnabled": False}}
    caller.call("UpdateTable", **off)
    assert caller.refused("UpdateTable", **off) == "ValidationException"
    second = caller.call("UpdateTable", **update)["TableDescription"]["LatestStreamArn"]
    caller.fill(2)
    assert second != caller.arn
    assert len(caller.call("ListStreams", TableName="orders")["Streams"]) == 2
    first_shard, second_shard = (caller.describe(arn)["Shards"][0]["ShardId"] for arn in (caller.arn, second))
    assert numbers(caller.changes(first_shard)) == [1]
    assert numbers(caller.changes(second_shard, arn=second)) == [2]
    with pytest.raises(RefusedError):
        caller.changes(second_shard)


def test_the_stream_of_a_deleted_table_stays_readable_for_a_day() -> None:
    caller = TableCaller()
    caller.fill(1)
    caller.call("DeleteTable", TableName="orders")
    assert caller.describe()["StreamStatus"] == "DISABLED"
    assert numbers(caller.changes()) == [1]
    assert caller.tables.create("orders") != caller.arn


# limits


def test_two_may_read_a_shard_at_a_time() -> None:
    caller = TableCaller(limits=True)
    (shard,) = caller.listed()
    first, second, third = (caller.place(shard) for _ in range(3))
    first = caller.get(first)["NextShardIterator"]
    caller.get(second)
    assert caller.refused("GetRecords", ShardIterator=third) == "LimitExceededException"
    caller.get(first)
    caller.clock.advance(1)
    caller.get(third)


@pytest.mark.parametrize(("operation", "a_second"), [("ListStreams", 5), ("DescribeStream", 10)])
def test_listings_have_a_rate(operation: str, a_second: int) -> None:
    caller = TableCaller(limits=True)
    fields = {"StreamArn": caller.arn} if operation == "DescribeStream" else {}
    for _ in range(a_second):
        caller.call(operation, **fields)
    assert caller.refused(operation, **fields) == "ThrottlingException"
    caller.clock.advance(1)
    caller.call(operation, **fields)


# steering


def test_what_cannot_be_steered_says_why() -> None:
    caller = TableCaller(view=None)
    with pytest.raises(ServiceError, match="no stream"):
        caller.tables.roll("orders")
    with pytest.raises(ServiceError, match="not found"):
        caller.tables.roll("missing")
    with pytest.raises(ServiceError, match="disabled"):
        caller.tables.disable("orders")
    arn = caller.tables.enable("orders", "KEYS_ONLY", shards=2)
    assert caller.tables.show()[0]["Streams"][0]["StreamArn"] == arn
    assert [shard["Records"] for shard in caller.tables.show()[0]["Streams"][0]["Shards"]] == [0, 0]


def test_a_table_in_another_region_is_steered_there() -> None:
    caller = TableCaller()
    arn = str(caller.tables.create("orders", region="eu-west-1", view="KEYS_ONLY"))
    assert arn.startswith("arn:aws:dynamodb:eu-west-1:")
    caller.call("PutItem", region="eu-west-1", TableName="orders", Item=key_of("1"))
    (child,) = caller.tables.roll("orders", region="eu-west-1")
    shown = caller.describe(arn)["Shards"]
    assert [shard["ShardId"] for shard in shown][1:] == [child]
    (record,) = caller.changes(shown[0]["ShardId"], arn=arn)
    assert (record["awsRegion"], names([record])) == ("eu-west-1", ["INSERT"])
    assert caller.changes() == []
    assert caller.describe()["StreamViewType"] == BOTH
