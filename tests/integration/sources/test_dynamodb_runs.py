# SPDX-License-Identifier: Apache-2.0
"""Runs of an application on a table's stream: claim, read, freeze and commit over rolls, splits and trims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardbatch.local import StreamServer
from tests.integration.sources.dynamodb_world import World, committed, rig_of
from tests.support.aws import REGION


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as running:
        yield running


def test_runs_commit_each_change_of_each_key_once_and_in_order(server: StreamServer, tmp_path: Path) -> None:
    world = World(server, shards=2)
    rig = rig_of(tmp_path, world)
    sent = world.put(*"abcdefgh", *"abcd")
    rig.run("r1")
    assert sorted(committed(rig)) == sorted(sent)
    assert rig.run("idle").batch_id is None
    sent += world.put(*"abcdefgh")
    world.roll()
    sent += world.put(*"abcdefgh")
    rig.run("r2")
    assert rig.run("idle too").batch_id is None
    found = committed(rig)
    for key in "abcdefgh":
        assert [name for name in found if name.startswith(key)] == [name for name in sent if name.startswith(key)]
    assert len(found) == len(sent)
