# SPDX-License-Identifier: Apache-2.0
"""Bloop 3.1.1 and we read the same table of the embedded server: the same changes in the same order where Bloop is
right, and both sides shown where it loses, doubles or reorders changes.

Bloop runs in a process and an environment of its own, on the Python of the tests; it needs a boto3 of 2024. Its model
is bound without table setup, because that asks DynamoDB for more than a stream (backups, time to live).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import at_timestamp
from shardbatch.local import Clock, StreamServer
from tests.integration.sources.bloop_scene import BEGIN, Runs, Scene, Seen, by_bloop, names
from tests.integration.sources.dynamodb_world import TABLE
from tests.support.aws import REGION
from tests.support.bloop_process import Bloop, BloopError, bloop_process

RECORD = Policies(gap=GapPolicy.RECORD)
ONE = ReadLimits(records=1)


@pytest.fixture(scope="module")
def process() -> Iterator[Bloop]:
    with bloop_process() as running:
        yield running


#: A closed shard ends with its last records, or with an empty answer after them.
BOTH_ENDS = pytest.mark.parametrize("server", [True, False], indirect=True, ids=["ends-with-records", "ends-empty"])


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[StreamServer]:
    clock, ends = Clock(lambda: float(BEGIN)), getattr(request, "param", True)
    with StreamServer(region=REGION, clock=clock, end_with_records=ends) as running:
        yield running


@pytest.fixture
def scene(server: StreamServer) -> Scene:
    return Scene(server)


@pytest.fixture
def bloop(process: Bloop, scene: Scene) -> Bloop:
    return process.open(scene.server.endpoint_url, TABLE)


def family(scene: Scene) -> tuple[str, str, str]:
    """A parent with three changes and its two children with two each: the tree of BV-1."""
    (parent,) = scene.shards()
    scene.put(parent, ("1", 0), ("2", 1), ("3", 2))
    one, two = scene.world.split(parent)
    scene.put(one, ("10", 3))
    scene.put(two, ("20", 4))
    scene.put(one, ("11", 5))
    scene.put(two, ("21", 6))
    return parent, one, two


FAMILY = ["1", "2", "3", "10", "20", "11", "21"]


# where Bloop is right


@BOTH_ENDS
def test_both_read_a_parent_and_its_children_in_the_same_order(scene: Scene, bloop: Bloop, tmp_path: Path) -> None:
    family(scene)  # BV-1
    bloop.move_to("trim_horizon")
    theirs, ours = by_bloop(bloop.drain()), Runs(tmp_path, scene).one()
    assert theirs == ours
    assert names(ours) == FAMILY


ONE_SHARD = [("311", 100), ("350", 300), ("390", 500)]


@pytest.mark.parametrize(
    ("other", "order"),
    [
        ([("324", 300), ("325", 400), ("326", 400)], "1 311 324 350 325 326 390"),
        ([("a", 100), ("b", 100), ("360", 300), ("365", 400), ("366", 400)], "1 350 360 365 366 390"),
    ],
)
def test_both_order_the_changes_of_a_second_by_number(  # BV-2
    scene: Scene, bloop: Bloop, tmp_path: Path, other: list[tuple[str, float]], order: str
) -> None:
    (parent,) = scene.shards()
    scene.put(parent, ("1", 0))
    shards = scene.world.split(parent)
    put = [(shard, change) for shard, changes in zip(shards, (ONE_SHARD, other), strict=True) for change in changes]
    for shard, change in sorted(put, key=lambda entry: entry[1][1]):
        scene.put(shard, change)
    bloop.move_to("trim_horizon")
    theirs, ours = by_bloop(bloop.drain()), Runs(tmp_path, scene).one()
    assert theirs == ours == by_place(ours)
    assert len(ours) == len(scene.sent)
    assert [name for name in names(ours) if name in order.split()] == order.split()


@pytest.mark.parametrize("view", ["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"])
def test_both_see_the_same_images_of_items_that_are_put_changed_and_deleted(  # B-2
    server: StreamServer, process: Bloop, tmp_path: Path, view: str
) -> None:
    scene = Scene(server, view=view)
    tables, expired = scene.world.tables, {"id": {"S": "c"}}
    written = [{"PutRequest": {"Item": {"id": {"S": key}, "v": {"S": f"{key}1"}}}} for key in "abc"]
    tables.batch_write_item(RequestItems={TABLE: written})
    tables.put_item(TableName=TABLE, Item={"id": {"S": "a"}, "v": {"S": "a2"}})
    value = {":v": {"S": "b2"}}
    tables.update_item(
        TableName=TABLE, Key={"id": {"S": "b"}}, UpdateExpression="SET v = :v", ExpressionAttributeValues=value
    )
    tables.delete_item(TableName=TABLE, Key={"id": {"S": "a"}})
    server.tables.expire(TABLE, [expired], region=REGION)
    bloop = process.open(server.endpoint_url, TABLE, view)
    bloop.move_to("trim_horizon")
    theirs, ours = by_bloop(bloop.drain()), Runs(tmp_path, scene).one()
    assert [replace(change, key=None) for change in theirs] == [replace(change, key=None) for change in ours]
    assert [change.key for change in ours] == list("abcabac")
    # Bloop hands out no key of its own, not even of a stream that carries keys only.
    assert [change.key for change in theirs] == [change.key if change.name else None for change in ours]
    assert [change.event for change in ours] == ["insert"] * 3 + ["modify"] * 2 + ["remove"] * 2
    news, olds = (["a1", "b1", "c1", "a2", "b2", "-", "-"], ["-", "-", "-", "a1", "b1", "a2", "c1"])
    assert [change.new or "-" for change in ours] == (news if "NEW" in view else ["-"] * 7)
    assert [change.old or "-" for change in ours] == (olds if "OLD" in view else ["-"] * 7)


@pytest.mark.parametrize("seed", range(3))
def test_both_read_any_changes_of_two_open_siblings_in_the_same_order(
    scene: Scene, bloop: Bloop, tmp_path: Path, seed: int
) -> None:
    chance, second = random.Random(seed), 0.0
    (parent,) = shards = scene.shards()
    for number in range(120):
        if number == 40:
            shards = scene.world.split(parent)
        second += chance.choice([0, 0, 0.3, 1, 7])
        scene.put(chance.choice(shards), (str(number), second))
    bloop.move_to("trim_horizon")
    theirs, ours = by_bloop(bloop.drain()), Runs(tmp_path, scene).one()
    assert theirs == ours == by_place(ours)
    assert sorted(names(ours)) == sorted(scene.sent)


@BOTH_ENDS
@pytest.mark.parametrize("seed", range(2))
def test_both_read_any_lineage_once_and_each_key_in_its_order(
    scene: Scene, bloop: Bloop, tmp_path: Path, seed: int
) -> None:
    chance, second = random.Random(seed), 0.0
    for step in range(12):
        for number in range(15):
            second += chance.choice([0, 0.3, 1])
            scene.change(chance.choice("abcdefgh"), f"{step}-{number}", second)
        (scene.world.split if chance.random() < 0.2 else scene.world.roll)(chance.choice(scene.open_shards()))
    bloop.move_to("trim_horizon")
    theirs, ours = by_bloop(bloop.drain()), Runs(tmp_path, scene).one()
    assert Counter(theirs) == Counter(ours)
    assert Counter(names(ours)) == Counter(scene.sent)
    assert [change.seconds for change in ours] == sorted(change.seconds for change in ours)
    for key in "abcdefgh":
        of_key = [change for change in ours if change.key == key]
        assert [change for change in theirs if change.key == key] == of_key
        assert names(of_key) == sorted(names(of_key), key=scene.sent.index)


@pytest.mark.parametrize(("second", "found"), [(0, FAMILY), (1.9, FAMILY[1:]), (3, FAMILY[3:]), (4, FAMILY[4:])])
def test_both_begin_at_a_time_with_the_first_change_of_its_second(  # BV-4
    scene: Scene, bloop: Bloop, tmp_path: Path, second: float, found: list[str]
) -> None:
    family(scene)
    bloop.move_to_time(BEGIN + second)
    theirs = by_bloop(bloop.drain())
    ours = Runs(tmp_path, scene, scans=True).one(start=at_timestamp(int((BEGIN + second) * 1000)))
    assert theirs == ours
    assert names(ours) == found


# what an empty shard costs


@BOTH_ENDS
def test_a_chain_of_empty_closed_shards_does_not_hide_the_record_behind_it(  # BV-7
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    scene.world.roll()
    (last,) = scene.world.roll(scene.shards()[-1])
    scene.put(last, ("1", 1))
    bloop.move_to("trim_horizon")
    assert [record and record["new"]["v"] for record in (bloop.next() for _ in range(4))] == [None, None, "1", None]
    assert names(Runs(tmp_path, scene).one()) == ["1"]


def test_both_take_five_empty_answers_of_an_open_shard_for_its_tip(  # BV-7
    server: StreamServer, process: Bloop, tmp_path: Path
) -> None:
    scene = Scene(server, shards=2)
    scene.put(scene.shards()[0], ("1", 1))
    bloop = process.open(server.endpoint_url, TABLE)
    bloop.move_to("trim_horizon")
    scene.calls()
    assert bloop.next()
    assert scene.calls() == 1 + 5
    assert Runs(tmp_path, scene).one()
    assert scene.calls() == 1 + 5 + 5  # and five more show that nothing follows the record


@pytest.mark.parametrize(
    ("answers", "polls"),
    [([3, 0, 1, 0, 0, 0, 1], [3, 1, 1]), ([0, 0, 0, 1, 0, 0, 0, 1], [1, 0, 0, 1])],
)
def test_empty_answers_between_records_hide_none_from_either(  # BV-7
    scene: Scene, bloop: Bloop, tmp_path: Path, answers: list[int], polls: list[int]
) -> None:
    (shard,) = scene.shards()
    scene.pad(390_000)
    scene.change("x", "x0", 0)
    scene.change("y", "y0", 0)
    scene.world.trim()
    scene.pad(100_000)
    small = [str(number) for number in range(3 if 3 in answers else 0)]
    scene.put(shard, *((name, 1) for name in small))
    scene.pad(390_000)  # and as much again of the image before: an answer of 1 MB holds one of them
    scene.change("x", "x1", 2)
    scene.change("y", "y1", 3)

    def script() -> None:
        for call, records in enumerate(answers):
            if not records:
                scene.server.faults.add("GetRecords", "empty", after=call)

    bloop.move_to("trim_horizon")
    script()
    scene.calls()
    handed = [bloop.next() for _ in range(sum(polls) + polls.count(0))]
    assert scene.calls() == len(answers)
    assert [bool(record) for record in handed] == [found > 0 for found in polls for _ in range(found or 1)]
    script()
    ours = Runs(tmp_path, scene).one()
    assert names(ours) == [*small, "x1", "y1"]
    assert by_bloop([record for record in handed if record]) == ours


def test_a_heartbeat_of_bloop_asks_only_shards_without_a_place_and_we_need_none(  # BV-8
    server: StreamServer, process: Bloop, tmp_path: Path
) -> None:
    scene = Scene(server, shards=2)
    idle, busy = scene.shards()
    scene.put(busy, ("5", 5), ("6", 6))
    runs = Runs(tmp_path, scene)
    bloop = process.open(server.endpoint_url, TABLE)
    bloop.move_to("trim_horizon")
    scene.calls()
    bloop.heartbeat()
    assert (scene.calls(), bloop.buffered()) == (5 + 1, 2)
    bloop.heartbeat()
    assert (scene.calls(), bloop.buffered()) == (1, 2)
    assert names(runs.one()) == ["5", "6"]

    scene.put(idle, ("7", 3 * 3600))  # no heartbeat for hours: the iterators of both have expired
    with pytest.raises(BloopError, match="ShardIteratorExpired"):
        bloop.drain()
    assert names(runs.one()) == ["7"]


# iterators that expire


def read_two(scene: Scene, bloop: Bloop, folder: Path) -> tuple[str, Runs]:
    """The only shard, of which both sides have read all: the changes 1 and 2."""
    (shard,) = scene.shards()
    scene.put(shard, ("1", 1), ("2", 2))
    runs = Runs(folder, scene)
    bloop.move_to("trim_horizon")
    assert by_bloop(bloop.take(2)) == runs.one()
    return shard, runs


def test_both_renew_an_expired_iterator_behind_the_last_record(  # BV-9
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    shard, runs = read_two(scene, bloop, tmp_path)
    scene.put(shard, ("3", 1000))
    scene.calls("GetShardIterator")
    assert names(by_bloop(bloop.take(1))) == ["3"]
    assert scene.calls("GetShardIterator") == 1
    assert names(runs.one()) == ["3"]


def test_bloop_raises_where_its_iterator_expired_and_its_place_was_trimmed_and_we_tell_a_gap(  # BV-9
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    shard, runs = read_two(scene, bloop, tmp_path)
    scene.put(shard, ("3", 100), ("4", 200))
    scene.world.trim(keep=1)
    scene.at(1000)
    with pytest.raises(BloopError, match="RecordsExpired"):
        bloop.next()
    assert names(runs.one(policies=RECORD)) == ["4"]
    assert len(runs.gaps()) == 1


# where Bloop loses, doubles or reorders


@BOTH_ENDS
def test_bloop_doubles_the_children_of_a_parent_that_it_had_read_half_and_we_do_not(  # BV-1, B-20
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    parent, one, two = family(scene)
    bloop.move_to("trim_horizon")
    read = by_bloop(bloop.take(1))
    token = bloop.token()
    seen_to_end = scene.server.options.end_with_records  # Bloop knows that the parent has ended, and holds its records
    assert sorted(token["active"]) == sorted([parent, one, two] if seen_to_end else [parent])
    bloop.resume(token)
    assert names(read + by_bloop(bloop.drain())) == FAMILY + (FAMILY[3:] if seen_to_end else [])

    runs = Runs(tmp_path, scene, page_records=1)
    found = [change for _ in range(12) for change in runs.one(limits=ONE)]
    assert sorted(names(found)) == sorted(FAMILY)
    assert names(found)[:3] == ["1", "2", "3"]


def test_bloop_merges_a_page_of_each_shard_at_a_time_and_we_merge_the_whole(  # BV-3, B-10
    server: StreamServer, process: Bloop, tmp_path: Path
) -> None:
    scene = Scene(server, shards=2)
    one, two = scene.shards()
    scene.pad(390_000)  # an answer of 1 MB holds two such changes
    for shard, change in [
        (one, ("1", 0)),
        *((two, (str(second), second)) for second in (5, 6, 7, 8)),
        *((one, (str(second // 10 + 1), second)) for second in (10, 20, 30)),
    ]:
        scene.put(shard, change)
    bloop = process.open(server.endpoint_url, TABLE)
    bloop.move_to("trim_horizon")
    theirs, ours = by_bloop(bloop.drain()), Runs(tmp_path, scene).one()
    assert names(theirs) == ["1", "5", "6", "2", "7", "8", "3", "4"]
    assert names(ours) == ["1", "5", "6", "7", "8", "2", "3", "4"]
    assert ours == by_place(theirs)


def test_bloop_reads_an_open_shard_to_its_end_before_the_child_of_another_and_we_merge_both(  # BV-3, B-10
    server: StreamServer, process: Bloop, tmp_path: Path
) -> None:
    scene = Scene(server, shards=2)
    old, other = scene.shards()
    scene.put(old, ("1", 1))
    (child,) = scene.world.roll(old)
    scene.put(child, ("2", 2))
    scene.put(other, ("3", 3))
    bloop = process.open(server.endpoint_url, TABLE)
    bloop.move_to("trim_horizon")
    assert names(by_bloop(bloop.drain())) == ["1", "3", "2"]
    assert names(Runs(tmp_path, scene).one()) == ["1", "2", "3"]


def test_bloop_goes_on_behind_trimmed_records_with_a_log_line_and_we_tell_a_gap(  # B-18, BV-5
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    shard, runs = read_two(scene, bloop, tmp_path)
    token = bloop.token()
    scene.put(shard, ("3", 3600), ("4", 20 * 3600))
    scene.at(25.5 * 3600)
    bloop.resume(token)
    assert names(by_bloop(bloop.drain())) == ["4"]
    assert len([line for line in bloop.logged if "jumping to trim_horizon" in line]) == 1
    assert names(runs.one()) == []  # until a person has accepted the gap
    assert names(runs.one(policies=RECORD)) == ["4"]
    assert len(runs.gaps()) == 1


@BOTH_ENDS
def test_bloop_leaves_a_shard_out_that_left_the_stream_with_a_log_line_and_we_tell_a_gap(  # BV-5
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    (parent,) = scene.shards()
    scene.put(parent, ("1", 1), ("2", 2))
    (child,) = scene.world.roll()
    scene.put(child, ("10", 100), ("11", 20 * 3600))
    (grandchild,) = scene.world.roll()
    bloop.move_to("trim_horizon")
    assert names(by_bloop(bloop.take(1))) == ["1"]
    token = bloop.token()
    runs = Runs(tmp_path, scene, page_records=1)
    assert names(runs.one(limits=ONE)) == ["1"]
    scene.put(grandchild, ("20", 25 * 3600))
    bloop.resume(token)
    doubled = ["20"] if scene.server.options.end_with_records else []  # B-20
    assert names(by_bloop(bloop.drain())) == ["11", "20", *doubled]
    assert len([line for line in bloop.logged if "pruning from stream token" in line]) == 1
    assert names(runs.one(policies=RECORD)) == ["11", "20"]
    assert runs.gaps()


def test_a_token_of_bloop_after_a_time_is_older_than_the_time_and_our_place_is_not(  # B-21
    scene: Scene, bloop: Bloop, tmp_path: Path
) -> None:
    (shard,) = scene.shards()
    scene.put(shard, *((str(second), second) for second in range(0, 100, 10)))
    bloop.move_to_time(BEGIN + 50)
    bloop.resume(bloop.token())
    assert names(by_bloop(bloop.drain())) == [str(second) for second in range(0, 100, 10)]

    runs = Runs(tmp_path, scene, scans=True, page_records=2)
    short = ReadLimits(duration=timedelta(milliseconds=1))  # one answer a run, so that each resumes the one before
    found = [c for _ in range(12) for c in runs.one(limits=short, start=at_timestamp((BEGIN + 50) * 1000))]
    assert names(found) == [str(second) for second in range(50, 100, 10)]


def by_place(changes: list[Seen]) -> list[Seen]:
    """Changes by time, then by number."""
    return sorted(changes, key=lambda change: (change.seconds, int(change.number)))
