# SPDX-License-Identifier: Apache-2.0
"""Our sensors: one deadline from the first try on, literals in the trigger, one look for all that ask the same."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.serialization.serialized_objects import DagSerialization

from shardbatch import BacklogSensor, CommittedUpToSensor, KinesisStream, SQLLeases
from shardbatch.control.questions import Answer, Backlog, CommittedUpTo
from shardbatch.core.application import Application
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.position import after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange
from shardbatch.errors import ConfigurationError, StoreError
from shardbatch.hooks.leases import DynamoDBLeases, leases_from
from shardbatch.hooks.shardbatch import ShardbatchHook
from shardbatch.sensors.waiting import SLACK
from shardbatch.stores.sql import SQLStore
from shardbatch.triggers import LOOKS, Asking

NAMESPACE = Namespace("etl", "orders")
T0 = 1_800_000_000_000
UNTIL = "2027-01-15T08:00:00+00:00"
NAMED: dict[str, Any] = {"app_name": "etl", "stream": KinesisStream("orders"), "leases": SQLLeases("leases_db")}
SEEN = Lease(
    NAMESPACE, "", "s-1", None, 1, after("9"), hash_range=KeyRange(0, 9), committed_to=f"{T0}@9"
)  # until a minute before T0


class Kept(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


def context(cleared: int = 0, kept: Kept | None = None) -> Any:
    run = SimpleNamespace(run_id="r1", clear_number=cleared, start_date=None)
    ti = SimpleNamespace(max_tries=cleared, try_number=1 + cleared)
    return {"dag_run": run, "ti": ti, "task_state_store": Kept() if kept is None else kept}


@pytest.fixture
def store(tmp_path: Path, connection: Callable[..., None]) -> Iterator[SQLStore]:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    with closing(SQLStore(f"sqlite:///{tmp_path}/leases.db")) as made:
        made.prepare()
        begun = Application(NAMESPACE, "arn@1", at_timestamp(T0 - 9_000_000), 1, key_space=KeyRange(0, 9))
        assert made.create(begun)
        assert made.create(SEEN)
        yield made


def sensor(**given: Any) -> CommittedUpToSensor:
    return CommittedUpToSensor(task_id="wait", **{**NAMED, "until": UNTIL, "deferrable": True, **given})


def deferred(made: Any, given: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        made.execute(given)
    return caught.value


def asking(**changes: Any) -> Asking:
    given = {
        "question": CommittedUpTo(T0).to_json(), "app_name": "etl", "stream": "orders",
        "leases": SQLLeases("leases_db").to_json(), "every": 0.01, "deadline": time.time() + 60, **changes,
    }  # fmt: skip
    return Asking(**given)


def outcome(trigger: Asking) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        return dict((await anext(trigger.run())).payload)

    return asyncio.run(asyncio.wait_for(first(), 30))


def test_a_connection_that_a_triggerer_lacks_is_waited_for_and_named() -> None:
    """A secrets backend may be away for a moment."""
    said = outcome(asking(leases=SQLLeases("nowhere").to_json(), deadline=time.time() + 0.1))
    assert said["outcome"] == "timeout"
    assert "The lease store or the stream could not be asked: There is no Airflow connection 'nowhere'" in said["why"]


def test_what_is_there_already_needs_no_trigger(store: SQLStore) -> None:
    made = sensor(until="2027-01-15T07:59:00+00:00")
    assert made.execute(context())["watermark_ms"] == T0 - MARGIN_MS


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
def test_it_also_pokes_and_reschedules(store: SQLStore, mode: str) -> None:
    made = sensor(until="2027-01-15T07:59:00+00:00", mode=mode, deferrable=None)
    assert not made.deferrable
    done = made.poke(context())
    assert (done.is_done, done.xcom_value["watermark_ms"]) == (True, T0 - MARGIN_MS)  # type: ignore[union-attr]
    assert not made.__class__(task_id="w", **{**NAMED, "until": UNTIL, "mode": mode}).poke(context())


def test_a_trigger_has_literals_only_and_is_made_anew_from_them(store: SQLStore) -> None:
    order = deferred(sensor(timeout=600, poke_interval=7), context())
    path, arguments = order.trigger.serialize()
    assert path == "shardbatch.triggers.Asking"
    assert json.loads(json.dumps(arguments)) == arguments
    assert arguments["every"] == 7
    assert Asking(**arguments).serialize() == (path, arguments)
    assert order.timeout is not None
    assert timedelta(seconds=590) < order.timeout - SLACK <= timedelta(seconds=600)


def test_a_worker_that_will_defer_asks_the_rows_alone(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many sensors begin at once; their triggers share a look at the stream, their workers could not."""
    asked: list[Any] = []

    def ask(self: ShardbatchHook, question: Any, *_: Any) -> Answer:
        asked.append(self.stream)
        return Answer(False, "not yet")

    monkeypatch.setattr(ShardbatchHook, "ask", ask)
    assert deferred(sensor(), context()).trigger.serialize()[1]["source"]["name"] == "orders"
    assert not sensor(mode="reschedule", deferrable=None).poke(context())
    with pytest.raises(AirflowSensorTimeout):
        sensor(timeout=0).execute(context())
    assert asked == ["orders", NAMED["stream"], NAMED["stream"]]


def test_the_deadline_stands_from_the_first_try_until_the_task_is_cleared(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:  # R86
    kept, now = Kept(), time.time()
    made = sensor(timeout=600)
    first = deferred(made, context(kept=kept)).trigger.serialize()[1]["deadline"]
    monkeypatch.setattr(time, "time", lambda: now + 500)
    assert deferred(made, context(kept=kept)).trigger.serialize()[1]["deadline"] == first
    cleared = deferred(made, context(cleared=1, kept=kept)).trigger.serialize()[1]["deadline"]
    assert cleared > first + 400
    monkeypatch.setattr(time, "time", lambda: now + 5_000)
    with pytest.raises(AirflowSensorTimeout):
        made.execute(context(cleared=1, kept=kept))


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
def test_a_retry_has_the_same_deadline_in_every_mode(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:  # R86
    kept, now = Kept(), time.time()
    assert not sensor(timeout=600, mode=mode, deferrable=None).poke(context(kept=kept))
    monkeypatch.setattr(time, "time", lambda: now + 601)
    with pytest.raises(AirflowSensorTimeout, match="held back by s-1"):
        sensor(timeout=600, mode=mode, deferrable=None).poke(context(kept=kept))
    with pytest.raises(AirflowSkipException):
        sensor(timeout=600, mode=mode, deferrable=None, soft_fail=True).poke(context(kept=kept))


@pytest.mark.parametrize(("more", "raised"), [({}, AirflowSensorTimeout), ({"never_fail": True}, AirflowSkipException)])
def test_without_time_it_looks_once(store: SQLStore, more: dict[str, Any], raised: type[Exception]) -> None:
    with pytest.raises(raised, match="held back by s-1"):
        sensor(timeout=timedelta(0), **more).execute(context())
    assert sensor(timeout=0, until="2027-01-15T07:59:00+00:00").execute(context())["watermark_ms"] == T0 - MARGIN_MS


@pytest.mark.parametrize(("soft", "raised"), [(False, AirflowSensorTimeout), (True, AirflowSkipException)])
def test_a_deadline_that_passes_fails_or_skips(store: SQLStore, soft: bool, raised: type[Exception]) -> None:
    made = sensor(soft_fail=soft)
    found = outcome(asking(deadline=time.time() + 0.05))
    assert found["outcome"] == "timeout"
    with pytest.raises(raised, match="held back by s-1"):
        made.come_back(context(), found)
    with pytest.raises(raised):
        made.resume_execution("__fail__", {"error": "Trigger timeout"}, context())


def test_what_can_never_be_fails_at_once_in_every_mode(store: SQLStore) -> None:
    old = "2027-01-15T01:00:00+00:00"
    with pytest.raises(AirflowFailException, match="complete from"):
        sensor(until=old).execute(context())
    with pytest.raises(AirflowFailException, match="complete from"):
        sensor(until=old, deferrable=False).execute(context())
    found = outcome(asking(question=CommittedUpTo(5).to_json()))
    with pytest.raises(AirflowFailException, match="complete from"):
        sensor().come_back(context(), found)
    with pytest.raises(AirflowSkipException):
        sensor(soft_fail=True).come_back(context(), found)


def test_a_deferred_sensor_never_looks_without_a_pause(store: SQLStore) -> None:
    assert deferred(sensor(poke_interval=0), context()).trigger.serialize()[1]["every"] == 1.0


def test_the_trigger_fires_when_the_rows_say_so(store: SQLStore) -> None:
    async def moved() -> dict[str, Any]:
        trigger = asking().run()
        task = asyncio.ensure_future(anext(trigger))
        await asyncio.sleep(0.1)
        assert not task.done()
        assert store.replace(SEEN, replace(SEEN, lease_count=2, committed_to=f"{T0 + MARGIN_MS}@9"))
        return dict((await asyncio.wait_for(task, 30)).payload)

    found = asyncio.run(moved())
    assert found["outcome"] == "reached"
    assert sensor().resume_execution("come_back", {"event": found}, context())["watermark_ms"] == T0


def test_an_application_that_has_not_claimed_yet_is_waited_for(store: SQLStore) -> None:
    order = deferred(sensor(app_name="later"), context())
    assert order.trigger.serialize()[1]["app_name"] == "later"
    found = outcome(asking(app_name="later", deadline=time.time() + 0.05))
    assert (found["outcome"], "claimed for the first time" in found["why"]) == ("timeout", True)


def test_a_store_that_is_away_is_asked_again(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask(self: ShardbatchHook, question: Any, *_: Any) -> Answer:
        asked.append(1)
        if len(asked) < 3:
            raise StoreError("It is away.")
        return Answer(True, told={"n": 3})

    monkeypatch.setattr(ShardbatchHook, "ask", ask)
    assert outcome(asking()) == {"outcome": "reached", "told": {"n": 3}}


def test_a_store_that_is_away_at_the_first_look_is_asked_again(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: ShardbatchHook, question: Any, *_: Any) -> Answer:
        raise StoreError("It is away.")

    monkeypatch.setattr(ShardbatchHook, "ask", away)
    assert isinstance(deferred(sensor(), context()).trigger, Asking)
    assert not sensor(mode="reschedule", deferrable=None).poke(context())
    with pytest.raises(AirflowSensorTimeout, match="It is away"):
        sensor(timeout=0).execute(context())


def count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reads of the lease store from now on, and how often it is opened."""
    found: list[str] = []

    def counting(name: str) -> None:
        real = getattr(SQLStore, name)

        def counted(self: SQLStore, *given: Any, **more: Any) -> Any:
            found.append(name)
            return real(self, *given, **more)

        monkeypatch.setattr(SQLStore, name, counted)

    for name in ("list", "get", "prepare"):
        counting(name)
    return found


def wait_for_all(*triggers: Asking) -> list[dict[str, Any]]:
    async def all_of_them() -> list[dict[str, Any]]:
        return [dict(found.payload) for found in await asyncio.gather(*(anext(trigger.run()) for trigger in triggers))]

    return asyncio.run(asyncio.wait_for(all_of_them(), 60))


def many(**changes: Any) -> list[Asking]:
    """Triggers of one application, each with a question of its own."""
    instants = (CommittedUpTo(T0 + second).to_json() for second in range(30))
    return [asking(question=question, **changes) for question in (*instants, Backlog(landed_records=-1).to_json())]


def test_all_that_wait_for_an_application_share_a_look_that_fails(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[float] = []

    def away(self: SQLStore) -> None:
        opened.append(time.monotonic())
        raise StoreError("It is away.")

    monkeypatch.setattr(SQLStore, "prepare", away)
    found = wait_for_all(*many(every=5.0, deadline=time.time() + 0.2))
    assert {(one["outcome"], "It is away" in one["why"]) for one in found} == {("timeout", True)}
    assert len(opened) <= 5, (
        "one look at the beginning, one at the deadline at most twice, and one at a tick if it fell"
    )


def test_the_last_look_is_not_an_old_answer(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([Answer(False, "not yet"), Answer(True, told={"n": 2})])
    monkeypatch.setattr(ShardbatchHook, "ask", lambda self, question, *_: next(said))
    assert outcome(asking(every=3_600, deadline=time.time() + 0.1)) == {"outcome": "reached", "told": {"n": 2}}


def test_however_many_questions_wait_for_an_application_a_look_reads_its_rows_once(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question of its own, at the beginning, at four ticks, and at the deadline."""
    reads = count(monkeypatch)

    def spent(triggers: Callable[[], list[Asking]]) -> int:
        reads.clear()
        assert {found["outcome"] for found in wait_for_all(*triggers())} == {"timeout"}
        return len(reads)

    def waits() -> dict[str, Any]:
        return {"every": 0.5, "deadline": time.time() + 2.2}

    one = spent(lambda: [asking(question=CommittedUpTo(T0 + 1).to_json(), **waits())])
    all_of_them = spent(lambda: many(**waits()))
    # A look is opened once and reads the application and the leases twice; the backlog reads both once more.
    assert one <= 7 * 5
    assert all_of_them <= 8 * (5 + 3), f"{all_of_them} reads for 31 questions, {one} for one"
    assert LOOKS._shared == {}


def test_applications_do_not_share_a_look(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count(monkeypatch)
    waits = {"every": 5.0, "deadline": time.time() + 0.2}
    wait_for_all(asking(question=CommittedUpTo(T0 + 1).to_json(), **waits), asking(app_name="other", **waits))
    assert reads.count("prepare") >= 4, "each at the beginning and at the deadline"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"until": "2027-01-15T08:00:00"}, "no time zone"),
        ({"until": ""}, "no data interval"),
        ({"until": "soon"}, "not an instant"),
        ({"since": UNTIL}, "is not before"),
    ],
)
def test_an_instant_that_cannot_be_used_is_refused(store: SQLStore, given: dict[str, Any], said: str) -> None:
    with pytest.raises(AirflowFailException, match=said):
        sensor(**given).execute(context())


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: sensor(accept=["gap"]), "accept="),
        (lambda: sensor(accept="gaps"), "accept="),
        (lambda: BacklogSensor(task_id="w", **NAMED), "no bound"),
        (lambda: BacklogSensor(task_id="w", **NAMED, behind=timedelta(seconds=-1)), "no bound"),
        (lambda: CommittedUpToSensor(task_id="w", until=UNTIL), "which application"),
    ],
)
def test_mistakes_show_when_the_dag_is_parsed(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made()


@pytest.mark.parametrize(
    ("until", "ms"),
    [("08:00:00", T0), ("08:00:00.000001", T0 + 1), ("08:00:00.001", T0 + 1), ("08:00:00.999", T0 + 999)],
)
def test_until_counts_to_the_last_millisecond_that_begins_before_it(store: SQLStore, until: str, ms: int) -> None:
    made = sensor(until=f"2027-01-15T{until}+00:00", since=f"2027-01-15T09:00:{until[6:]}+02:00")
    asked = made.question(context())
    assert asked.until_ms == ms
    assert asked.since_ms == ms - 3_600_000 - (until.endswith("000001"))


def test_a_mode_among_the_default_arguments_is_given(store: SQLStore) -> None:
    with DAG("d", schedule=None, default_args={"mode": "reschedule"}):
        assert not CommittedUpToSensor(task_id="a", **NAMED).deferrable
        assert CommittedUpToSensor(task_id="b", **NAMED, deferrable=True).deferrable
    with DAG("e", schedule=None, default_args={"poke_interval": 5}):
        assert CommittedUpToSensor(task_id="a", **NAMED).deferrable
    with DAG("f", schedule=None, default_args={"mode": "poke"}):
        assert not CommittedUpToSensor(task_id="a", **NAMED).deferrable


def test_sensors_stand_the_same_in_each_version_of_a_dag(store: SQLStore) -> None:
    def text() -> str:
        with DAG("d", schedule=None) as dag:
            sensor(until=datetime(2027, 1, 15, tzinfo=UTC))
            mapped: dict[str, Any] = {"task_id": "mapped", **NAMED}
            CommittedUpToSensor.partial(**mapped).expand(until=[UNTIL])
            BacklogSensor(task_id="b", **NAMED, behind=timedelta(minutes=1))
        made = DagSerialization.to_dict(dag)
        assert set(DagSerialization.from_dict(made).task_dict) == {"wait", "mapped", "b"}
        return json.dumps(made, sort_keys=True)

    assert text() == text()


def test_a_backlog_sensor_asks_its_bounds(store: SQLStore) -> None:
    made = BacklogSensor(task_id="w", **NAMED, behind=timedelta(days=9_000), deferrable=True)
    assert made.execute(context())["landed_records"] == 0
    deferred(BacklogSensor(task_id="w", **NAMED, landed_records=1, exceeded=True, deferrable=True), context())


@pytest.mark.parametrize(
    "leases",
    [SQLLeases("a", create=False), DynamoDBLeases("t"), DynamoDBLeases("t", None, "eu-west-1", create=False)],
)
def test_a_lease_store_is_literals_and_back(leases: Any) -> None:
    assert leases_from(json.loads(json.dumps(leases.to_json()))) == leases
    with pytest.raises(ConfigurationError, match="same version"):
        leases_from({"kind": "later"})
