# SPDX-License-Identifier: Apache-2.0
"""The assets of an application, as a DAG file writes them and Airflow keeps them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.triggers.base import BaseEventTrigger

from shardbatch import DynamoDBLeases, KinesisStream, SQLLeases, stream_asset
from shardbatch.assets import committed_batches
from shardbatch.errors import ConfigurationError

NAMED: dict[str, Any] = {"app_name": "etl", "stream": KinesisStream("orders"), "leases": SQLLeases("leases_db")}


def trigger_of(**changes: Any) -> Any:
    (watcher,) = stream_asset(**{**NAMED, **changes}).watchers
    return watcher.trigger


def test_what_is_unread_is_another_asset_than_what_is_committed() -> None:
    """A commit must not wake the DAG that committed."""
    unread, committed = stream_asset(**NAMED), committed_batches("etl", "orders")
    assert (unread.name, unread.uri) == ("etl/orders/unread", "x-shardbatch://etl/orders/unread")
    assert (committed.name, committed.uri) == ("etl/orders", "x-shardbatch://etl/orders")
    assert unread.group == committed.group == "shardbatch"
    odd = stream_asset(**{**NAMED, "app_name": "a b?"})
    assert odd.uri == "x-shardbatch://a%20b%3F/orders/unread"


def test_the_watcher_has_what_the_author_said() -> None:
    made = trigger_of(poll_interval=timedelta(seconds=7), back_off=timedelta(minutes=1))
    assert (made.app_name, made.every, made.back_off) == ("etl", 7.0, 60.0)
    assert made.leases == SQLLeases("leases_db").to_json()
    assert (trigger_of().every, trigger_of().back_off) == (30.0, 300.0)


def test_a_lease_store_may_be_text_or_the_deployments_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trigger_of(leases="dynamodb://table").leases == DynamoDBLeases("table").to_json()
    with pytest.raises(ConfigurationError, match="No leases given"):
        trigger_of(leases=None)
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://of_all")
    assert trigger_of(leases=None).leases == SQLLeases("of_all").to_json()


def test_airflow_makes_the_same_trigger_of_each_version_of_a_dag() -> None:
    """Else it would end the watcher and start another one at each parse."""

    def kept() -> Any:
        with DAG("d", schedule=[stream_asset(**NAMED)]) as dag:
            pass
        (asset,) = DagSerialization.to_dict(dag)["dag"]["timetable"]["__var"]["asset_condition"]["objects"]
        return asset["watchers"][0]["trigger"]

    first, second = kept(), kept()
    assert first == second
    assert BaseEventTrigger.hash(first["classpath"], first["kwargs"]) == BaseEventTrigger.hash(
        *trigger_of().serialize()
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"app_name": "{{ var.value.app }}"}, "is a template"),
        ({"app_name": "a/b"}, "app_name"),
        ({"stream": KinesisStream("{{ var.value.stream }}")}, "is a template"),
        ({"leases": SQLLeases("{{ var.value.db }}")}, "is a template"),
        ({"leases": "mongo://x"}, r"stream_asset\(leases\)"),
        ({"stream": "orders"}, "cannot be handed to the triggerer"),
        ({"poll_interval": timedelta(seconds=0.5)}, "a second or more"),
        ({"poll_interval": timedelta(minutes=6)}, "not less than"),
    ],
)
def test_mistakes_show_when_the_dag_is_parsed(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        stream_asset(**{**NAMED, **changes})


def test_it_is_made_of_names_only(connection: Callable[..., None]) -> None:
    """No connection is asked for, nor a store opened, in a DAG file."""
    assert stream_asset(**{**NAMED, "leases": SQLLeases("not_there")}).watchers
