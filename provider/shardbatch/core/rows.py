# SPDX-License-Identifier: Apache-2.0
"""How rows are kept: their keys, their tables' columns, and the walk between rows and columns.

A backend knows tables, keys and columns only. Within a major version columns are only added; a column that a reader
does not know is passed over and left as it is, one that a row lacks takes its default. What is new stands in a column
of its own, never inside the JSON of another: an earlier version writes that anew without what it does not know. (Of a
slice, what an earlier version drops that way are counts: its oddities, its waiting.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Major version of the rows. This code reads this one and the one before, but works in this one only: until a person
#: says `migrate`, an application of the version before is left to the workers of that version.
SCHEMA_VERSION = 2

Columns = dict[str, Any]


@dataclass(frozen=True)
class Namespace:
    """The rows of one application on one stream stand under ``app_name/stream_name``."""

    app_name: str
    stream_name: str

    def __post_init__(self) -> None:
        for what, text in (("app_name", self.app_name), ("stream_name", self.stream_name)):
            if not text or "/" in text or text != text.strip() or not text.isprintable():
                raise ValueError("{} {!r} must be printable text without a slash or outer blanks".format(what, text))

    def __str__(self) -> str:
        return "{}/{}".format(self.app_name, self.stream_name)


@dataclass(frozen=True)
class Column:
    """One column: ``type`` is ``text``, ``int`` or ``bool``; every column but a key may be null."""

    name: str
    type: str


@dataclass(frozen=True)
class Table:
    """One kind of row. ``key`` columns follow the namespace; ``counter`` is what compare-and-set compares."""

    name: str
    key: tuple[str, ...]
    counter: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Key:
    """A row's key: its table, its namespace, and the values of the table's own key columns."""

    table: Table
    namespace: Namespace
    values: tuple[str, ...]

    def columns(self) -> Columns:
        """The key columns and their values."""
        named: Columns = {"app_name": self.namespace.app_name, "stream_name": self.namespace.stream_name}
        named.update(zip(self.table.key, self.values))
        return named


class Row(ABC):
    """What every row offers a store; implemented by ``Lease``, ``Batch`` and ``Application``."""

    @property
    @abstractmethod
    def key(self) -> Key:
        """The row's key."""

    @property
    @abstractmethod
    def counter(self) -> int:
        """The number that every write raises."""

    @abstractmethod
    def columns(self) -> Columns:
        """All columns but the key's: text, int, bool or None."""

    @classmethod
    @abstractmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Row:
        """The row of key and other columns together."""


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*item.split(":")) for item in text.split())


SHARD_LEASE = Table(
    "shard_lease",
    ("scope", "shard_id"),
    "lease_count",
    _columns(
        "lease_owner:text lease_count:int checkpoint:text completed:bool parent_shard_ids:text hash_range:text "
        "batch_id:text read_group:text pending:text checkpoint_arrival_ms:int millis_behind_latest:int "
        "caught_up_ms:int updated_at_ms:int note:text begins:text skipped:text staging:text"
    ),
)
BATCH = Table(
    "batch",
    ("scope", "batch_id"),
    "row_count",
    _columns(
        "owner:text row_count:int state:text attempt:int attempt_ref:text attempt_seen_ms:int attempt_closed:int "
        "sink:text start:text decided:int manifest_uri:text manifest_digest:text records:int bytes:int gaps:int "
        "created_at_ms:int committed_at_ms:int note:text unparked:int set_aside:text dropped:int "
        "roots:text min_arrival_ms:int max_arrival_ms:int shared:bool joins:bool from_ms:int to_ms:int number:int "
        "waited_ms:int refused:int resubscribed:int claims:text event:text event_ms:int"
    ),
)
APPLICATION = Table(
    "application",
    (),
    "row_count",
    _columns(
        "stream_id:text start_position:text schema_version:int deployments:text claimed_by:text last_action:text "
        "retention_ms:int gone_before_ms:int longest_retention_ms:int importing:text shown_intervals:text "
        "start_places:text row_count:int"
    ),
)
INTERVAL = Table("interval_output", ("scope", "span"), "row_count", _columns("number:int roots:text row_count:int"))
TABLES = (SHARD_LEASE, BATCH, APPLICATION, INTERVAL)


def text_or_none(value: Any) -> str | None:
    """A text column as read."""
    return None if value is None else str(value)


def int_or_none(value: Any) -> int | None:
    """An int column as read; a store may answer with a decimal type."""
    return None if value is None else int(value)
