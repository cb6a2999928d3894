# SPDX-License-Identifier: Apache-2.0
"""How rows are kept: their keys, their tables' columns, and the walk between rows and columns.

A backend knows tables, keys and columns only. Within a major version columns are only added; a column that a reader
does not know is passed over and left as it is, one that a row lacks takes its default. What is new stands in a column
of its own, never inside the JSON of another: an earlier version writes that anew without what it does not know. (Of a
slice, what an earlier version drops that way are counts, its oddities and its waiting, and ``tip_ms``, without which a
watermark is only earlier.)
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self

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
                raise ValueError(f"{what} {text!r} must be printable text without a slash or outer blanks")

    def __str__(self) -> str:
        return f"{self.app_name}/{self.stream_name}"


@dataclass(frozen=True)
class Table:
    """One kind of row. ``key`` columns follow the namespace; ``counter`` is what compare-and-set compares."""

    name: str
    key: tuple[str, ...]
    counter: str


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


#: What a row must have: a column without it cannot be read.
REQUIRED: Any = object()
#: What stands for a field's own default.
_DEFAULT: Any = object()


@dataclass(frozen=True)
class Codec:
    """How a field of a row stands in its column, which may be null.

    ``type`` is ``text``, ``int`` or ``bool``. ``write`` makes what is stored of a value, default: the value itself.
    ``read`` makes the value again. ``None`` is stored as null, without asking either. ``absent`` is the value of a
    field whose column is null or not there. ``name`` is the column's, empty: the field's.
    """

    type: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None
    absent: Any = _DEFAULT
    name: str = ""


def column(
    type: str,
    read: Callable[[Any], Any],
    write: Callable[[Any], Any] | None = None,
    *,
    absent: Any = _DEFAULT,
    name: str = "",
) -> Mapping[str, Any]:
    """The ``metadata`` of a dataclass's field that is a column; see :class:`Codec`.

    :param absent: the field's value where a row does not have the column, default: the field's default. A field that
        has neither must be there.
    :param name: the column's name, default: the field's.
    """
    return {"column": Codec(type, read, write, absent, name)}


def _write_texts(texts: Sequence[Any]) -> str:
    return json.dumps(texts) if texts else EMPTY


def _read_texts(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text)) if text != EMPTY else ()


#: How a list without elements is stored, which most are: it need not be parsed.
EMPTY = "[]"
TEXT = column("text", str)
#: A text that a row may lack, of a field that has no default.
TEXT_OR_NONE = column("text", str, absent=None)
INT = column("int", int)
BOOL = column("bool", bool)
TEXTS = column("text", _read_texts, _write_texts)
#: As ``TEXTS``, and null if there are none.
TEXTS_IF_ANY = column("text", _read_texts, lambda texts: json.dumps(texts) if texts else None)


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its type (``text``, ``int`` or ``bool``), how a row has it and in which field."""

    name: str
    codec: Codec
    field: str

    @property
    def type(self) -> str:
        """``text``, ``int`` or ``bool``."""
        return self.codec.type


class Row(ABC):
    """What every row offers a store; implemented by ``Lease``, ``Batch``, ``Application`` and ``IntervalOutput``.

    Each is a frozen dataclass whose fields are its key and its columns. Those that are columns say so in their
    ``metadata``, and nowhere else.
    """

    table: ClassVar[Table]

    @property
    @abstractmethod
    def key(self) -> Key:
        """The row's key."""

    @property
    def counter(self) -> int:
        """The number that every write raises."""
        return int(getattr(self, self.table.counter))

    def columns(self) -> Columns:
        """All columns but the key's: text, int, bool or None."""
        found: Columns = {}
        for item in columns_of(type(self)):
            value, write = getattr(self, item.field), item.codec.write
            found[item.name] = value if value is None or write is None else write(value)
        return found

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Self:
        """The row of key and other columns together.

        :raises ValueError: if a column is not there that every row has.
        """
        fields: dict[str, Any] = cls._of_key(columns)
        fields["namespace"] = _namespace(columns["app_name"], columns["stream_name"])
        get = columns.get
        for item in columns_of(cls):
            value, codec = get(item.name), item.codec
            if value is not None:
                fields[item.field] = codec.read(value)
            elif codec.absent is not REQUIRED:
                fields[item.field] = codec.absent
            else:
                raise ValueError(f"A row of {cls.table.name} has no {item.name}.")
        return cls(**fields)

    @classmethod
    def _of_key(cls, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that its own key columns make."""
        return {name: columns[name] for name in cls.table.key}


_namespace = lru_cache(maxsize=16)(Namespace)


@cache
def columns_of(row: type[Row]) -> tuple[Column, ...]:
    """The columns of a row's class, in the order of its fields."""
    found = []
    for item in dataclasses.fields(row):  # type: ignore[arg-type]  # mypy does not know that every row is a dataclass
        codec = item.metadata.get("column")
        if codec is None:
            continue
        if codec.absent is _DEFAULT:
            default = REQUIRED if item.default is dataclasses.MISSING else item.default
            codec = dataclasses.replace(codec, absent=default)
        found.append(Column(codec.name or item.name, codec, item.name))
    return tuple(found)


SHARD_LEASE = Table("shard_lease", ("scope", "shard_id"), "lease_count")
BATCH = Table("batch", ("scope", "batch_id"), "row_count")
APPLICATION = Table("application", (), "row_count")
INTERVAL = Table("interval_output", ("scope", "span"), "row_count")
TABLES = (SHARD_LEASE, BATCH, APPLICATION, INTERVAL)
