# SPDX-License-Identifier: Apache-2.0
"""From a token of Bloop to an application on a table's stream, and back: every record behind it once, none lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardbatch.bloop.format import BloopTokens
from shardbatch.bloop.reading import plan_token
from shardbatch.bloop.token import Token
from shardbatch.control.action import Done
from shardbatch.control.export_positions import export_positions
from shardbatch.control.import_positions import import_positions
from shardbatch.control.place_look import look
from shardbatch.control.position_format import Exported
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import TRIM_HORIZON, at_timestamp
from shardbatch.core.rows import APPLICATION, SHARD_LEASE
from shardbatch.errors import ConfigurationError, InvalidStream
from shardbatch.local import StreamServer
from shardbatch.sources.dynamodb.source import DynamoDBSource
from tests.integration.sources.dynamodb_world import TABLE, World, changes, committed, rig_of, to_tip
from tests.support.aws import REGION, AwsServer
from tests.support.rig import Rig
from tests.support.verbs import told

RECORD = Policies(gap=GapPolicy.RECORD)
ONE = ReadLimits(records=1)


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as running:
        yield running


def numbers(world: World, shard_id: str) -> list[str]:
    """The sequence numbers of all records that a shard holds."""
    pages = to_tip(world.source().read(shard_id, TRIM_HORIZON))
    return [number for page in pages for number in page.records.column("sequence_number").to_pylist()]


def named(world: World, shard_id: str) -> list[str]:
    """What the changes in a shard are called."""
    return changes(*to_tip(world.source().read(shard_id, TRIM_HORIZON)))


def token_of(world: World, active: list[str], **places: Any) -> dict[str, Any]:
    """A token: of each listed shard its kind of place and number, and its parent."""
    shards = []
    for shard in world.source().list_shards():
        entry = {"shard_id": shard.shard_id, **places.get(shard.shard_id, {})}
        if shard.parent_shard_ids:
            entry["parent"] = shard.parent_shard_ids[0]
        shards.append(entry)
    return {"stream_arn": world.arn, "active": active, "shards": shards}


def after(number: str) -> dict[str, str]:
    return {"iterator_type": "after_sequence", "sequence_number": number}


def at(number: str) -> dict[str, str]:
    return {"iterator_type": "at_sequence", "sequence_number": number}


OLDEST = {"iterator_type": "trim_horizon"}


def bring(rig: Rig, token: Any, **more: Any) -> list[Done]:
    clock, source = rig.options["clock"], rig.options["source"]
    given = {"source": source, "form": BloopTokens(), "positions": token, "clock": clock, **more}
    return told(import_positions, rig, **given)


def results(found: list[Done]) -> set[str]:
    return {item.result for item in found}


def effects(found: list[Done]) -> dict[str, str]:
    return {item.name: item.effect for item in found}


def export(rig: Rig) -> Exported:
    return export_positions(rig.consumer(), source=rig.options["source"], form=BloopTokens())


def cloned(folder: Path, world: World, name: str) -> Rig:
    """Another application on the same stream."""
    rig = rig_of(folder / name, world)
    rig.folder.parent.mkdir()
    rig.app = "etl"
    return rig


def drain(rig: Rig, **more: Any) -> list[str]:
    for number in range(4):
        rig.run(f"drain{number}-{rig.options['clock'].now_ms()}", **more)
    return committed(rig)


def test_a_token_in_the_middle_of_a_lineage_goes_on_once(server: StreamServer, tmp_path: Path) -> None:  # BV-1
    world = World(server)
    sent = world.put("a", "b", "c")
    (parent,) = world.shards()
    left, right = world.split()
    sent += world.put(*"abcdefgh")
    first, *_ = numbers(world, parent)
    token = token_of(world, [left, right, parent], **{parent: after(first), left: OLDEST, right: OLDEST})
    rig = rig_of(tmp_path, world)
    assert results(bring(rig, token, dry_run=True, reason="")) == {"would import"}
    assert rig.store.pending()  # not even a table was made
    found = bring(rig, token)
    assert results(found) == {"imported"}
    assert "waits until that has ended" in effects(found)[left]
    assert sorted(drain(rig)) == sorted(sent[1:])
    assert drain(rig)[:2] == sent[1:3]  # the parent's come first


def test_a_token_at_a_record_reads_that_record(server: StreamServer, tmp_path: Path) -> None:  # B-15, B-21
    world = World(server)
    sent = world.put(*"abcd")
    (shard,) = world.shards()
    rig = rig_of(tmp_path, world)
    token = token_of(world, [shard], **{shard: at(numbers(world, shard)[2])})
    found = bring(rig, token)
    assert results(found) == {"imported"}
    assert "becomes a gap" not in effects(found)[shard]
    assert export(rig) == Exported(token, ())  # and Bloop is told the same record
    assert rig.run("r1").gaps == 0
    assert drain(rig) == sent[2:]


def test_a_record_at_which_the_token_stands_and_that_expired_is_a_gap(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    sent = world.put(*"abcd")
    (shard,) = world.shards()
    number = numbers(world, shard)[1]
    world.trim(keep=1)
    for index, place in enumerate((at(number), after(number))):  # B-18, BV-5
        rig = cloned(tmp_path, world, f"{index}")
        found = bring(rig, token_of(world, [shard], **{shard: place}))
        assert "the record there has expired: what else has, becomes a gap" in effects(found)[shard]
        assert [remark.result for remark in export(rig).remarks] == ["gap"]
        assert rig.run("r1", policies=RECORD).gaps == 1
        assert committed(rig) == sent[3:]


def test_what_is_round_the_trip_reads_the_same(server: StreamServer, tmp_path: Path) -> None:
    """Token, import, a run that is cut short, export; from that token another application reads the rest, once."""
    world = World(server, shards=2)
    sent = world.put(*"abcdefgh")
    roots = world.shards()
    world.split(roots[0])
    world.roll(roots[1])
    sent += world.put(*"abcdefgh")
    rig = rig_of(tmp_path, world, page_records=1)
    token = token_of(world, roots, **dict.fromkeys(roots, OLDEST))
    bring(rig, token)
    assert export(rig).positions == token
    seen: list[str] = []
    for step in range(12):
        rig.run(f"r{step}", limits=ONE)
        written = export(rig)
        assert written.remarks == ()
        other = cloned(tmp_path, world, f"step{step}")
        assert results(bring(other, written.positions)) == {"imported"}
        assert sorted([*committed(rig), *drain(other)]) == sorted(sent), step
        assert export(other).positions["active"]
        seen.append(str(written.positions))
    assert len(set(seen)) > 4


def test_shards_that_left_the_stream_are_gaps_and_their_children_are_read(
    server: StreamServer, tmp_path: Path
) -> None:  # B-17, B-18
    world = World(server)
    world.put("a", "b")
    (parent,) = world.shards()
    first, *_ = numbers(world, parent)
    world.roll()
    sent = world.put("c", "d")
    token = token_of(world, [parent], **{parent: after(first)})
    world.trim(parent, forget=True)
    rig = rig_of(tmp_path, world)
    found = bring(rig, token)
    assert "it has left the stream: what followed becomes a gap" in effects(found)[parent]
    gaps = sum(rig.run(f"r{number}", policies=RECORD).gaps for number in range(3))
    assert gaps == 2
    assert committed(rig) == sent


def test_a_gap_waits_for_a_person_as_ever(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    world.put("a")
    (parent,) = world.shards()
    world.roll()
    world.put("b")
    token = token_of(world, [parent], **{parent: OLDEST})
    world.trim(parent, forget=True)
    rig = rig_of(tmp_path, world)
    bring(rig, token)
    assert drain(rig) == []


def test_latest_reads_what_comes_from_now_on(server: StreamServer, tmp_path: Path) -> None:  # B-16, BV-6
    world = World(server)
    world.put("a")
    (shard,) = world.shards()
    world.time.sleep(2)
    token = token_of(world, [shard], **{shard: {"iterator_type": "LATEST"}})
    rig = rig_of(tmp_path, world)
    found = bring(rig, token)
    assert "IS NOT READ" in effects(found)[shard]
    sent = world.put("b")
    assert drain(rig) == sent
    assert results(bring(cloned(tmp_path, world, "all"), token, start=TRIM_HORIZON)) == {"imported"}


def test_latest_with_a_start_reads_from_there(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    world.put("a")
    (shard,) = world.shards()
    world.time.sleep(5)
    start = at_timestamp(server.clock.now_ms() // 1000 * 1000)
    sent = world.put("b")
    world.time.sleep(5)
    rig = rig_of(tmp_path, world)
    token = token_of(world, [shard], **{shard: {"iterator_type": "latest"}})
    bring(rig, token, start=start)
    assert results(bring(rig, token)) == {"already"}
    assert drain(rig) == sent
    with pytest.raises(ConfigurationError, match="cannot all begin at"):
        bring(rig, token, start=rig.consumer().leases()[0].checkpoint)


def test_the_place_of_another_shard_is_refused_before_anything_is_written(server: StreamServer, tmp_path: Path) -> None:
    world = World(server, shards=2)
    world.put(*"abcdefgh")
    one, two = world.shards()
    number = numbers(world, two)[0]
    token = token_of(world, [one, two], **{one: after(number), two: after(number)})
    rig = rig_of(tmp_path, world)
    found = bring(rig, token)
    assert [(item.name, item.result) for item in found] == [(one, "left")]
    assert "does not belong to this shard" in found[0].why
    assert not list(rig.store.list(APPLICATION, rig.namespace))
    assert not list(rig.store.list(SHARD_LEASE, rig.namespace))


def test_a_stream_that_was_enabled_again_is_another_one(server: StreamServer, tmp_path: Path) -> None:  # B-19
    world = World(server)
    world.put("a")
    token = token_of(world, world.shards(), **{world.shards()[0]: OLDEST})
    server.tables.disable(TABLE, region=REGION)
    server.tables.enable(TABLE, region=REGION)
    rig = rig_of(tmp_path, world)
    with pytest.raises(InvalidStream, match=f"The token is of the stream {world.arn}"):
        bring(rig, token)
    assert rig.store.pending()


def test_a_disabled_stream_that_is_read_to_its_end_stays_so(server: StreamServer, tmp_path: Path) -> None:
    world = World(server, shards=2)
    world.put(*"abcdefgh")
    rig = rig_of(tmp_path, world)
    server.tables.disable(TABLE, region=REGION)
    drain(rig)
    written = export(rig)
    assert {shard["iterator_type"] for shard in written.positions["shards"]} == {"latest"}
    other = cloned(tmp_path, world, "other")
    bring(other, written.positions)
    assert drain(other) == []
    assert all(row.completed for row in other.consumer().leases())


def test_a_shard_without_a_row_yet_is_in_the_token(server: StreamServer, tmp_path: Path) -> None:
    """Bloop finds shards only below those that a token names."""
    world = World(server)
    sent = world.put("a")
    rig = rig_of(tmp_path, world)
    rig.run("r1")
    (parent,) = world.shards()
    world.split()
    late = world.put(*"abcdefgh")
    assert len(rig.consumer().leases()) == 1
    written = export(rig)
    assert len(written.positions["shards"]) == 3
    assert written.positions["active"] == [parent]
    other = cloned(tmp_path, world, "other")
    bring(other, written.positions)
    assert sorted(drain(other)) == sorted(late)
    assert committed(rig) == sent


def test_a_record_is_a_place_of_another_look_alike_too(ministack: AwsServer, unique_name: str) -> None:  # B-21
    """That one pads its numbers with zeros, and calls a number that it never gave out trimmed."""
    tables, streams = ministack.client("dynamodb"), ministack.client("dynamodbstreams", attempts=1)
    tables.create_table(
        TableName=unique_name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    for key in "abc":
        tables.put_item(TableName=unique_name, Item={"id": {"S": key}, "v": {"S": key}})
    source = DynamoDBSource(tables, streams, unique_name)
    (shard,) = source.list_shards()
    whole = to_tip(source.read(shard.shard_id, TRIM_HORIZON))
    told = [number for page in whole for number in page.records.column("sequence_number").to_pylist()]
    for index, number in enumerate(told):
        entry = {"shard_id": shard.shard_id, **at(number)}
        token = Token.parse({"stream_arn": source.identity(), "active": [shard.shard_id], "shards": [entry]})
        (taken,) = plan_token(token, source.identity(), [shard], None, lambda: TRIM_HORIZON)
        pages = to_tip(source.read(shard.shard_id, taken.position))
        assert changes(*pages) == list("abc")[index:]
        assert not any(page.checkpoint_gone for page in pages)
        assert look(source, shard.shard_id, taken.position).first == number
    source.close()
