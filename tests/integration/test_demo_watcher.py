# SPDX-License-Identifier: Apache-2.0
"""The demo looks at the lease store while the first claim is still making it."""

from __future__ import annotations

import threading
from pathlib import Path

from scripts.airflow_client import AirflowClient
from scripts.demo.console import Console
from scripts.demo.watcher import NAMESPACE, Watcher
from shardbatch.core import lease as leases_of
from shardbatch.core.application import Application
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.shard import Shard
from shardbatch.stores.sql import SQLStore


def test_nothing_is_seen_until_the_first_claim_has_made_the_application(tmp_path: Path) -> None:
    leases = tmp_path / "leases.db"
    watcher = Watcher(AirflowClient("http://127.0.0.1:1"), leases, Console(), threading.Event())
    assert (watcher.shards(), watcher.batches()) == ((), ())
    store = SQLStore(f"sqlite:///{leases}")
    store.prepare()
    assert (watcher.shards(), watcher.batches()) == ((), ())
    assert store.create(Application(NAMESPACE, "a stream", TRIM_HORIZON, 1))
    assert (watcher.shards(), watcher.batches()) == ((), ())
    assert store.create(leases_of.add(NAMESPACE, "", Shard("s", (), None), TRIM_HORIZON, 1, 1))
    assert [shard.shard_id for shard in watcher.shards()] == ["s"]
    store.close()
    watcher.close()
