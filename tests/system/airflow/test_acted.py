# SPDX-License-Identifier: Apache-2.0
"""The Streams page of a real Airflow: from a failed run to what is wrong, and what a person does from there."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

import pytest

from shardbatch import SQLLeases
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.hooks.leases import store_digest
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import PATIENCE, Deployment

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

FROM_THE_PAGE = {"X-Shardbatch": "act", "Sec-Fetch-Site": "same-origin"}


class Page:
    """The page's JSON, asked as a browser asks."""

    def __init__(self, airflow: Deployment) -> None:
        self._address = airflow.instance.address
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is behind no proxy
        with self._opener.open(f"{self._address}/auth/token", timeout=60) as answer:
            self._token = json.loads(answer.read())["access_token"]

    def get(self, path: str, **query: Any) -> Any:
        status, answer = self._send("GET", f"{path}?{urlencode(query)}", None, {})
        assert status == 200, answer
        return answer

    def act(self, body: Any, **headers: str) -> tuple[int, Any]:
        return self._send("POST", "act", body, {**FROM_THE_PAGE, "Origin": self._address, **headers})

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}", **headers}
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._address}/shardbatch/api/{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=sent)
        try:
            with self._opener.open(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


def test_from_a_failed_run_to_what_is_wrong_and_what_to_press(airflow: Deployment) -> None:
    airflow.create_stream("acted", shards=1)
    airflow.put("acted", 0, 10)
    told = airflow.tell("fail-acted")
    run_id, unstaged = airflow.start("acted"), airflow.start("no_staging")
    assert airflow.client.wait_for_run("acted", run_id, PATIENCE) == "failed"
    assert airflow.client.wait_for_run("no_staging", unstaged, PATIENCE) == "failed"
    told.unlink()
    page = Page(airflow)

    # The error that a task has left is there after its failure.
    answer = page.get("place", dag_id="no_staging", run_id=unstaged)
    banner = answer["banner"]
    assert (banner["level"], banner["task_id"]) == ("error", "batch.claim")
    assert "StagingMissing: The staging folder file://" in banner["text"]
    assert "missing/too" in banner["text"]
    assert banner["remedy"]

    batch_id = airflow.xcom("acted", run_id, "freeze", "batch_id")
    address = {"store": store_digest(SQLLeases("leases_local")), "app_name": "test", "stream_name": "acted"}
    answer = page.get("place", dag_id="acted", run_id=run_id, task_id="batch.work")
    assert answer["places"] == [{**address, "group_id": "batch", "batch_id": batch_id, "shard_id": None}]
    assert f"Batch {batch_id} waits for it." in answer["banner"]["text"]
    read = page.get("place", dag_id="acted", run_id=run_id, task_id="batch.read", map_index=0)
    assert [one["shard_id"] for one in read["places"]] == [lease.shard_id for lease in airflow.leases("acted")]

    def ask(verb: str, **more: Any) -> dict[str, Any]:
        return {**address, "verb": verb, "chosen": {"batch_id": batch_id}, "preview": True, **more}

    def batch() -> Any:
        store = SQLStore(f"sqlite:///{airflow.folder / 'leases.db'}", create=False)
        try:
            [row] = store.list(BATCH, Namespace("test", "acted"))
            return row
        finally:
            store.close()

    before = batch()
    for headers in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}, {"X-Shardbatch": ""}):
        status, refused = page.act(ask("park"), **headers)
        assert (status, refused["error"]) == (403, "Forbidden"), headers
    status, preview = page.act(ask("park"))
    assert (status, [row["result"] for row in preview["rows"]], preview["done"]) == (200, ["would park"], False)
    _, aside = page.act(ask("set-aside"))
    assert "its owner is over" in aside["rows"][0]["effect"]  # as Airflow's own database says in the API server
    _, release = page.act(ask("release"))
    assert [row["result"] for row in release["rows"]] == ["would release"]
    status, refused = page.act(ask("park", preview=False, token=release["token"], reason="of another preview"))
    assert (status, refused["error"]) == (409, "StalePreview")
    assert batch() == before

    status, parked = page.act(ask("park", preview=False, token=preview["token"], reason="its sink is away"))
    assert (status, parked["done"], parked["rows"][0]["result"]) == (200, True, "parked")
    assert "Anonymous parked: its sink is away" in batch().note
    status, refused = page.act(ask("release", preview=False, token=release["token"], reason="a second tab"))
    assert (status, refused["error"]) == (409, "StalePreview")
    _, preview = page.act(ask("unpark"))
    status, resumed = page.act(ask("unpark", preview=False, token=preview["token"], reason="it is back"))
    assert (status, resumed["rows"][0]["result"]) == (200, "unparked")
