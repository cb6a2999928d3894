# SPDX-License-Identifier: Apache-2.0
"""Claimers that race each other: one wins, and no update is lost."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import lease
from shardbatch.core.lease import Lease
from shardbatch.core.rows import Namespace
from tests.contract.stores.racer import win
from tests.contract.stores.rows import fresh

CLAIMERS = 30


@pytest.mark.parametrize("separate", [False, True], ids=["one-store", "six-stores"])
def test_one_of_thirty_claimers_wins_each_round(backend: Any, store: Any, namespace: Namespace, separate: bool) -> None:
    shards = ["s-1", "s-2", "s-3"]
    stores = [backend.open() for _ in range(6)] if separate else [store]
    gate = threading.Barrier(CLAIMERS)

    def claim(number: int, seen: Lease | None, shard: str) -> Lease | None:
        mine = stores[number % len(stores)]
        gate.wait(60)
        if seen is None:
            new = dataclasses.replace(fresh(namespace, shard), lease_owner=f"w{number}")
            return new if mine.create(new) else None
        new = lease.take(seen, f"w{number}", None, number)
        return new if mine.replace(seen, new) else None

    with ThreadPoolExecutor(CLAIMERS) as pool:
        for shard in shards:
            seen: Lease | None = None
            for _ in range(4):
                answers = list(pool.map(claim, range(CLAIMERS), [seen] * CLAIMERS, [shard] * CLAIMERS))
                winners = [answer for answer in answers if answer]
                assert len(winners) == 1
                seen = winners[0]
                assert store.get(seen.key) == seen
    for each in stores:
        each.close()


def test_no_update_is_lost_between_threads(backend: Any, store: Any, row: Lease) -> None:
    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(lambda n: win(store, row.key, f"w{n}", 101), range(8)))
    assert sum(wins) == 100
    assert store.get(row.key).lease_count == 101


def test_no_update_is_lost_between_processes(backend: Any, store: Any, namespace: Namespace) -> None:
    if backend.url is None:
        pytest.skip("lives in one process")
    shards = ["s-1", "s-2"]
    for shard in shards:
        assert store.create(fresh(namespace, shard))
    task = {"url": backend.url, "options": backend.options, "app_name": namespace.app_name,
            "stream_name": namespace.stream_name, "shards": shards, "target": 41}  # fmt: skip
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.contract.stores.racer", json.dumps({**task, "owner": f"w{n}"})],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        for n in range(4)
    ]
    won = [json.loads(racer.communicate(timeout=120)[0]) for racer in racers]
    assert [sum(column) for column in zip(*won, strict=True)] == [40, 40]
