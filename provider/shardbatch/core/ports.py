# SPDX-License-Identifier: Apache-2.0
"""What the use-cases ask of the world: a source, a lease store, a staging area, a clock, and who is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Callable, Protocol

from shardbatch.core.archive_files import ArchiveFiles
from shardbatch.core.decision import Decision
from shardbatch.core.position import Position
from shardbatch.core.root_owner import Holder, RootChange
from shardbatch.core.rows import Columns, Key, Namespace, Row, Table
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.slice import NOTHING_ODD, LandedFile, Oddities, Trimmed
from shardbatch.core.start import Begun, EndRecord, Left, Start
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.core.words import Words

if TYPE_CHECKING:
    import pyarrow as pa


class LeaseStore(Protocol):
    """Rows under conditional writes. A backend is a conditional write and a paged read, nothing else.

    Every method raises :class:`StoreError` when the store cannot be asked or a write's outcome cannot be learned, and
    :class:`StoreNotFound` when a table is missing. Reads of one row are strongly consistent.
    """

    def prepare(self) -> None:
        """Make the tables, and columns that a later version added, if they are missing and may be made; else check that
        they are there."""

    def pending(self) -> tuple[str, ...]:
        """What :meth:`prepare` would have to make: the database's statements, in order; empty if all is there."""
        ...

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        """The rows of a namespace and scope, all pages, in key order, no snapshot; ``equal`` keeps those whose
        columns equal the given texts (``lease_owner``, ``read_group``, ``batch_id``, ``owner``, ``state``).

        With ``scope=None`` those of every scope: the live application's first, then scope after scope, each of them
        whole and in key order. Scopes come in the order of their texts if these are owners'.
        """
        ...

    def latest(self, table: Table, namespace: Namespace, scope: str, limit: int) -> Iterator[Row]:
        """The last rows of a namespace and scope, at most ``limit``, in reverse key order; no snapshot."""
        ...

    def applications(self) -> Iterator[Columns]:
        """The columns of every namespace's application row, of whatever version, its namespace among them; all pages,
        in no order, no snapshot, perhaps a moment old.

        For a person's question only: on DynamoDB it reads the whole table, and needs a permission for all of it.
        """
        ...

    def get(self, key: Key) -> Row | None:
        """One row as it stands now, or ``None``."""
        ...

    def create(self, row: Row) -> bool:
        """Write a row if its key has none; whether it was written by this call."""
        ...

    def replace(self, seen: Row, new: Row) -> bool:
        """Write ``new`` if the stored counter is still ``seen``'s; whether it was written by this call.

        Columns that this version does not know are left as they are.
        """
        ...

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        """As :meth:`create` for each of several rows of one table, namespace and scope; an answer for each.

        There is no order among them, and none depends on another. An error may leave any of them written.
        """
        ...

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        """As :meth:`replace` for each pair of ``seen`` and ``new``, under the same terms as :meth:`create_many`."""
        ...

    def delete(self, seen: Row) -> bool:
        """Remove the row if the stored counter is still ``seen``'s; whether it was removed by this call."""
        ...

    def close(self) -> None:
        """Give back connections."""


@dataclass(frozen=True)
class Capabilities:
    """What a source can do, declared and never probed.

    ``lineage``: shards end in favour of children, which name their parents. ``instants``: a read can begin at an
    instant (``AT_TIMESTAMP``), and ``LATEST`` resolves to one. ``arrival_times``: records say when they arrived;
    without that no interval of them can be read. ``place_lives``: how long a read may stand between two records before
    the service forgets its place; ``None`` if it never does. ``least_retention``: how long the service keeps a record
    at the least, whatever a stream's settings; ``None`` where one may go, and then is a gap, at any age. ``key_space``:
    the keys that open shards divide among them; ``None`` if shards have no ranges.
    """

    lineage: bool
    instants: bool
    arrival_times: bool
    place_lives: timedelta | None = None
    least_retention: timedelta | None = None
    key_space: KeyRange | None = None


@dataclass(frozen=True)
class Page:
    """One answer of a shard, or a piece of one.

    ``records`` is an Arrow batch with the columns ``sequence_number`` string, ``sub_sequence_number`` int64,
    ``partition_key`` string, ``arrival_time`` timestamp[us, UTC], ``data`` binary, and ``attributes`` map where the
    source has some. ``next`` is the position after the page: unchanged by an empty one, unless records were dropped;
    those and others are counted in ``oddities``. A source that itself looks for an instant carries it in ``next``
    (PROTOCOL F8). ``children`` are named at the end only; ``leaf`` says there that the shard will never have any.
    ``checkpoint_gone`` says, on the first page that shows it, that the record at the position read from, or read up to,
    is no longer in the stream: what followed it may have expired too; ``trimmed``, that the service itself said so.
    ``requests`` counts the calls that the page cost, ``waiting`` what the service's limits did. ``arrival_time`` is
    null where the source does not tell it. ``continues``: it has more records of the answer that the page before began.
    Nothing was asked since, so it tells nothing newer of the shard.

    ``at_tip`` says that the answer saw nothing behind the page when it was made; by it a read ends. Only the source
    knows how its service shows that, so a source sets it where it is sure, and nowhere else. ``lag_ms`` is how far
    behind the tip the service says that the page is, if it does; services put counts and flags there too. ``silent``:
    it is not an answer, as the call was refused or more are needed for one, and tells nothing of the shard. ``asked``:
    the answer was pushed and may have lain here for a while; it was certainly made after this moment of the reader's
    monotonic clock. ``None``: it was made after it was asked for.
    """

    records: pa.RecordBatch
    next: Position
    ended: bool = False
    children: tuple[Shard, ...] = ()
    at_tip: bool = False
    lag_ms: int | None = None
    silent: bool = False
    gone: bool = False
    checkpoint_gone: bool = False
    trimmed: Trimmed | None = None
    leaf: bool = False
    requests: int = 1
    waiting: Waiting = NO_WAITING
    oddities: Oddities = NOTHING_ODD
    continues: bool = False
    asked: float | None = None


class Source(Protocol):
    """A sharded stream. Errors are :class:`SourceError`. What a sequence number is: ``core/position.py``."""

    name: str

    @property
    def words(self) -> Words:
        """What messages call what the stream has."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the source can do."""
        ...

    def identity(self) -> str:
        """What tells this stream from another one of the same name, as an address and the time of its creation."""
        ...

    def list_shards(self) -> Sequence[Shard]:
        """Every shard that the service lists, all pages, parents among them."""
        ...

    def missing(self, listing: Sequence[Shard]) -> str:
        """What a listing of this stream lacks, as far as the listing itself shows it; empty if nothing.

        It is in sentences; the first continues the words "In 3 listings". Nothing is asked of the service.
        """
        ...

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        """The shards that were open at an instant; ``None`` if the service cannot tell, or does not for this instant.

        Those that left the stream since may be missing.
        """
        ...

    def clock_ms(self) -> int | None:
        """The service's own time: no record that arrives from now on has an earlier one. ``None`` if it tells none."""
        ...

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        """A start that always means the same: ``LATEST`` becomes an instant. Every other start stays as it is.

        A source that cannot begin at an instant leaves ``LATEST`` as it is, too. Asked for a shard, it answers with the
        place behind that shard's last record (``TRIM_HORIZON`` if it never had one).
        """
        ...

    def retention_ms(self) -> int | None:
        """How long the service keeps a record, or ``None`` if it does not say."""
        ...

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        """Pages from a position on, at the pace that the service allows, until the shard ends.

        Empty pages come too, so that the reader can look at its limits. The last page has ``ended``; a shard that the
        service no longer knows ends with an empty page that has ``gone`` too. An open shard never ends by itself.
        """
        ...

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Remove what reading needed and what costs money while it stands, unless others of the application, who share
        it, still read; ``others`` is asked only if there is something to remove."""
        ...

    def close(self) -> None:
        """Give back connections."""


class SliceWriter(Protocol):
    """Writes one slice. Used by one thread.

    ``arrivals_ms`` is the least and the greatest arrival time of what was written, once it is finished.
    """

    arrivals_ms: tuple[int, int] | None

    def write(self, page: pa.RecordBatch) -> None:
        """Append a page's records."""

    def rest(self) -> None:
        """Hold no memory until the next page, which may be a while."""

    def finish(self) -> tuple[LandedFile, ...]:
        """Complete the files; only now can they be seen under their names."""
        ...

    def abandon(self) -> None:
        """Drop what was written."""


class OutputRoots(Protocol):
    """The folders that applications write below and readers read. Errors are :class:`StagingError`."""

    def place(self, root: str) -> str:
        """One text for a root in any spelling: ``/x/out``, ``file:///x/out``; ``s3://b/out``, ``s3a://b//out/``."""
        ...

    def folder(self, batch_id: str, start_id: str) -> str:
        """Where a start's data stands, relative to every root that it wrote to."""
        ...

    def look(self, root: str, folders: Sequence[str], app: str, *, shared: bool) -> None:
        """See before a decision that it can be told here: each of these folders, relative to the root, is seen, the
        root can be written to, and it is the application's, or is claimed for it.

        :raises OutputTaken: if it is another application's and not both say that they share it.
        """

    def mark(self, root: str, decision: Decision) -> None:
        """Leave the marker of a decision, named by batch and ``decided``. The same name always has the same text, so it
        may be written again and by anyone, and is never overwritten."""

    def sum_if_due(self, root: str) -> bool:
        """Write a sum of the markers if many are loose, and remove what older sums cover; whether one was written."""
        ...


class HandedRoots(OutputRoots, Protocol):
    """Output roots as a person's verbs see them. Errors are :class:`StagingError`."""

    def sum_now(self, root: str) -> int | None:
        """As :meth:`OutputRoots.sum_if_due`, however few markers are loose: how many, or ``None`` if there is none."""
        ...

    def told(self, root: str) -> Mapping[str, int]:
        """Of every batch that the root tells of, the number of its highest decision."""
        ...

    def holders(self, root: str) -> Sequence[Holder]:
        """What the files say that tell whose the root is; the root must be within reach."""
        ...

    def begin_change(self, root: str, app: str) -> RootChange:
        """No other application's :meth:`OutputRoots.look` passes from now on, until this is finished or withdrawn.

        :raises OutputTaken: if another process is changing the owner of this root at this moment.
        """
        ...

    def finish_change(self, root: str, change: RootChange) -> None:
        """The root is the application's; those that had it are refused."""

    def withdraw_change(self, root: str, change: RootChange) -> None:
        """The owner stays the one that it was."""


class Landing(ArchiveFiles, Protocol):
    """The staging area. Paths are relative to its folder, with forward slashes. Errors are :class:`StagingError`."""

    uri: str

    @property
    def outputs(self) -> OutputRoots:
        """The output roots that can be reached from here."""
        ...

    def check(self, namespace: Namespace) -> None:
        """See that the folder is there and can be written below the namespace, the fence of permissions.

        :raises StagingMissing: if the folder itself is not there.
        """

    def make(self) -> None:
        """Make the folder, in one that is there.

        :raises StagingMissing: if the folder above it is not there either.
        """

    def slice(self, namespace: Namespace, shard_id: str, after: Position, tenure: int) -> SliceWriter:
        """A writer of a new slice in a folder of its own, whose name tells the tenure of the lease."""
        ...

    def write_manifest(self, namespace: Namespace, batch_id: str, content: bytes) -> str:
        """Write a batch's manifest whole; its URI."""
        ...

    def read_manifest(self, namespace: Namespace, batch_id: str) -> bytes:
        """Read a batch's manifest."""
        ...

    def manifest_uri(self, namespace: Namespace, batch_id: str) -> str:
        """Where a batch's manifest stands, if it was frozen in this staging area."""
        ...

    def note_attempt(self, namespace: Namespace, batch_id: str, attempt: int) -> None:
        """Leave the number of an opened attempt beside the manifest, for applications that ask whether they are the
        latest."""

    def missing_files(self, namespace: Namespace, batch_id: str) -> list[str]:
        """Which of a batch's files, the manifest and all that it names, are not there; paths as in the manifest."""
        ...

    def starts_of(
        self, namespace: Namespace, batch_id: str, work: str, attempt: int
    ) -> tuple[Sequence[Begun], Mapping[str, Start]]:
        """The starts that applications of a work began in an attempt, and those that ended well, by their ids."""
        ...

    def leave_end(self, namespace: Namespace, batch_id: str, record: EndRecord, unique: str) -> None:
        """Leave the end record of a work's try, whose name holds ``unique``; it is never overwritten."""

    def left_by(self, namespace: Namespace, batch_id: str, works: Sequence[str]) -> dict[str, Left]:
        """What stands beside a batch's manifest of each of these works; none of one that left nothing."""
        ...

    def finished_starts(self, namespace: Namespace, batch_id: str) -> list[Start]:
        """All starts whose done markers stand beside the batch's manifest, whether they count or not."""
        ...


class Verdict(str, Enum):
    """Whether an owner is over.

    ``FOREIGN``: it is of another deployment, or no owner at all. ``GONE``: it is of this one, which has no such run
    (any more). Of both only the rows can tell whether they live.
    """

    ACTIVE = "active"
    OVER = "over"
    FOREIGN = "foreign"
    GONE = "gone"


#: Asks whether the owner of this text is over. Raises if Airflow gives no answer; then no lease is taken.
Liveness = Callable[[str], Verdict]


@dataclass(frozen=True)
class Clock:
    """Time as the use-cases and the sources see it: the hour, a clock that only runs forward, and waiting."""

    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]


#: This machine's time.
SYSTEM_CLOCK = Clock(now_ms=lambda: time.time_ns() // 1_000_000, monotonic=time.monotonic, sleep=time.sleep)
