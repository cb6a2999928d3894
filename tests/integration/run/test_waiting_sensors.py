# SPDX-License-Identifier: Apache-2.0
"""What triggers of our sensors ask of a real stream and a real lease store, beside runs that read the stream."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shardbatch import DynamoDBStream, KinesisStream, SQLLeases
from shardbatch.control.questions import CommittedUpTo, Question
from shardbatch.control.shard_questions import LineageComplete, ShardsEnded
from shardbatch.core.choices import ShardEnd
from shardbatch.core.interval import MARGIN_MS
from shardbatch.hooks.stream_literals import stream_to_json
from shardbatch.hooks.streams import Stream
from shardbatch.stores.sql import SQLStore
from shardbatch.triggers import Asking
from tests.integration.sources import dynamodb_world
from tests.integration.sources.kinesis_world import stopped_server
from tests.support.aws import REGION
from tests.support.resharded import Resharded
from tests.support.rig import Rig

IDLE_S = 180


@dataclass
class Scene:
    """An application on a server, whose leases are in a file; ``stream`` as its DAG names it."""

    rig: Rig
    server: Any
    client: Any
    stream: Stream
    runs: int = 0
    reads: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        self.runs += 1
        self.rig.run(f"run-{self.runs}")

    def now_ms(self) -> int:
        """The stream's time as it tells it."""
        return int(self.server.clock.now_ms()) // 1000 * 1000

    def trigger(self, question: Question, patience: float = 20.0, every: float = 0.2) -> Asking:
        return Asking(
            question=question.to_json(), app_name="etl", stream="orders", leases=SQLLeases("leases_db").to_json(),
            every=every, deadline=time.time() + patience, source=stream_to_json(self.stream),
        )  # fmt: skip

    def outcome(self, *questions: Question, **how: float) -> list[dict[str, Any]]:
        """What triggers of one triggerer find that ask these questions."""

        async def first(trigger: Asking) -> dict[str, Any]:
            return dict((await anext(trigger.run())).payload)

        async def all_of_them() -> list[dict[str, Any]]:
            return list(await asyncio.gather(*(first(self.trigger(question, **how)) for question in questions)))

        return asyncio.run(asyncio.wait_for(all_of_them(), 60))

    def ask(self, question: Question) -> dict[str, Any]:
        """What a trigger finds whose deadline is over."""
        (found,) = self.outcome(question, patience=0.0)
        return found

    def spent(self) -> tuple[Counter[str], Counter[str]]:
        """The calls of the stream, and the reads of the lease store, since this was asked last."""
        calls = Counter(call.operation for call in self.server.calls.list())
        reads = Counter(self.reads)
        self.server.calls.clear()
        self.reads.clear()
        return calls, reads


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers fire as soon as they know; no scheduler has to hear anything before."""
    monkeypatch.setattr("shardbatch.triggers.SETTLED_S", 0.0)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLStore]:
    monkeypatch.setenv("AIRFLOW_CONN_LEASES_DB", json.dumps({"conn_type": "sqlite", "host": f"{tmp_path}/leases.db"}))
    with closing(SQLStore(f"sqlite:///{tmp_path}/leases.db")) as made:
        made.prepare()
        yield made


def connect(monkeypatch: pytest.MonkeyPatch, server: Any, scene: Scene) -> Scene:
    extra = {"endpoint_url": server.endpoint_url, "region_name": REGION}
    made = {"conn_type": "aws", "login": "x", "password": "y", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(made))
    for name in ("list", "get", "prepare"):
        real = getattr(SQLStore, name)

        def counted(self: SQLStore, *given: Any, name: str = name, real: Any = real, **more: Any) -> Any:
            scene.reads[name] += 1
            return real(self, *given, **more)

        monkeypatch.setattr(SQLStore, name, counted)
    return scene


@pytest.fixture
def scene(tmp_path: Path, store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A stream of two shards, all of which is committed."""
    with stopped_server() as server:
        made = Resharded(server, tmp_path, shards=2)
        made.rig.store = store
        made.put()
        scene = connect(monkeypatch, server, Scene(made.rig, server, made.world.client, KinesisStream("orders")))
        scene.run()
        yield scene


def just_now(scene: Scene) -> CommittedUpTo:
    """The latest instant that can be promised now."""
    return CommittedUpTo(scene.now_ms() - MARGIN_MS)


def test_an_idle_hour_is_whole_without_a_run(scene: Scene) -> None:
    scene.server.clock.advance(IDLE_S)
    scene.spent()
    found = scene.ask(just_now(scene))
    assert found["outcome"] == "reached"
    assert found["told"]["watermark_ms"] == scene.now_ms() - MARGIN_MS
    calls, _ = scene.spent()
    assert calls["ListShards"] == 0
    assert calls["GetRecords"] <= 2 * 2, "each shard answers with the last record that was committed, and then nothing"


def test_however_many_wait_for_an_idle_stream_it_is_asked_once(scene: Scene) -> None:
    scene.server.clock.advance(IDLE_S)
    latest = just_now(scene).until_ms
    scene.spent()
    assert scene.ask(CommittedUpTo(latest))["outcome"] == "reached"
    one = scene.spent()
    found = scene.outcome(*(CommittedUpTo(latest - 1000 * number) for number in range(40)))
    assert {each["outcome"] for each in found} == {"reached"}
    assert scene.spent() == one, "calls of the stream, and reads of the lease store"


def test_records_that_nobody_has_read_are_waited_for(scene: Scene) -> None:
    scene.server.clock.advance(IDLE_S)
    sent = scene.client.put_record(StreamName="orders", Data=b"new", PartitionKey="k")
    scene.spent()
    # Far behind the margin, and yet not read: the sensor must not take it for committed.
    question = just_now(scene)
    scene.server.clock.advance(IDLE_S / 3)
    found = scene.outcome(*(CommittedUpTo(question.until_ms - number) for number in range(10)), patience=2.5)
    assert {each["outcome"] for each in found} == {"timeout"}
    assert all(f"a run has to read them: {sent['ShardId']}." in each["why"] for each in found)
    calls, _ = scene.spent()
    assert calls["GetRecords"] <= 2 * 2, "it is not asked again for a minute, however often they look"
    scene.run()
    assert scene.ask(question)["outcome"] == "reached"


def test_a_reshard_is_closed_then_completed_then_behind_the_application(scene: Scene) -> None:
    (name, keys), *_ = [(row.shard_id, row.hash_range) for row in scene.rig.consumer().leases()]
    assert keys is not None
    scene.client.split_shard(
        StreamName="orders", ShardToSplit=name, NewStartingHashKey=str((keys.start + keys.end) // 2)
    )
    closed, completed = ShardsEnded((name,)), ShardsEnded((name,), state=ShardEnd.COMPLETED)
    lineage = LineageComplete((name,))
    assert scene.ask(closed)["outcome"] == "reached"
    assert scene.ask(completed)["outcome"] == "settled"
    assert scene.ask(lineage)["why"] == f"Not completed yet: {name}."
    scene.run()
    assert scene.ask(completed)["told"] == {"shards": [name], "state": "completed"}
    scene.run()
    found = scene.ask(lineage)
    assert (found["outcome"], len(found["told"]["children"])) == ("reached", 2)


def test_the_shards_that_were_open_at_an_instant_are_those_of_the_service(scene: Scene) -> None:
    names = sorted(row.shard_id for row in scene.rig.consumer().leases())
    instant = scene.now_ms() + 1_000
    scene.server.clock.advance(5)
    scene.client.merge_shards(StreamName="orders", ShardToMerge=names[0], AdjacentShardToMerge=names[1])
    found = scene.ask(ShardsEnded(open_at_ms=instant, state=ShardEnd.COMPLETED))
    assert (found["outcome"], found["question"]["shard_ids"]) == ("settled", names)
    assert scene.ask(ShardsEnded(open_at_ms=instant))["told"]["shards"] == names
    scene.server.clock.advance(5)
    late = scene.ask(ShardsEnded(open_at_ms=scene.now_ms()))
    assert (late["outcome"], len(late["question"]["shard_ids"])) == ("settled", 1)
    assert not set(late["question"]["shard_ids"]) & set(names)
    scene.run()
    assert scene.ask(ShardsEnded(tuple(names), state=ShardEnd.COMPLETED, fixed=True))["outcome"] == "reached"


def test_a_stream_of_a_table_needs_a_run_and_its_reshard_is_seen_by_children(
    tmp_path: Path, store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_server() as server:
        world = dynamodb_world.World(server)
        options = {"source": world.source(), "clock": world.time.clock}
        scene = Scene(Rig(tmp_path / "staging", store=store, options=options), server, None, DynamoDBStream("orders"))
        connect(monkeypatch, server, scene)
        world.put("a")
        scene.run()
        server.clock.advance(IDLE_S)
        scene.spent()
        assert scene.ask(just_now(scene))["outcome"] == "timeout"
        assert sum(scene.spent()[0].values()) == 0, "only a claim can give new shards their rows"
        (parent,) = world.shards()
        children = world.split(parent)
        assert scene.ask(ShardsEnded((parent,)))["outcome"] == "reached"
        assert scene.ask(ShardsEnded(open_at_ms=scene.now_ms()))["question"]["shard_ids"] == sorted(children)
        assert scene.ask(LineageComplete((parent,)))["why"] == f"Not completed yet: {parent}."
        scene.run()
        scene.run()
        found = scene.ask(LineageComplete((parent,)))
        assert found["told"] == {"parents": [parent], "children": sorted(children)}
        server.clock.advance(IDLE_S)
        until = just_now(scene)
        scene.run()
        assert scene.ask(until)["outcome"] == "reached"
