# SPDX-License-Identifier: Apache-2.0
"""Rows for the lease store suite, and the hook that loses requests and answers."""

from __future__ import annotations

from collections.abc import Callable

from shardbatch.core import lease
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.slice import LandedFile, Slice


def fresh(namespace: Namespace, shard_id: str, *, scope: str = "", count: int = 1) -> Lease:
    shard = Shard(shard_id, ("p1", "p2"), KeyRange(0, 2**128 - 1))
    return lease.add(namespace, scope, shard, TRIM_HORIZON, count, now_ms=7)


def frozen(namespace: Namespace, batch_id: str, owner: str = "w1", *, scope: str = "") -> Batch:
    return Batch(namespace, scope, batch_id, owner, 1, BatchState.FROZEN, attempt=1, records=2**40, created_at_ms=9)


def slice_of(size: int) -> Slice:
    """A slice whose text in the row has at least so many bytes."""
    files = tuple(LandedFile(f"slices/{n:064}", n, n) for n in range(size // 90))
    return Slice("shardId-000", TRIM_HORIZON, after("77"), False, files, records=3, last="77")


def losing(moment: str, times: int) -> Callable[[str], None]:
    """A hook that loses so many requests (before) or answers (after)."""
    left = [times]

    def hook(now: str) -> None:
        if now == moment and left[0]:
            left[0] -= 1
            raise TimeoutError("lost by the test")

    return hook
