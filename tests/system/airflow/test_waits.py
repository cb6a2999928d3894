# SPDX-License-Identifier: Apache-2.0
"""A DAG waits for an instant of a stream that a DAG in another file reads: through a split, the loss of the triggerer,
and a time in which nothing comes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def begin(airflow: Deployment, instant: float) -> str:
    until = datetime.fromtimestamp(instant, UTC).isoformat()
    return airflow.start("waits_for", conf={"until": until})


def waits(airflow: Deployment, run: str) -> None:
    airflow.client.wait_for_task("waits_for", run, "whole", ["deferred"], PATIENCE)


def ends(airflow: Deployment, run: str) -> list[str]:
    airflow.succeeds("waits_for", run)
    found: Any = airflow.client.xcom("waits_for", run, "seen")
    return list(found)


def test_all_that_arrived_before_an_instant_is_there_when_the_wait_is_over(airflow: Deployment) -> None:
    clock = airflow.late.clock
    kinesis = boto3.client(
        "kinesis", endpoint_url=airflow.late.endpoint_url, region_name="us-east-1", aws_access_key_id="x",
        aws_secret_access_key="y",
    )  # fmt: skip

    def put(*texts: str) -> None:
        """Each text goes to another open shard, as far as there are enough."""
        listed = kinesis.list_shards(StreamName="waits")["Shards"]
        keys = [
            s["HashKeyRange"]["EndingHashKey"] for s in listed if "EndingSequenceNumber" not in s["SequenceNumberRange"]
        ]
        for text, key in zip(texts, itertools.cycle(keys), strict=False):
            kinesis.put_record(StreamName="waits", Data=text.encode(), PartitionKey=text, ExplicitHashKey=key)

    kinesis.create_stream(StreamName="waits", ShardCount=2)
    wait_until(
        lambda: (
            kinesis.describe_stream_summary(StreamName="waits")["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"
        ),
        30,
        "the stream to be active",
    )
    put("a", "b")
    assert airflow.run("waits")[1] == "success"

    # The instant lies ahead. What arrives before it is spread over a shard, its children, and a run that reads too
    # early to promise anything.
    instant = clock.now() + 100
    run = begin(airflow, instant)
    waits(airflow, run)
    shard, *_ = kinesis.list_shards(StreamName="waits")["Shards"]
    reshard = airflow.start("waits_shards", conf={"shard": shard["ShardId"]})
    for name in ("read", "behind"):
        airflow.client.wait_for_task("waits_shards", reshard, name, ["deferred"], PATIENCE)
    ends_at = int(shard["HashKeyRange"]["EndingHashKey"])
    kinesis.split_shard(StreamName="waits", ShardToSplit=shard["ShardId"], NewStartingHashKey=str(ends_at // 2))
    put("c", "d", "e", "f")
    assert airflow.run("waits")[1] == "success"
    airflow.instance.restart("triggerer")
    clock.advance(90)
    put("g", "h")
    assert airflow.client.task_states("waits_for", run)["whole"] == "deferred"
    clock.advance(75)
    put("later")
    assert airflow.run("waits")[1] == "success"
    assert ends(airflow, run) == ["a", "b", "c", "d", "e", "f", "g", "h", "later"]
    assert airflow.client.xcom("waits_for", run, "whole")["watermark_ms"] >= instant * 1000

    # Nothing comes: an empty run shows that nothing is missing.
    idle = clock.now()
    run = begin(airflow, idle)
    waits(airflow, run)
    clock.advance(65)
    assert airflow.run("waits")[1] == "success"
    assert ends(airflow, run) == ["a", "b", "c", "d", "e", "f", "g", "h", "later"]

    # The shard that was split is read, and what follows it has leases.
    airflow.succeeds("waits_shards", reshard)
    behind: Any = airflow.client.xcom("waits_shards", reshard, "behind")
    assert (behind["parents"], len(behind["children"])) == ([shard["ShardId"]], 2)

    # Nothing comes and nothing runs: the trigger looks at the tips itself.
    idle = clock.now()
    run = airflow.start("waits_idle", conf={"until": datetime.fromtimestamp(idle, UTC).isoformat()})
    airflow.client.wait_for_task("waits_idle", run, "whole", ["deferred"], PATIENCE)
    clock.advance(65)
    airflow.succeeds("waits_idle", run)
    assert airflow.client.xcom("waits_idle", run, "whole")["watermark_ms"] >= idle * 1000

    kinesis.close()
