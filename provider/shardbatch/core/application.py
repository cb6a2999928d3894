# SPDX-License-Identifier: Apache-2.0
"""The application row: which stream it reads, where it began, who has worked on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from shardbatch.core.owner import Owner
from shardbatch.core.position import LATEST, TRIM_HORIZON, Kind, Position
from shardbatch.core.rows import (
    APPLICATION,
    INT,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    TEXTS_IF_ANY,
    Key,
    Namespace,
    Row,
    column,
)
from shardbatch.core.shard import KeyRange
from shardbatch.errors import UnsupportedSchema

#: The schema version of a row that names none.
FIRST_VERSION = 1


@dataclass(frozen=True)
class Group:
    """A group whose runs claim leases, and for how long a live one of them shows no sign of life at most."""

    deployment: str
    dag_id: str
    group_id: str
    lease_duration_ms: int

    def __str__(self) -> str:
        task = f"group {self.group_id!r}" if self.group_id else "a task without a group"
        return f"{task} of DAG {self.dag_id!r} (deployment {self.deployment!r})"

    @property
    def work(self) -> tuple[str, str]:
        """What is the same in two deployments that run the same DAG."""
        return self.dag_id, self.group_id

    @property
    def place(self) -> tuple[str, str, str]:
        """The group of one deployment."""
        return self.deployment, self.dag_id, self.group_id


def _write_groups(groups: Sequence[Group]) -> str:
    return json.dumps([asdict(group) for group in groups])


def _read_groups(text: str) -> tuple[Group, ...]:
    names = [item.name for item in fields(Group)]  # what a later version may have added is passed over
    return tuple(Group(**{name: item[name] for name in names}) for item in json.loads(text))


def _write_bounds(intervals: Sequence[tuple[int, int]]) -> str | None:
    return json.dumps(intervals) if intervals else None


def _write_places(places: Sequence[tuple[str, Position]]) -> str | None:
    texts = {shard_id: str(place) for shard_id, place in places}
    return json.dumps(texts, separators=(",", ":")) if texts else None


def _read_places(text: str) -> tuple[tuple[str, Position], ...]:
    return tuple((shard_id, Position.parse(place)) for shard_id, place in json.loads(text).items())


def _read_bounds(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(start), int(end)) for start, end in json.loads(text))


@dataclass(frozen=True)
class Application(Row):
    """An independent consumer of a stream.

    ``stream_id`` tells the stream from another one of the same name. ``start_position`` is resolved: it is ``LATEST``
    only of a stream that cannot be read from an instant, and then ``start_places`` has the place of each shard that was
    there at the first claim.
    ``claimed_by`` are the groups that have claimed leases, so that one that took the name by mistake is told.
    ``retention_ms`` is how long the stream kept a record at the last claim, ``None`` if unknown. Records that
    arrived before ``gone_before_ms`` may be gone whatever the retention is: it was changed since.
    ``longest_retention_ms`` is the longest time that it kept a record at any claim. While ``importing`` says what is
    being taken over, by whom and why, nothing may be claimed: leases are missing. ``shown_intervals`` are those, in
    milliseconds, whose records live readers see or may come to see.

    For the watermark (PROTOCOL C): ``key_space`` has the keys that the stream's shards divide among them, ``None`` if
    it has none or is not known. Without one, ``listed_whole_ms`` is when the last listing was begun that was whole and
    all of whose shards have rows, by the stream's clock; ``listed_over`` names the shards that were completed before it
    and had no child. ``reset_count`` counts resets and restarts.
    ``complete_from_ms`` is the instant up to which a person had records passed over, or another library had read them;
    ``None``: no other than the start.

    ``removed`` says who removed the application, when and why: from then on nothing of it is claimed, frozen or
    committed (PROTOCOL X). ``removed_from`` is the staging folder that its files are removed from.
    """

    table = APPLICATION

    namespace: Namespace
    stream_id: str = field(metadata=TEXT)
    start_position: Position = field(metadata=column("text", Position.parse, str))
    row_count: int = field(metadata=INT)
    schema_version: int = field(default=SCHEMA_VERSION, metadata=column("int", int, absent=FIRST_VERSION))
    deployments: tuple[str, ...] = field(default=(), metadata=TEXTS)
    claimed_by: tuple[Group, ...] = field(default=(), metadata=column("text", _read_groups, _write_groups))
    last_action: str | None = field(default=None, metadata=TEXT)
    retention_ms: int | None = field(default=None, metadata=INT)
    gone_before_ms: int | None = field(default=None, metadata=INT)
    longest_retention_ms: int | None = field(default=None, metadata=INT)
    importing: str | None = field(default=None, metadata=TEXT)
    shown_intervals: tuple[tuple[int, int], ...] = field(
        default=(), metadata=column("text", _read_bounds, _write_bounds)
    )
    start_places: tuple[tuple[str, Position], ...] = field(
        default=(), metadata=column("text", _read_places, _write_places)
    )
    key_space: KeyRange | None = field(default=None, metadata=column("text", KeyRange.parse, str))
    listed_whole_ms: int | None = field(default=None, metadata=INT)
    reset_count: int = field(default=0, metadata=INT)
    complete_from_ms: int | None = field(default=None, metadata=INT)
    listed_over: tuple[str, ...] = field(default=(), metadata=TEXTS_IF_ANY)
    removed: str | None = field(default=None, metadata=TEXT)
    removed_from: str | None = field(default=None, metadata=TEXT)

    @property
    def root_start(self) -> Position:
        """Where a shard begins that has no place of its own and comes from no other shard: one that was not there when
        the application began at the tips of the others is new, so all that it holds is wanted."""
        return TRIM_HORIZON if self.start_position == LATEST else self.start_position

    @property
    def complete_from(self) -> int | None:
        """The instant from which on nothing is left out but recorded gaps; ``None``: there is no such instant, since it
        began with the oldest record, or at tips."""
        if self.complete_from_ms is not None:
            return self.complete_from_ms
        return self.start_position.timestamp_ms if self.start_position.kind is Kind.AT_TIMESTAMP else None

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(APPLICATION, self.namespace, ())

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Application:
        """The row of its columns.

        :raises UnsupportedSchema: if its rows have a major version that this code does not read.
        """
        version = int(columns.get("schema_version") or FIRST_VERSION)
        if not SCHEMA_VERSION - 1 <= version <= SCHEMA_VERSION:
            raise UnsupportedSchema(
                "The rows of {}/{} have schema version {}; this shardbatch reads {} and {}.".format(
                    columns["app_name"], columns["stream_name"], version, SCHEMA_VERSION - 1, SCHEMA_VERSION
                )
            )
        return super().from_columns(columns)

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

    def dividing(self, key_space: KeyRange | None) -> Application:
        """With the keys that the stream's shards divide among them."""
        return replace(self, key_space=key_space, row_count=self.row_count + 1)

    def listed(self, begun_ms: int, over: tuple[str, ...]) -> Application:
        """With a later listing that was whole, all of whose shards have rows.

        :param over: the shards that were completed before it and had no child.
        """
        return replace(self, listed_whole_ms=begun_ms, listed_over=over, row_count=self.row_count + 1)

    def reset(self, left_out_ms: int | None) -> Application:
        """With one reset more: what was said of its watermark before counts no longer.

        :param left_out_ms: the instant up to which the reset leaves records out; ``None``: it leaves out none.
        """
        known = [ms for ms in (self.complete_from, left_out_ms) if ms is not None]
        return replace(
            self,
            reset_count=self.reset_count + 1,
            complete_from_ms=max(known, default=None),
            row_count=self.row_count + 1,
        )

    def acted(self, note: str) -> Application:
        """With the last thing a person did to it."""
        return replace(self, last_action=note, row_count=self.row_count + 1)

    def imported(self, note: str, complete_from_ms: int) -> Application:
        """With all leases taken over: from now on they may be claimed. What the other library read is in no batch."""
        return replace(self.acted(note), importing=None, complete_from_ms=complete_from_ms)

    def showing(self, interval: tuple[int, int]) -> Application:
        """With an interval among those that live readers see."""
        return replace(
            self, shown_intervals=tuple(sorted({*self.shown_intervals, interval})), row_count=self.row_count + 1
        )

    def closed(self, note: str, staging: str) -> Application:
        """Removed from now on, with its files in a staging folder."""
        return replace(self.acted(note), removed=note, removed_from=staging)

    def reopened(self, note: str) -> Application:
        """Not removed after all: a run was at work, and nothing is gone."""
        return replace(self.acted(note), removed=None, removed_from=None)

    def migrated(self, note: str) -> Application:
        """In this code's schema version; that of the version before does not work on it any more."""
        return replace(self.acted(note), schema_version=SCHEMA_VERSION)

    def renewed(self, stream_id: str, start: Position, note: str) -> Application:
        """On another stream of the same name, from a start of its own."""
        fresh = TRIM_HORIZON if start == LATEST else start  # the tips were those of the other stream
        return replace(
            self.acted(note),
            reset_count=self.reset_count + 1,
            complete_from_ms=None,
            stream_id=stream_id,
            start_position=fresh,
            start_places=(),
            listed_whole_ms=None,
            listed_over=(),
        )
