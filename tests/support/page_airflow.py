# SPDX-License-Identifier: Apache-2.0
"""An Airflow with users, whose applications the Streams page shows: rows of every kind, and a DAG that really runs."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scripts.airflow_client import AirflowClient
from scripts.airflow_instance import AirflowInstance
from scripts.environment import process_environment, python_path
from shardbatch.core.rows import BATCH, SHARD_LEASE, Namespace
from shardbatch.hooks.leases import SQLLeases, store_digest
from shardbatch.local import StreamServer
from shardbatch.stores.sql import SQLStore
from tests.support import page_rows
from tests.support.airflow_instance import PATIENCE, PRELOADED
from tests.support.aws import AwsServer
from tests.support.silence import silent_proxy

DAGS = Path(__file__).parent.parent / "system" / "page" / "dags"
#: Users by their names, which are also their passwords, with the roles of Airflow's simple auth manager.
USERS = {"ada": "admin", "otto": "op", "ursula": "user", "vera": "viewer"}
ADMIN = "ada"
#: Where the page's own JSON stands.
API = "/shardbatch/api"
#: A proxy of the environment must not be asked for loopback.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
#: What the page answers in place of a store or folder that is too slow, as all are on a machine that is busy with other
#: things. It is asked again then, as the page itself does.
BUSY, TRIES = 504, 20
#: The stream of the DAG that runs.
ORDERS = "orders"


@dataclass(frozen=True)
class Answer:
    """What the API server answered."""

    status: int
    body: Any
    seconds: float


@dataclass
class PageAirflow:
    """The Airflow, and what stands in its store."""

    instance: AirflowInstance
    streams: StreamServer
    kinesis: Any
    folder: Path
    #: What is wrong with the application `troubles`: batch or shard by the trouble's name.
    troubles: Mapping[str, str]
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def client(self) -> AirflowClient:
        return self.instance.client

    @property
    def address(self) -> str:
        return self.instance.address

    # -------------------------------------------------------------- who asks

    def session(self, user: str = ADMIN) -> str:
        """The token of a user who has logged in."""
        if user not in self.sessions:
            body = {"username": user, "password": user}
            self.sessions[user] = self.ask("POST", "/auth/token", body=body, user=None).body["access_token"]
        return self.sessions[user]

    def ask(
        self,
        method: str,
        path: str,
        *,
        user: str | None = ADMIN,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """One call over HTTP, as the page makes it: the session is a cookie."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Accept": "application/json", **({"Content-Type": "application/json"} if data else {})}
        if user is not None:
            sent["Cookie"] = f"_token={self.session(user)}"
        url = self.address + path + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(url, data=data, method=method, headers={**sent, **(headers or {})})
        for _ in range(TRIES):
            began = time.monotonic()
            try:
                with OPENER.open(request, timeout=120) as answer:
                    status, content = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, content = error.code, error.read()
            seconds = time.monotonic() - began
            if status != BUSY:
                break
        try:
            return Answer(status, json.loads(content), seconds)
        except ValueError:
            return Answer(status, content, seconds)

    def read(self, endpoint: str, user: str = ADMIN, **query: Any) -> Any:
        """The JSON of an endpoint that must answer."""
        answer = self.ask("GET", f"{API}/{endpoint}", user=user, **query)
        assert answer.status == 200, answer
        return answer.body

    def application(self, name: str) -> dict[str, str]:
        """The address of an application: what every endpoint is asked with."""
        return {"store": store_digest(SQLLeases("leases_page")), "app_name": name, "stream_name": name}

    def route(self, name: str, *rest: str) -> str:
        """The path of an application's view, as the page's address bar has it."""
        place = self.application(name)
        return "/plugin/streams#/app/" + "/".join([*place.values(), *rest])

    # -------------------------------------------------------------- the DAG that runs

    def put(self, count: int) -> None:
        records = [{"Data": b"an order", "PartitionKey": f"key-{n}"} for n in range(count)]
        assert self.kinesis.put_records(StreamName=ORDERS, Records=records)["FailedRecordCount"] == 0

    def tell(self, word: str) -> Path:
        """Leaves a file that the work looks for."""
        told = self.folder / f"{word}-{ORDERS}"
        told.touch()
        return told

    def start(self, run_id: str) -> str:
        self.client.wait_for_dag(ORDERS, timeout=PATIENCE)
        return self.client.trigger(ORDERS, run_id)

    def run(self, run_id: str) -> str:
        """A run from trigger to end: its state."""
        return self.client.wait_for_run(ORDERS, self.start(run_id), PATIENCE)

    def rows(self, name: str) -> tuple[list[Any], list[Any]]:
        """The lease and batch rows of an application."""
        store = SQLStore(f"sqlite:///{self.folder / 'leases.db'}", create=False)
        try:
            return tuple(list(store.list(table, Namespace(name, name))) for table in (SHARD_LEASE, BATCH))
        finally:
            store.close()


@contextmanager
def page_airflow(**settings: str) -> Iterator[PageAirflow]:
    """Starts it all; everything is gone afterwards.

    :param settings: further variables of Airflow's environment.
    """
    with (
        tempfile.TemporaryDirectory(prefix="shardbatch-page-") as name,
        StreamServer() as streams,
        silent_proxy() as silence,
        ThreadPoolExecutor(1, "rows") as pool,
    ):
        folder = Path(name)
        (folder / "staging").mkdir()
        (folder / "passwords.json").write_text(json.dumps({user: user for user in USERS}), "utf-8")
        aws = AwsServer("streams", streams.endpoint_url)
        kinesis = aws.client("kinesis")
        kinesis.create_stream(StreamName=ORDERS, ShardCount=2)
        instance = AirflowInstance(
            folder / "home",
            DAGS,
            base=process_environment(),
            preload=PRELOADED,
            env={**environment(folder, streams.endpoint_url, silence.port), **settings},
        )
        instance.client = AirflowClient(instance.address, (ADMIN, ADMIN))
        writing = pool.submit(write_rows, folder)
        with instance:
            yield PageAirflow(instance, streams, kinesis, folder, writing.result())


def environment(folder: Path, endpoint_url: str, silent_port: int) -> dict[str, str]:
    """Connections, users, and settings that save time."""
    connections = {
        "LEASES_PAGE": {"conn_type": "sqlite", "host": str(folder / "leases.db")},
        "LEASES_SILENT": {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": silent_port,
            "login": "someone",
            "password": "s3cr3t-of-postgres",
            "schema": "leases",
        },
    }
    return {
        **{f"AIRFLOW_CONN_{name}": json.dumps(fields) for name, fields in connections.items()},
        "AIRFLOW_CONN_AWS_PAGE": AwsServer("streams", endpoint_url).connection(),
        "SHARDBATCH_TEST_FOLDER": str(folder),
        "PYTHONPATH": python_path(),
        "AIRFLOW__SHARDBATCH__DEPLOYMENT_ID": page_rows.DEPLOYMENT,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__SHARDBATCH__SHOW_RECORDS": "True",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    }


def write_rows(folder: Path) -> dict[str, str]:
    """The rows of the applications that no DAG runs for; what is wrong with `troubles`."""
    store = SQLStore(f"sqlite:///{folder / 'leases.db'}")
    try:
        store.prepare()
        now_ms = time.time_ns() // 1_000_000
        names = page_rows.troubles(folder, store, now_ms)
        page_rows.wide(folder, store, now_ms)
        page_rows.elsewhere(folder, store, now_ms)
        return names
    finally:
        store.close()
