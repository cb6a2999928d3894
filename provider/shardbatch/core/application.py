# SPDX-License-Identifier: Apache-2.0
"""The application row: which stream it reads, where it began, who has worked on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from shardbatch.core.owner import Owner
from shardbatch.core.position import Position
from shardbatch.core.rows import APPLICATION, SCHEMA_VERSION, Columns, Key, Namespace, Row, int_or_none, text_or_none
from shardbatch.errors import UnsupportedSchema


@dataclass(frozen=True)
class Group:
    """A group whose runs claim leases, and for how long a live one of them shows no sign of life at most."""

    deployment: str
    dag_id: str
    group_id: str
    lease_duration_ms: int

    def __str__(self) -> str:
        task = "group {!r}".format(self.group_id) if self.group_id else "a task without a group"
        return "{} of DAG {!r} (deployment {!r})".format(task, self.dag_id, self.deployment)

    @property
    def work(self) -> tuple[str, str]:
        """What is the same in two deployments that run the same DAG."""
        return self.dag_id, self.group_id

    @property
    def place(self) -> tuple[str, str, str]:
        """The group of one deployment."""
        return self.deployment, self.dag_id, self.group_id


@dataclass(frozen=True)
class Application(Row):
    """An independent consumer of a stream.

    ``stream_id`` tells the stream from another one of the same name; ``start_position`` is resolved, never ``LATEST``.
    ``claimed_by`` are the groups that have claimed leases, so that one that took the name by mistake is told.
    ``retention_ms`` is how long the stream kept a record at the last claim, ``None`` if unknown. Records that
    arrived before ``gone_before_ms`` may be gone whatever the retention is: it was changed since.
    ``longest_retention_ms`` is the longest time that it kept a record at any claim. While ``importing`` says what is
    being taken over, by whom and why, nothing may be claimed: leases are missing. ``shown_intervals`` are those, in
    milliseconds, whose records live readers see or may come to see.
    """

    namespace: Namespace
    stream_id: str
    start_position: Position
    row_count: int
    schema_version: int = SCHEMA_VERSION
    deployments: tuple[str, ...] = ()
    claimed_by: tuple[Group, ...] = ()
    last_action: str | None = None
    retention_ms: int | None = None
    gone_before_ms: int | None = None
    longest_retention_ms: int | None = None
    importing: str | None = None
    shown_intervals: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(APPLICATION, self.namespace, ())

    @property
    def counter(self) -> int:
        """``row_count``."""
        return self.row_count

    def columns(self) -> Columns:
        """All columns but the key's."""
        return {
            "stream_id": self.stream_id,
            "start_position": str(self.start_position),
            "schema_version": self.schema_version,
            "deployments": json.dumps(list(self.deployments)),
            "claimed_by": json.dumps([asdict(group) for group in self.claimed_by]),
            "last_action": self.last_action,
            "retention_ms": self.retention_ms,
            "gone_before_ms": self.gone_before_ms,
            "longest_retention_ms": self.longest_retention_ms,
            "importing": self.importing,
            "shown_intervals": json.dumps(self.shown_intervals) if self.shown_intervals else None,
            "row_count": self.row_count,
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Application:
        """The row of its columns.

        :raises UnsupportedSchema: if its rows have a major version that this code does not read.
        """
        get = columns.get
        version = int(get("schema_version") or 1)
        if not SCHEMA_VERSION - 1 <= version <= SCHEMA_VERSION:
            raise UnsupportedSchema(
                "The rows of {}/{} have schema version {}; this shardbatch reads {} and {}.".format(
                    columns["app_name"], columns["stream_name"], version, SCHEMA_VERSION - 1, SCHEMA_VERSION
                )
            )
        return cls(
            namespace=Namespace(columns["app_name"], columns["stream_name"]),
            stream_id=columns["stream_id"],
            start_position=Position.parse(columns["start_position"]),
            row_count=int(columns["row_count"]),
            schema_version=version,
            deployments=tuple(json.loads(get("deployments") or "[]")),
            claimed_by=_groups(get("claimed_by")),
            last_action=text_or_none(get("last_action")),
            retention_ms=int_or_none(get("retention_ms")),
            gone_before_ms=int_or_none(get("gone_before_ms")),
            longest_retention_ms=int_or_none(get("longest_retention_ms")),
            importing=text_or_none(get("importing")),
            shown_intervals=tuple((int(start), int(end)) for start, end in json.loads(get("shown_intervals") or "[]")),
        )

    def joined(self, group: Group) -> Application:
        """With a group, and its deployment, among those that have worked on it; its last word on its silence counts."""
        deployments = tuple(sorted({*self.deployments, group.deployment}))
        others = [known for known in self.claimed_by if known.place != group.place]
        groups = tuple(sorted([*others, group], key=lambda known: known.place))
        return replace(self, deployments=deployments, claimed_by=groups, row_count=self.row_count + 1)

    def keeping(self, retention_ms: int | None, now_ms: int) -> Application:
        """With the retention that the stream has at this instant of its own clock, ``None`` if it does not say.

        It is unknown when it was changed since the last claim, so it may have been the shorter one until now: what was
        older than that may be gone, and stays gone when the retention is longer.
        """
        before = [ms for ms in (self.longest_retention_ms, self.retention_ms) if ms is not None]
        since = [ms for ms in (self.retention_ms, retention_ms) if ms is not None]
        gone_before_ms = self.gone_before_ms
        if before and since and self.retention_ms != retention_ms:
            gone_before_ms = max(gone_before_ms or 0, now_ms - min(since))
        return replace(
            self,
            retention_ms=retention_ms,
            gone_before_ms=gone_before_ms,
            longest_retention_ms=max(before + since, default=None),
            row_count=self.row_count + 1,
        )

    def stranger(self, group: Group) -> Group | None:
        """A group that claims here already, if the given one does not, in whatever deployment."""
        if any(known.work == group.work for known in self.claimed_by):
            return None
        return self.claimed_by[0] if self.claimed_by else None

    def silence_ms(self, owner: Owner | None) -> int:
        """How long a live owner may show no sign of life, as its group said at its last claim; 0 if it never did."""
        place = (owner.deployment, owner.dag_id, owner.group_id) if owner else None
        return max((known.lease_duration_ms for known in self.claimed_by if known.place == place), default=0)

    def acted(self, note: str) -> Application:
        """With the last thing a person did to it."""
        return replace(self, last_action=note, row_count=self.row_count + 1)

    def imported(self, note: str) -> Application:
        """With all leases taken over: from now on they may be claimed."""
        return replace(self.acted(note), importing=None)

    def showing(self, interval: tuple[int, int]) -> Application:
        """With an interval among those that live readers see."""
        return replace(
            self, shown_intervals=tuple(sorted({*self.shown_intervals, interval})), row_count=self.row_count + 1
        )

    def migrated(self, note: str) -> Application:
        """In this code's schema version; that of the version before does not work on it any more."""
        return replace(self.acted(note), schema_version=SCHEMA_VERSION)

    def renewed(self, stream_id: str, start: Position, note: str) -> Application:
        """On another stream of the same name, from a start of its own."""
        return replace(self.acted(note), stream_id=stream_id, start_position=start)


def _groups(text: Any) -> tuple[Group, ...]:
    names = [item.name for item in fields(Group)]  # what a later version may have added is passed over
    return tuple(Group(**{name: item[name] for name in names}) for item in json.loads(text or "[]"))
