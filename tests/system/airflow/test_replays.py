# SPDX-License-Identifier: Apache-2.0
"""Replays of a committed batch in a real Airflow: by the run's conf, by the command line, by the operator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from shardbatch.control.status import status
from shardbatch.core.rows import BATCH, Key, Namespace
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import Deployment
from tests.support.starts import shown

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

NAMESPACE = Namespace("test", "replays")


@dataclass
class Replayed:
    """The first run, the batch that it committed, and what stood in the store then."""

    airflow: Deployment
    run_id: str
    batch_id: str
    sent: list[str]
    leases: list[Any]

    def version(self, name: str) -> None:
        (self.airflow.folder / "replays-version").write_text(name, "utf-8")

    def shown(self) -> list[str]:
        """What a reader by committed markers sees of the batch."""
        return shown(self.airflow.folder / "replays-out")

    def owner(self) -> str:
        return self._ask(lambda store: store.get(Key(BATCH, NAMESPACE, ("", self.batch_id))).owner)

    def last_action(self) -> str:
        return self._ask(lambda store: status(store, NAMESPACE).last_action)

    def _ask(self, question: Any) -> Any:
        store = SQLStore(f"sqlite:///{self.airflow.folder / 'leases.db'}", create=False)
        try:
            return question(store)
        finally:
            store.close()

    def require_nothing_moved(self) -> None:
        assert self.airflow.leases("replays") == self.leases
        assert len(self.airflow.events("replays")) == 1


def printed(output: str) -> dict[str, Any]:
    """The one object that a command printed, behind what Airflow may have logged."""
    (found,) = json.loads(output[output.rindex("[\n  {") :])
    return dict(found)


@pytest.fixture(scope="module")
def replayed(airflow: Deployment) -> Replayed:
    airflow.create_stream("replays")
    sent = airflow.put("replays", 0, 20)
    (airflow.folder / "replays-version").write_text("v1", "utf-8")
    run_id, state = airflow.run("replays")
    assert state == "success"
    batch_id = airflow.xcom("replays", run_id, "freeze", "batch_id")
    airflow.put("replays", 20, 30)  # what a replay must leave alone
    found = Replayed(airflow, run_id, batch_id, sent, airflow.leases("replays"))
    assert found.shown() == [f"v1:{text}" for text in sent]
    return found


def test_a_run_that_is_told_the_batch_replaces_its_output_and_moves_nothing(replayed: Replayed) -> None:
    airflow = replayed.airflow
    replayed.version("v2")
    airflow.tell("hold-replays")
    conf = {"batch.replay": replayed.batch_id}
    again = airflow.start("replays", conf=conf)
    airflow.client.wait_for_task("replays", again, "batch.transform", ["running"])
    # While it is at work, another is refused and told who has the batch; readers still see the older output.
    second, state = airflow.run("replays", conf=conf)
    assert (state, airflow.states("replays", second)["claim"]) == ("failed", "failed")
    log = airflow.log("replays", second, "claim")
    assert "local/replays/" in log
    assert "which is not over" in log
    assert replayed.shown() == [f"v1:{text}" for text in replayed.sent]

    (airflow.folder / "hold-replays").unlink()
    assert airflow.client.wait_for_run("replays", again) == "success"
    assert airflow.xcom("replays", again, "claim", "outcome") == "replay"
    assert airflow.states("replays", again)["read"] == "skipped"
    committed = airflow.xcom("replays", again, "commit", "committed")
    assert (committed["newly"], committed["replayed"], committed["decided"]) == (False, True, 2)
    assert replayed.shown() == [f"v2:{text}" for text in replayed.sent]
    replayed.require_nothing_moved()

    # The run that committed it, cleared later, is refused and changes nothing.
    assert airflow.again("replays", replayed.run_id, ["transform"], include_downstream=True) == "failed"
    states = airflow.states("replays", replayed.run_id)
    assert (states["freeze"], states["transform"]) == ("failed", "upstream_failed")
    attempt = airflow.client.wait_for_task("replays", replayed.run_id, "batch.freeze", ["failed"])["try_number"]
    assert again in airflow.log("replays", replayed.run_id, "freeze", attempt)
    assert replayed.shown() == [f"v2:{text}" for text in replayed.sent]
    replayed.require_nothing_moved()


@pytest.mark.long
def test_the_command_line_previews_and_then_starts_the_run(replayed: Replayed) -> None:
    airflow = replayed.airflow
    replayed.version("v3")
    words = ("shardbatch", "replay", "-a", "test", "-s", "replays", "-l", "sql://leases_local", "-o", "json")
    before = len(airflow.client.runs("replays"))
    preview = printed(airflow.instance.airflow(*words, "--batch", replayed.batch_id))
    assert (preview["dag_id"], preview["conf"]) == ("replays", {"batch.replay": replayed.batch_id})
    assert (preview["records"], preview["files"], preview["result"]) == (20, "all there", "would start")
    assert len(airflow.client.runs("replays")) == before

    done = airflow.instance.airflow(*words, "--batch", replayed.batch_id, "--yes", "--reason", "the currency was wrong")
    started = printed(done)
    assert airflow.client.wait_for_run("replays", started["run_id"]) == "success"
    assert replayed.shown() == [f"v3:{text}" for text in replayed.sent]
    run = airflow.client.run("replays", started["run_id"])
    assert run["note"] == replayed.last_action()
    assert run["note"].endswith("of DAG replays: the currency was wrong")
    replayed.require_nothing_moved()


@pytest.mark.long
def test_an_operator_starts_the_run_and_clearing_it_replays_once_more(replayed: Replayed) -> None:
    airflow = replayed.airflow
    replayed.version("v4")
    conf = {"batch_id": replayed.batch_id, "reason": "a new rate"}
    asking, state = airflow.run("replays_asked_for", conf=conf)
    assert state == "success"
    run_id = airflow.client.xcom("replays_asked_for", asking, "again", "trigger_run_id")
    assert replayed.shown() == [f"v4:{text}" for text in replayed.sent]
    assert run_id in replayed.owner()
    assert "task again of DAG replays_asked_for" in replayed.last_action()

    replayed.version("v5")
    before = len(airflow.client.runs("replays"))
    airflow.client.clear("replays_asked_for", asking)
    assert airflow.client.wait_for_run("replays_asked_for", asking) == "success"
    assert replayed.shown() == [f"v5:{text}" for text in replayed.sent]
    assert len(airflow.client.runs("replays")) == before
    replayed.require_nothing_moved()


def test_files_that_were_removed_are_named(replayed: Replayed) -> None:
    airflow, before = replayed.airflow, replayed.shown()
    for path in (airflow.folder / "staging" / "test" / "replays" / "slices").rglob("part-*.parquet"):
        path.rename(path.with_name(f"away-{path.name}"))
    run_id, state = airflow.run("replays", conf={"batch.replay": replayed.batch_id})
    assert (state, airflow.states("replays", run_id)["claim"]) == ("failed", "failed")
    assert "of its files are not in" in airflow.log("replays", run_id, "claim")
    assert replayed.shown() == before
