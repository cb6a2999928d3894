# SPDX-License-Identifier: Apache-2.0
"""Who may call what: every endpoint, as each role and without a login, over HTTP against a real API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount

from tests.support.page_airflow import API, USERS, PageAirflow

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

#: What the page sends with everything that changes something.
OURS = {"X-Shardbatch": "act"}
ALL = dict.fromkeys(USERS, 200)
#: Who may edit the DAGs: Airflow's viewers may only read them.
EDITORS = {**ALL, "vera": 403}
#: Who may edit connections, which the page asks for where an application has no DAG here; to others it is not there.
ADMINS = {"ada": 200, "otto": 200, "ursula": 404, "vera": 404}


@dataclass(frozen=True)
class Asked:
    """How an endpoint is asked about an application, and what the users get; without a login it is always 401."""

    expected: Mapping[str, int]
    #: What is wrong with `troubles` by which a batch or a shard is named.
    batch: str = ""
    shard: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    application: str = "troubles"


READING = {
    "/api/application": {},
    "/api/shards": {},
    "/api/batches": {},
    "/api/completeness": {},
    "/api/reading": {},
    "/api/batch": {"batch": "parked"},
    "/api/shard": {"shard": "gap"},
}
#: Every endpoint that there is, with one call or more.
CALLS: dict[tuple[str, str], list[Asked]] = {
    ("GET", "/api/applications"): [Asked(ALL, application="")],
    ("GET", "/api/place"): [Asked(ALL, application="", more={"dag_id": "troubles"})],
    ("GET", "/api/records"): [Asked(EDITORS, batch="parked", shard="parked shard")],
    ("POST", "/api/act"): [Asked(EDITORS), Asked(ADMINS, application="elsewhere")],
    **{
        ("GET", path): [Asked(ALL, **named), *([] if named else [Asked(ADMINS, application="elsewhere")])]
        for path, named in READING.items()
    },
}


def routes() -> dict[tuple[str, str], APIRoute]:
    """The endpoints of the page, and nothing but its files beside them."""
    from shardbatch_plugin.web.app import app

    found = [route for route in app.routes if isinstance(route, APIRoute)]
    (files,) = [route for route in app.routes if not isinstance(route, APIRoute)]
    assert isinstance(files, Mount)
    assert files.path == "/static"
    return {(method, route.path): route for route in found for method in route.methods - {"HEAD"}}


def call(airflow: PageAirflow, method: str, path: str, asked: Asked, user: str | None) -> int:
    query = {**(airflow.application(asked.application) if asked.application else {}), **asked.more}
    names = {"batch_id": asked.batch, "shard_id": asked.shard}
    query |= {name: airflow.troubles[trouble] for name, trouble in names.items() if trouble}
    if method == "GET":
        return airflow.ask(method, f"/shardbatch{path}", user=user, **query).status
    body = {**query, "verb": "reset", "chosen": {"every": True, "to": "TRIM_HORIZON"}, "preview": True}
    return airflow.ask(method, f"/shardbatch{path}", user=user, body=body, headers=OURS).status


def test_each_endpoint_answers_those_who_may(airflow: PageAirflow) -> None:
    assert set(CALLS) == set(routes())
    wrong = []
    for (method, path), calls in CALLS.items():
        for asked in calls:
            for user, expected in [*asked.expected.items(), (None, 401)]:
                status = call(airflow, method, path, asked, user)
                if status != expected:
                    wrong.append((method, path, asked.application, user, status, expected))
    assert wrong == []


def test_a_list_has_what_the_reader_may_see_and_no_secret(airflow: PageAirflow) -> None:
    of_dags = {"orders", "silent", "troubles", "wide"}
    for user, expected in {"ada": {*of_dags, "elsewhere"}, "vera": of_dags}.items():
        answer = airflow.ask("GET", f"{API}/applications", user=user)
        assert {row["app_name"] for row in answer.body["applications"]} | {"silent"} == expected
        assert "s3cr3t" not in str(answer.body)


def test_the_files_of_the_page_are_public_and_hold_no_data(airflow: PageAirflow) -> None:
    answer = airflow.ask("GET", "/shardbatch/static/streams.js", user=None)
    assert answer.status == 200
    assert airflow.ask("GET", "/shardbatch/static/../web/app.py", user=None).status in (401, 404)


def test_a_request_from_another_origin_changes_nothing(airflow: PageAirflow) -> None:
    act = f"{API}/act"
    body: dict[str, Any] = {
        **airflow.application("elsewhere"),
        "verb": "reset",
        "chosen": {"every": True, "to": "TRIM_HORIZON"},
    }
    preview = airflow.ask("POST", act, body={**body, "preview": True}, headers=OURS)
    assert preview.status == 200, preview
    deed = {**body, "preview": False, "reason": "a drill", "token": preview.body["token"]}
    before = airflow.rows("elsewhere")
    foreign = [
        {**OURS, "Origin": "http://evil.example"},
        {**OURS, "Origin": "null"},
        {**OURS, "Sec-Fetch-Site": "cross-site"},
        {**OURS, "Sec-Fetch-Site": "same-site"},
        {**OURS, "Content-Type": "text/plain"},
        {},  # a form of another site cannot send the header
    ]
    answers = [airflow.ask("POST", act, body=deed, headers=headers).status for headers in foreign]
    assert answers == [403] * len(foreign)
    assert airflow.rows("elsewhere") == before
    own = {**OURS, "Origin": airflow.address, "Sec-Fetch-Site": "same-origin"}
    done = airflow.ask("POST", act, body=deed, headers=own)
    assert (done.status, done.body["done"]) == (200, True), done
    leases, _ = airflow.rows("elsewhere")
    assert {str(lease.checkpoint) for lease in leases} == {"TRIM_HORIZON"}
    assert all(" ada " in lease.note for lease in leases)
