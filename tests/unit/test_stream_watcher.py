# SPDX-License-Identifier: Apache-2.0
"""The watcher of a stream: one event while something is to do, made up for when it is lost, and never an end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import KinesisStream, SQLLeases
from shardbatch.control.wake import Look
from shardbatch.core.lease import Lease
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.core.wake import WakeUp
from shardbatch.errors import ConfigurationError, StoreError
from shardbatch.hooks.stream_literals import stream_to_json
from shardbatch.stores.sql import SQLStore
from shardbatch.stream_watcher import POLLS, StreamWatcher
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.waiting import wait_until

EVERY = 0.02


class Kept(dict[str, Any]):
    """The state store of the asset."""

    broken = False

    def get(self, key: str, default: Any = None) -> Any:
        if self.broken:
            raise RuntimeError("The API server is away.")
        return super().get(key, default)

    def set(self, key: str, value: Any) -> None:
        if self.broken:
            raise RuntimeError("The API server is away.")
        self[key] = json.loads(json.dumps(value))


@pytest.fixture
def rig(tmp_path: Path, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Runs of an application on a stream that the watcher sees too."""
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    store = SQLStore(f"sqlite:///{tmp_path}/leases.db")
    made = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2), store=store)
    made.time.ms = int(time.time() * 1000)
    monkeypatch.setattr(KinesisStream, "open", lambda *_: made.stream)
    verdicts = {"running": "running", "over": "success"}
    monkeypatch.setattr(
        RuntimeTaskInstance, "get_dagrun_state", staticmethod(lambda dag_id, run_id: verdicts.get(run_id, "success"))
    )
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: {}))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "here")
    yield made
    store.close()
    assert POLLS == {}


def watcher(kept: Kept | None = None, **changes: Any) -> StreamWatcher:
    given: dict[str, Any] = {
        "app_name": "etl",
        "stream_name": "orders",
        "stream": stream_to_json(KinesisStream("orders")),
        "leases": SQLLeases("leases_db").to_json(),
        "every": EVERY,
        "back_off": 3_600.0,
    }
    made = StreamWatcher(**{**given, **changes})
    made.asset_state_store = kept  # type: ignore[assignment]
    return made


class Watched:
    """A watcher that runs, its events and its looks."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.looks = 0

    async def until(self, true: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_until, true, 30, what)

    async def looked(self, more: int) -> None:
        wanted = self.looks + more
        await self.until(lambda: self.looks >= wanted, f"{more} looks")

    async def fired(self, events: int) -> None:
        await self.until(lambda: len(self.events) >= events, f"{events} events, not {self.events}")


@asynccontextmanager
async def watching(*made: StreamWatcher) -> AsyncIterator[Watched]:
    seen = Watched()

    def counted(look: Callable[..., Look]) -> Callable[..., Look]:
        def one(last: WakeUp | None) -> Look:
            seen.looks += 1
            return look(last)

        return one

    async def collect(trigger: StreamWatcher) -> None:
        async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
            async for event in events:
                seen.events.append(event.payload)

    for trigger in made:
        trigger.look = counted(trigger.look)  # type: ignore[method-assign]
    tasks = [asyncio.ensure_future(collect(trigger)) for trigger in made]
    try:
        yield seen
        for task in tasks:
            assert not task.done(), "a watcher never ends by itself"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_it_is_made_of_literals_and_made_anew_from_them() -> None:
    path, arguments = watcher().serialize()
    assert path == "shardbatch.stream_watcher.StreamWatcher"
    assert json.loads(json.dumps(arguments)) == arguments
    assert StreamWatcher(**arguments).serialize() == (path, arguments)


def test_records_make_one_event_without_a_record_and_a_commit_the_next(rig: Rig) -> None:
    async def story() -> None:
        kept = Kept()
        rig.run("r0")
        async with watching(watcher(kept)) as seen:
            await seen.looked(12)
            assert seen.events == [], "nothing is to read"
            rig.stream.put("secret")
            await seen.fired(1)
            await seen.looked(5)
            (event,) = seen.events
            assert event.keys() == {"application", "why", "at"}
            assert (event["application"], "secret" in str(kept)) == ("etl/orders", False)
            assert kept["wake_up"]["why"] == event["why"]
            rig.run("r1")
            await seen.looked(5)
            assert len(seen.events) == 1
            assert kept["watcher"]["found"] == "Nothing to read."
            rig.stream.put("more")
            await seen.fired(2)

    asyncio.run(story())


def test_a_new_application_is_woken_for_once(rig: Rig) -> None:
    async def story() -> None:
        async with watching(watcher(Kept())) as seen:
            await seen.fired(1)
            await seen.looked(5)
            assert [event["why"] for event in seen.events] == ["No run has claimed yet, and the stream has 2 shards."]

    asyncio.run(story())


def test_a_run_at_work_is_asked_of_airflow(rig: Rig) -> None:
    async def story() -> None:
        rig.run("r0")
        rig.stream.put("a")
        rig.claim("running")
        async with watching(watcher(Kept())) as seen:
            await seen.looked(5)
            assert seen.events == []
            for lease in rig.consumer().leases():
                assert rig.store.replace(lease, replace(lease, lease_owner=None, lease_count=lease.lease_count + 1))
            await seen.fired(1)

    asyncio.run(story())


def test_an_event_that_led_to_nothing_is_made_up_for(rig: Rig) -> None:
    async def story() -> None:
        rig.run("r0")
        rig.stream.put("a")
        kept = Kept()
        async with watching(watcher(kept, back_off=0.3)) as seen:
            began = time.monotonic()
            await seen.fired(3)
            assert time.monotonic() - began >= 0.3 + 0.6 - 0.1, "the second pause is twice as long"
            assert kept["wake_up"]["misses"] == 2

    asyncio.run(story())


def test_what_it_noted_holds_in_another_process_and_for_one_that_comes_after_it(rig: Rig) -> None:
    async def story() -> None:
        rig.run("r0")
        rig.stream.put("a")
        kept = Kept()
        async with watching(watcher(kept)) as seen:
            await seen.fired(1)
        async with watching(watcher(kept)) as seen:
            await seen.looked(5)
            assert seen.events == []
            rig.run("r1")
            rig.stream.put("b")
            await seen.fired(1)

    asyncio.run(story())


@pytest.mark.parametrize("kept", [None, Kept()])
def test_without_a_state_store_its_own_memory_counts(rig: Rig, kept: Kept | None) -> None:
    async def story() -> None:
        rig.run("r0")
        rig.stream.put("a")
        if kept is not None:
            kept.broken = True
        async with watching(watcher(kept)) as seen:
            await seen.fired(1)
            await seen.looked(5)
            assert len(seen.events) == 1

    asyncio.run(story())


def test_watchers_of_one_application_share_looks_and_events(rig: Rig) -> None:
    """Two DAG files may say it with two poll intervals; then Airflow runs two triggers."""

    async def story() -> None:
        rig.run("r0")
        rig.stream.put("a")
        kept = Kept()
        one, two = watcher(kept, every=0.3), watcher(kept, every=0.300001)
        async with watching(one, two) as seen:
            await seen.fired(1)
            began, looks = time.monotonic(), seen.looks
            await seen.looked(4)
            assert len(seen.events) == 1
            assert (seen.looks - looks) / (time.monotonic() - began) < 1.5 / 0.3

    asyncio.run(story())


def test_what_a_person_has_to_mend_wakes_a_run_that_fails_by_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        kept = Kept()
        wrong = watcher(kept, stream={"class": "nowhere:Stream"})
        async with watching(wrong) as seen:
            await seen.fired(1)
            await seen.looked(3)
            (event,) = seen.events
            assert "cannot import the stream's class nowhere:Stream" in event["why"]
            assert "Install its module for the triggerer" in kept["watcher"]["found"]
            assert kept["watcher"]["failures"] >= 1

    asyncio.run(story())


@pytest.mark.parametrize("error", [StoreError("It is away."), RuntimeError("A fault of ours, password=hunter2.")])
def test_what_may_pass_is_waited_for_with_growing_pauses_and_tells_if_it_stays(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def story() -> None:
        rig.run("r0")
        rig.stream.put("a")
        kept = Kept()
        made = watcher(kept, back_off=0.5)
        whole, failing = made.look, [True]

        def look(last: WakeUp | None) -> Look:
            if failing[0]:
                raise error
            return whole(last)

        made.look = look  # type: ignore[method-assign]
        began = time.monotonic()
        async with watching(made) as seen:
            await seen.looked(2)
            assert seen.events == []
            await seen.fired(1)
            assert time.monotonic() - began >= 0.5
            assert seen.looks <= 8, "the pauses grow"
            assert "The stream could not be looked at." in seen.events[0]["why"]
            assert "hunter2" not in str(kept)
            failing[0] = False
            await seen.until(lambda: kept["watcher"]["failures"] == 0, "a look that succeeds")

    asyncio.run(story())


def test_a_fault_in_itself_does_not_end_it(rig: Rig) -> None:  # R98
    async def story() -> None:
        rig.run("r0")
        made, faults = watcher(Kept()), [1, 1]
        whole = made._last

        async def last(poll: Any) -> Any:
            if faults:
                faults.pop()
                raise TypeError("a fault")
            return await whole(poll)

        made._last = last  # type: ignore[method-assign]
        async with watching(made) as seen:
            rig.stream.put("a")
            await seen.fired(1)
        assert faults == []

    asyncio.run(story())


def test_an_unknown_lease_store_is_an_error_of_the_configuration(rig: Rig) -> None:
    with pytest.raises(ConfigurationError, match="No lease store of this version"):
        watcher(leases={"kind": "later"}).look(None)


def test_rows_of_the_store_are_only_read(rig: Rig) -> None:
    rig.run("r0")
    rig.stream.put("a")
    before: list[Lease] = list(rig.store.list(SHARD_LEASE, Namespace("etl", "orders")))  # type: ignore[arg-type]
    found = watcher().look(None)
    assert found.due
    assert list(rig.store.list(SHARD_LEASE, Namespace("etl", "orders"))) == before
    assert SimpleNamespace(**found.__dict__).to_look is False
