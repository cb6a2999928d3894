# SPDX-License-Identifier: Apache-2.0
"""One process of a race: raises the counter of leases to a target by compare-and-set; prints how often it won."""

from __future__ import annotations

import json
import sys
from typing import Any

from shardbatch.core import lease
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import SHARD_LEASE, Key, Namespace
from shardbatch.stores import open_store


def win(store: LeaseStore, key: Key, owner: str, target: int) -> int:
    """Takes the lease again and again until its counter has reached the target; how often this taker won."""
    won = 0
    while True:
        row: Any = store.get(key)
        if row.lease_count >= target:
            return won
        won += store.replace(row, lease.take(row, owner, None, 0))


def main() -> None:
    task = json.loads(sys.argv[1])
    options = dict(task["options"])
    if "endpoint_url" in options:
        from tests.support.aws import AwsServer

        options["client"] = AwsServer("race", options.pop("endpoint_url")).client("dynamodb")
    store = open_store(task["url"], **options)
    store.prepare()
    namespace = Namespace(task["app_name"], task["stream_name"])
    keys = [Key(SHARD_LEASE, namespace, ("", shard)) for shard in task["shards"]]
    print(json.dumps([win(store, key, task["owner"], task["target"]) for key in keys]))
    store.close()


if __name__ == "__main__":
    main()
