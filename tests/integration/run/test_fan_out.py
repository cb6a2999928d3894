# SPDX-License-Identifier: Apache-2.0
"""Whole runs that read by enhanced fan-out, on the embedded server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.position import SHARD_END
from shardbatch.errors import Throttled
from shardbatch.sources.kinesis.options import FanOut
from shardbatch.tasks.steps import Steps
from tests.integration.sources.kinesis_world import STREAM, stopped_server
from tests.support.resharded import Resharded


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Resharded]:
    with stopped_server(heartbeat_seconds=0.02) as server:
        yield Resharded(server, tmp_path, shards=2, fan_out=FanOut.ALWAYS, app_name="etl")


def consumers(stream: Resharded) -> int:
    summary = stream.world.client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    return int(summary["ConsumerCount"])


def test_a_resharded_stream_is_drained_by_one_run_and_the_consumer_goes(stream: Resharded) -> None:
    stream.put()
    stream.split()
    stream.put()
    stream.merge(1)
    stream.put()
    limits = ReadLimits(concurrency=1)  # so that there are two read tasks
    consumer, owner = stream.rig.consumer(limits=limits), stream.rig.owner("r1")
    steps = Steps(consumer, owner)
    groups = steps.claim().groups
    assert len(groups) == 2
    for group in groups:
        steps.land(group.group, None, threading.Event())
        assert consumers(stream) == (1 if group is groups[0] else 0)
    frozen = stream.rig.freeze("r1")
    assert frozen.record_count == sum(stream.sent.values())
    assert stream.server.calls.count("GetRecords") == 0
    stream.rig.work(frozen)
    stream.rig.commit("r1", frozen)
    closed = [row for row in stream.rig.consumer().leases() if row.checkpoint == SHARD_END]
    assert len(closed) == 3


def test_runs_with_a_limit_of_bytes_get_one_event_after_the_other(stream: Resharded) -> None:
    sizes = [600_000, 700_000, 800_000]
    for size in sizes:
        entry = {"PartitionKey": "k", "ExplicitHashKey": "0", "Data": b"x" * size}
        stream.world.client.put_records(StreamName=STREAM, Records=[entry])
    found = [stream.rig.run(f"r{number}", limits=ReadLimits(bytes=500_000)).records for number in range(4)]
    assert found == [1, 1, 1, 0]


def test_a_consumer_that_is_not_ready_in_time_ends_the_read_with_its_time(stream: Resharded) -> None:
    stream.put()
    stream.server.options.consumer_seconds = 600
    began = stream.server.clock.now()
    with pytest.raises(Throttled, match="No answer came"):
        stream.rig.run("r1", limits=ReadLimits(duration=timedelta(seconds=20)))
    assert 20 <= stream.server.clock.now() - began < 45
    stream.rig.over("r1")
    stream.server.clock.advance(600)
    assert stream.rig.run("r2").records == sum(stream.sent.values())
