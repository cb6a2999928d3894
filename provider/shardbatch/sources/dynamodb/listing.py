# SPDX-License-Identifier: Apache-2.0
"""What a stream is, its shards, and the children of one of them."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.core.shard import Shard
from shardbatch.errors import ConfigurationError, InvalidAnswer, ShardNotFound, SourceError, StreamNotFound
from shardbatch.sources.aws.refusals import WHICH_STREAM
from shardbatch.sources.dynamodb.calls import Caller
from shardbatch.sources.dynamodb.refusals import PlaceRefused

ENABLING_POLL = 0.5
#: How often a shard that has ended is looked at for its children, which may be listed a while after it closed, and the
#: seconds between two looks: the first, the longest, and the part by which each is longer or shorter at random.
CHILD_LOOKS = 10
FIRST_LOOK, LONGEST_LOOK, JITTER = 0.05, 1.0, 0.2
#: So many shards are asked for their children one by one. A whole listing of 3,000 shards costs as many calls.
ASKED_SINGLY = 32


@dataclass(frozen=True)
class Family:
    """The children that a shard has now; ``final``: it will have no others, for its stream takes no more records."""

    children: tuple[Shard, ...]
    final: bool


class StreamListing:
    """One stream, by its table's name or by its own ARN."""

    def __init__(self, tables: Caller | None, streams: Caller, draw: Callable[[], float] = random.random) -> None:
        """:param tables: asked for the table's stream; not needed where the stream itself is named."""
        self._tables = tables
        self._streams = streams
        self._draw = draw
        self._arn = streams.table.stream_arn
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._asked_for: set[str] = set()
        self._settled: dict[str, Family] | None = None
        self._children: dict[str, float] = {}
        self._filters = streams.takes("DescribeStream", "ShardFilter")

    @property
    def arn(self) -> str:
        """The stream's ARN: that which was given, or the table's latest, asked for once.

        :raises StreamNotFound: if there is no such table, or it has no stream.
        """
        with self._lock:
            if self._arn is None:
                self._arn = self._latest()
            return self._arn

    def describe(self) -> dict[str, Any]:
        """The stream's description without its shards; one that is being enabled is waited for.

        :raises StreamNotFound: if there is no such stream.
        :raises ConfigurationError: if it does not carry the images that the options ask for.
        :raises SourceError: if it is still being enabled after the options' time.
        """
        clock, options = self._streams.clock, self._streams.options
        deadline = clock.monotonic() + options.creating_timeout.total_seconds()
        while True:
            answer = self._page(Limit=1)
            description = answer["StreamDescription"]
            if description.get("StreamStatus") != "ENABLING":
                self._require_view(description)
                return {**description, "ResponseMetadata": answer.get("ResponseMetadata", {})}
            if clock.monotonic() >= deadline:
                raise SourceError(f"The {self._streams.where} is still being enabled.", remedy="Retry a little later.")
            clock.sleep(ENABLING_POLL)

    def shards(self) -> list[Shard]:
        """Every shard that the service lists, in the order of their ids, which is that of their birth. In a stream that
        is disabled, what has no child will have none.

        :raises StreamNotFound: if there is no such stream.
        :raises InvalidAnswer: if the pages run in a circle, or an enabled stream lists nothing.
        """
        for _ in range(2):
            found: dict[str, Shard] = {}
            final = True
            for page in self._pages():
                final &= page.get("StreamStatus") == "DISABLED"
                for shard in map(to_shard, page["Shards"]):
                    if shard.closed or shard.shard_id not in found:
                        found[shard.shard_id] = shard
            if found:
                parents = {parent for shard in found.values() for parent in shard.parent_shard_ids}
                listed = [found[shard_id] for shard_id in sorted(found)]
                return [replace(shard, leaf=final and shard.shard_id not in parents) for shard in listed]
            if self.describe().get("StreamStatus") != "ENABLED":
                return []
        raise InvalidAnswer(f"The {self._streams.where} lists no shards although it is enabled.")

    def children(self, shard_id: str) -> Family:
        """The children of a shard as they are listed now. If many shards are asked for, one listing answers for all of
        which it shows the children for good.

        :raises StreamNotFound: if there is no such stream.
        """
        found = self._settled_family(shard_id) or self._listed_children(shard_id)
        now = self._streams.clock.monotonic()
        with self._lock:
            self._children.update((child.shard_id, now) for child in found.children)
        return found

    def child_seen(self, shard_id: str) -> float:
        """When a shard was last seen as the child of another one, by the clock that only runs forward; else minus
        infinity."""
        with self._lock:
            return self._children.get(shard_id, float("-inf"))

    def _listed_children(self, shard_id: str) -> Family:
        if self._filters:
            try:
                found = self._family(shard_id, ShardFilter={"Type": "CHILD_SHARDS", "ShardId": shard_id})
            except (SourceError, PlaceRefused) as error:
                if error.retryable is not False or isinstance(error, StreamNotFound):
                    raise
                found = None  # the service does not have this filter
            if found is not None:
                return found
            self._filters = False
        found = self._family(shard_id, ExclusiveStartShardId=shard_id)
        assert found is not None
        return found

    def await_children(self, shard_id: str) -> Family:
        """The children of a shard that has ended: they may be listed later than it, so it is looked a few times.

        If there are none at the end, that is not an error: the listing of the next claim shows them.
        """
        wait = FIRST_LOOK
        for look in range(CHILD_LOOKS):
            if look:
                self._streams.clock.sleep(wait * (1 + JITTER * (2 * self._draw() - 1)))
                wait = min(LONGEST_LOOK, 2 * wait)
            found = self.children(shard_id)
            if found.children or found.final:
                break
        return found

    def _latest(self) -> str:
        assert self._tables is not None
        table = self._tables.table
        try:
            answer = self._tables.patiently("describe_table", TableName=table.address)
        except ShardNotFound as error:
            text = f"There is no table {table.address}, so there is no {self._tables.where}."
            raise StreamNotFound(text, remedy=WHICH_STREAM, stream=table.name) from error.__cause__
        found = answer.get("Table", {}).get("LatestStreamArn")
        if not found:
            raise StreamNotFound(
                f"The table {table.address} has no stream.",
                remedy="Enable one: aws dynamodb update-table --table-name "
                f"{table.name} --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES",
                stream=table.name,
            )
        return str(found)

    def _require_view(self, description: Mapping[str, Any]) -> None:
        wanted, carried = self._streams.options.view, str(description.get("StreamViewType", ""))
        if not wanted.carried_by(carried):
            raise ConfigurationError(
                f"The {self._streams.where} carries {carried}, and the DAG asks for {wanted}.",
                remedy="Ask for what it carries, or disable the stream and enable it anew with another view type: that "
                "is another stream, which the application begins anew (airflow shardbatch reset).",
            )

    def _settled_family(self, shard_id: str) -> Family | None:
        """The family of a shard if it can have no other children. The listing is made once."""
        with self._asking:
            self._asked_for.add(shard_id)
            if self._settled is None and len(self._asked_for) > ASKED_SINGLY:
                self._settled = self._settled_families()
            return None if self._settled is None else self._settled.get(shard_id)

    def _settled_families(self) -> dict[str, Family]:
        """By parent: the children of which one has children itself. That one was listed long ago, and its sibling with
        it; where none has, one may still be missing."""
        found: defaultdict[str, list[Shard]] = defaultdict(list)
        try:
            for shard in self.shards():
                for parent in shard.parent_shard_ids:
                    found[parent].append(shard)
        except SourceError:
            return {}  # each shard is asked for by itself
        settled = (parent for parent, children in found.items() if any(child.shard_id in found for child in children))
        return {parent: Family(tuple(found[parent]), final=False) for parent in settled}

    def _family(self, shard_id: str, **fields: Any) -> Family | None:
        """Those of some pages that name the shard as their parent. A service without the filter shows others, too:
        then ``None``."""
        found: dict[str, Shard] = {}
        final, others = False, False
        for page in self._pages(**fields):
            shards = list(map(to_shard, page["Shards"]))
            others |= any(shard_id not in shard.parent_shard_ids for shard in shards)
            found.update((shard.shard_id, shard) for shard in shards if shard_id in shard.parent_shard_ids)
            final = page.get("StreamStatus") == "DISABLED"
            if others and "ShardFilter" in fields:
                return None
        return Family(tuple(found.values()), final)

    def _pages(self, **fields: Any) -> Iterator[dict[str, Any]]:
        """Every page of a listing.

        :raises InvalidAnswer: if the pages run in a circle.
        """
        seen: set[str] = set()
        while True:
            page: dict[str, Any] = self._page(**fields)["StreamDescription"]
            if "Shards" not in page:
                raise InvalidAnswer(f"A listing page of the {self._streams.where} was cut short.")
            yield page
            cursor = page.get("LastEvaluatedShardId")
            if not cursor:
                return
            if cursor in seen or cursor == fields.get("ExclusiveStartShardId"):
                raise InvalidAnswer(f"The listing of the {self._streams.where} runs in a circle at {cursor}.")
            seen.add(cursor)
            fields = {**fields, "ExclusiveStartShardId": cursor}

    def _page(self, **fields: Any) -> dict[str, Any]:
        arn = self.arn
        try:
            answer = self._streams.patiently(
                "describe_stream", pace=self._streams.descriptions, StreamArn=arn, **fields
            )
        except ShardNotFound as error:
            text = f"There is no {self._streams.where} ({arn})."
            raise StreamNotFound(text, remedy=WHICH_STREAM, stream=self._streams.table.name) from error.__cause__
        if "StreamArn" not in answer.get("StreamDescription", {}):
            raise InvalidAnswer(f"The description of the {self._streams.where} was cut short.")
        return answer


def to_shard(item: Mapping[str, Any]) -> Shard:
    """A shard of a listing; an ending number closes it, whatever its value."""
    numbers, parent = item.get("SequenceNumberRange") or {}, item.get("ParentShardId")
    return Shard(
        shard_id=item["ShardId"],
        parent_shard_ids=(parent,) if parent else (),
        closed=bool(numbers.get("EndingSequenceNumber")),
        starting_sequence_number=numbers.get("StartingSequenceNumber"),
    )
