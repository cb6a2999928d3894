# SPDX-License-Identifier: Apache-2.0
"""The context of every use-case: an application on a stream, and the ports to stream, store and staging."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.metrics import Measure, unmeasured
from shardbatch.core.owner import ResetHolder
from shardbatch.core.policies import ClaimOptions, Outputs, Policies
from shardbatch.core.ports import (
    SYSTEM_CLOCK,
    Clock,
    Landing,
    LeaseStore,
    Liveness,
    Source,
    Verdict,
)
from shardbatch.core.position import TRIM_HORIZON, Position
from shardbatch.core.rows import APPLICATION, BATCH, SCHEMA_VERSION, SHARD_LEASE, Key, Namespace
from shardbatch.core.say import Say, Show, unshown
from shardbatch.errors import ApplicationRemoved, ApplicationUnknown, OwnerUnknown, StoreNotFound, UnsupportedSchema

log = logging.getLogger("shardbatch")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of an application on a stream, in one scope of a lease store."""

    namespace: Namespace
    store: LeaseStore
    scope: str = ""
    clock: Clock = SYSTEM_CLOCK

    def application(self) -> Application | None:
        """The current row of the application.

        :raises UnsupportedSchema: if it is of a version that this one does not read.
        """
        return cast(Application | None, self.store.get(Key(APPLICATION, self.namespace, ())))

    def expect_application(self) -> Application:
        """The application's own row, which must exist.

        :raises ApplicationUnknown: if it does not.
        """
        row = self.application()
        if row is None:
            raise ApplicationUnknown(f"There is no application {self.namespace} in this lease store.")
        return row

    def require_version(self) -> Application | None:
        """Check that the application's rows, if it has any, are of this code's version, and that it was not removed.
        Returns its own row.

        :raises UnsupportedSchema: if they are of the version before, or of another that this one does not read.
        :raises ApplicationRemoved: if a person removed it.
        """
        row = self.require_schema()
        return None if row is None else require_there(row)

    def require_schema(self) -> Application | None:
        """Check that the application's rows, if it has any, are of this code's version. Returns its own row.

        :raises UnsupportedSchema: if they are of the version before, or of another that this one does not read.
        """
        row = self.application()
        if row is not None and row.schema_version != SCHEMA_VERSION:
            raise UnsupportedSchema(
                f"The rows of {self.namespace} have schema version {row.schema_version}; this shardbatch works in "
                f"version {SCHEMA_VERSION}.",
                remedy="Once no worker of the earlier version is left, run 'airflow shardbatch migrate -a "
                f"{self.namespace.app_name} -s {self.namespace.stream_name} --yes --reason ...' (docs/upgrade.md).",
            )
        return row

    def leases(self, **equal: str) -> list[Lease]:
        """The lease rows of this scope whose columns equal the given texts."""
        rows = self.store.list(SHARD_LEASE, self.namespace, self.scope, **equal)
        return list(cast("Iterator[Lease]", rows))

    def lease(self, shard_id: str) -> Lease | None:
        """One lease row as it stands now."""
        key = Key(SHARD_LEASE, self.namespace, (self.scope, shard_id))
        return cast(Lease | None, self.store.get(key))

    def batch(self, batch_id: str) -> Batch | None:
        """One batch row as it stands now."""
        key = Key(BATCH, self.namespace, (self.scope, batch_id))
        return cast(Batch | None, self.store.get(key))

    def batches_of(self, owner: str) -> list[Batch]:
        """The batch rows of an owner, oldest first."""
        rows = self.store.list(BATCH, self.namespace, self.scope, owner=owner)
        return sorted(cast("Iterator[Batch]", rows), key=lambda batch: batch.batch_id)

    def has_batch(self, owner: str) -> bool:
        """Whether an owner has a batch that was not given up. Where nothing was ever claimed, it has none."""
        try:
            return any(batch.state is not BatchState.VOID for batch in self.batches_of(owner))
        except StoreNotFound:
            return False

    def now_ms(self) -> int:
        """The worker's clock. It is only recorded, never compared with another machine's."""
        return self.clock.now_ms()


@dataclass(frozen=True, kw_only=True)
class Consumer(Rows):
    """An application on a stream.

    ``start`` counts only at the first claim. ``deployment`` is the id of this Airflow; owners of another id belong to
    another deployment. With ``replay`` the run works only on that committed batch: it calls no stream and takes no
    lease. With an ``interval`` the run reads that span through side leases of its own ``scope`` (PROTOCOL H): live
    leases are neither read nor moved; limits, ``max_shards`` and ``drain_lineage`` do not apply; and the side leases
    are deleted at the end.
    """

    source: Source
    landing: Landing
    liveness: Liveness
    deployment: str
    interval: Interval | None = None
    replay: str | None = None
    start: Position = TRIM_HORIZON
    limits: ReadLimits = field(default_factory=ReadLimits)
    options: ClaimOptions = field(default_factory=ClaimOptions)
    policies: Policies = field(default_factory=Policies)
    outputs: Outputs = field(default_factory=Outputs)
    say: Say = log.info
    warn: Say = log.warning
    measure: Measure = unmeasured
    show: Show = unshown

    def close(self) -> None:
        """Close the connections of the source and the store."""
        self.source.close()
        self.store.close()


def require_there(row: Application) -> Application:
    """The row of an application that was not removed (PROTOCOL X1).

    :raises ApplicationRemoved: if it was.
    """
    if row.removed is not None:
        raise ApplicationRemoved(f"The application {row.namespace} was removed: {row.removed}.")
    return row


def first_count() -> int:
    """A counter for a new row: random, so that a row made again never meets a value its key has had (PROTOCOL L1)."""
    return secrets.randbelow(1 << 48) + 1


def new_batch_id(now_ms: int) -> str:
    """A unique id that sorts by time and says when it was drawn (PROTOCOL D1)."""
    moment = time.strftime("%Y%m%dt%H%M%S", time.gmtime(now_ms / 1000))
    return f"{moment}{now_ms % 1000:03d}-{secrets.token_hex(8)}"


class Verdicts:
    """Asks once for every owner whether it has finished. If this is unknown, the owner keeps its rows, and ``unknown``
    has the reason."""

    def __init__(self, consumer: Consumer, me: str) -> None:
        self.unknown: OwnerUnknown | None = None
        self._consumer = consumer
        self._me = me
        self._known: dict[str, Verdict] = {}

    def __call__(self, owner: str) -> Verdict:
        if owner == self._me or not owner:
            return Verdict.OVER
        if owner not in self._known:
            self._known[owner] = Verdict.ACTIVE if ResetHolder.parse(owner) else self._ask(owner)
        return self._known[owner]

    def _ask(self, owner: str) -> Verdict:
        try:
            return self._consumer.liveness(owner)
        except OwnerUnknown as error:
            self.unknown = self.unknown or error
            self._consumer.warn(f"{owner} keeps its leases and batches: {error}")
            return Verdict.ACTIVE
