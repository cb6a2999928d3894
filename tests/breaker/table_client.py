# SPDX-License-Identifier: Apache-2.0
"""A process's clients of a table and of its stream, as boto3 makes them: so the real source reads the breaker's stream.

Each call is a place where others may come between, and may meet a fate; what comes back has passed the hooks of
botocore that the source has registered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import formatdate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shardbatch.sources.dynamodb.options import DynamoDBOptions
from shardbatch.sources.dynamodb.source import DynamoDBSource
from tests.breaker.process import Fate, Process
from tests.breaker.table import Enabled, TableStream
from tests.support.scripted import Item, ScriptedShard

if TYPE_CHECKING:
    from shardbatch.core.ports import Clock

Json = dict[str, Any]
ITERATOR_MS = 15 * 60_000
#: Empty answers in a row where records follow; more have not been seen of the service (PROTOCOL T6).
MOST_EMPTY = 4
#: Errors of the service, by the word of a fate.
ERRORS = {
    "throttled": "LimitExceededException",
    "failed": "InternalServerError",
    "expired": "ExpiredIteratorException",
    "trimmed": "TrimmedDataAccessException",
    "unknown": "ResourceNotFoundException",
}


class Broken(Exception):
    """An error of a source that is none of ours."""


@dataclass(frozen=True)
class Iterator:
    """A place in a shard, behind a number, with so many empty answers before it; ``empty`` were given already."""

    arn: str
    shard_id: str
    behind: int
    hops: int
    issued_ms: int
    empty: int = 0


def table_source(stream: TableStream, process: Process, clock: Clock) -> DynamoDBSource:
    """The real source of a table's stream, over clients in memory."""
    habits = stream.habits
    options = DynamoDBOptions(
        page_records=stream.page_size, calls_per_second=50.0, attempts=habits.attempts, throttles=2
    )
    named = stream.name if habits.by_name else stream.source_arn
    tables, streams = Tables(stream, process), Streams(stream, process)
    return DynamoDBSource(tables if habits.by_name else None, streams, named, clock=clock, options=options)


class Client:
    """What both have."""

    service = ""

    def __init__(self, stream: TableStream, process: Process, **parameters: Sequence[str]) -> None:
        self._stream, self._process = stream, process
        self._hooks: dict[str, Callable[..., None]] = {}
        shapes = {name: SimpleNamespace(members=members) for name, members in parameters.items()}
        self.meta = SimpleNamespace(
            region_name="eu-west-1",
            endpoint_url="memory:",
            events=SimpleNamespace(register=self._register),
            service_model=SimpleNamespace(operation_model=lambda name: SimpleNamespace(input_shape=shapes[name])),
        )

    def _register(self, event: str, hook: Callable[..., None], unique_id: str = "") -> None:
        self._hooks[event] = hook

    def _call(self, at: str, operation: str, serve: Callable[[Fate], Json], shows_body: bool = True) -> Json:
        """One call: what its pause brings, what the service answers, and what botocore makes of that."""
        fate = self._process.pause(at)
        self._hooks[f"before-send.{self.service}"](event_name=f"before-send.{self.service}.{operation}")
        if fate.word == "broken":
            raise Broken("The answer cannot be taken apart.")
        if fate.word in ERRORS:
            raise refused(operation, ERRORS[fate.word])
        answer = serve(fate)
        if fate.word == "slow":
            self._process.pause("arrival")
        now_s = self._stream.now_ms // 1000
        cut, meta = fate.word == "cut", {"HTTPStatusCode": 200, "HTTPHeaders": {"date": formatdate(now_s, usegmt=True)}}
        if not shows_body:
            return {"ResponseMetadata": meta} if cut else {**_parsed(answer), "ResponseMetadata": meta}
        body = json.dumps(answer).encode()
        found: Json = {}
        response: Json = {"body": body, "headers": {"content-length": str(len(body) + cut)}, "status_code": 200}
        event = f"before-parse.{self.service}"
        self._hooks[event](event_name=f"{event}.{operation}", response_dict=response, customized_response_dict=found)
        return {**json.loads(response["body"]), **found, "ResponseMetadata": meta}

    def close(self) -> None:
        """Nothing to give back."""


class Tables(Client):
    """The client of tables."""

    service = "dynamodb"

    def describe_table(self, TableName: str) -> Json:
        return self._call("table", "DescribeTable", lambda fate: {"Table": {"LatestStreamArn": self._stream.arn}})


class Streams(Client):
    """The client of streams."""

    service = "dynamodb-streams"

    def __init__(self, stream: TableStream, process: Process) -> None:
        habits = stream.habits
        filters = ("ShardFilter",) if habits.filters != "unknown" else ()
        instants = ("Timestamp",) if habits.instants != "unknown" else ()
        super().__init__(stream, process, DescribeStream=filters, GetShardIterator=instants)
        self._iterators: list[Iterator] = []
        self._listings, self._lacked, self._cursor = 0, -2, ""

    def _one(self, operation: str, arn: str) -> Enabled:
        found = self._stream.stream(arn)
        if found is None:
            raise refused(operation, "ResourceNotFoundException")
        self._stream.expire()
        return found

    def _shard(self, operation: str, arn: str, shard_id: str) -> ScriptedShard:
        one, shard = self._one(operation, arn), self._stream.shards[shard_id]
        if shard.gone or self._stream.of[shard_id] is not one:
            raise refused(operation, "ResourceNotFoundException")
        return shard

    # listing

    def describe_stream(
        self, StreamArn: str, Limit: int = 100, ExclusiveStartShardId: str = "", ShardFilter: Json | None = None
    ) -> Json:
        habits, stream = self._stream.habits, self._stream

        def serve(fate: Fate) -> Json:
            one = self._one("DescribeStream", StreamArn)
            if ShardFilter is not None and habits.filters == "refused":
                raise refused("DescribeStream", "ValidationException")
            children = ShardFilter is not None and habits.filters == "found"
            begins = Limit > 1 and not ExclusiveStartShardId and ShardFilter is None
            self._listings += begins
            listing = begins or (ExclusiveStartShardId != "" and ExclusiveStartShardId == self._cursor)
            shown = self._shown(one, fate.word, listing)
            if children:
                shown = [shard for shard in shown if ShardFilter and ShardFilter["ShardId"] in shard.parents]
            stream.looks += Limit > 1
            size = min(Limit, habits.page_shards)
            seen = sum(shard.shard_id <= ExclusiveStartShardId for shard in shown)
            first = max(0, seen - min(habits.repeats, size - 1)) if ExclusiveStartShardId else 0
            page = shown[first : first + size]
            described: Json = {
                "StreamArn": one.arn,
                "StreamStatus": one.status(stream.now_ms),
                "StreamViewType": "KEYS_ONLY",
                "Shards": [_described(shard) for shard in page],
            }
            if len(page) == size:  # perhaps nothing comes after it
                described["LastEvaluatedShardId"] = page[-1].shard_id
            if fate.word == "circle" and ExclusiveStartShardId:
                described["LastEvaluatedShardId"] = ExclusiveStartShardId
            if listing:
                self._cursor = described.get("LastEvaluatedShardId", "")
            return {"StreamDescription": described}

        return self._call("describe", "DescribeStream", serve)

    def _shown(self, one: Enabled, word: str, listing: bool) -> Sequence[ScriptedShard]:
        """The shards as a page of a listing shows them: as they are, as before the last reshard, with its parents still
        open, or without the closed ones that have children; never the last in two listings in a row."""
        stream = self._stream
        there = stream.shards_of(one)
        shown = [shard for shard in there if stream.shows(shard)]
        before = {shard.shard_id: shard for shard in stream.before}
        if word == "old" and before:
            shown = [replace(s, closed=before[s.shard_id].closed) for s in shown if s.shard_id in before]
            stream.hidden |= {shard.shard_id for shard in there} - {shard.shard_id for shard in shown}
        if word == "racing" and before:
            open_then = {name for name, shard in before.items() if not shard.closed}
            stream.hidden |= {shard.shard_id for shard in there if open_then.intersection(shard.parents)}
            shown = [replace(s, closed=s.closed and s.shard_id not in open_then) for s in shown]
        if word == "lacking" and listing and self._listings - self._lacked > 1:
            self._lacked = self._listings
            parents = {parent for shard in there for parent in shard.parents}
            shown = [shard for shard in shown if not (shard.closed and shard.shard_id in parents)]
        return shown

    # reading

    def get_shard_iterator(
        self,
        StreamArn: str,
        ShardId: str,
        ShardIteratorType: str,
        SequenceNumber: str = "",
        Timestamp: datetime | None = None,
    ) -> Json:
        def serve(fate: Fate) -> Json:
            if fate.word == "none":
                return {}
            shard, hops = self._shard("GetShardIterator", StreamArn, ShardId), self._stream.habits.empties
            behind = self._behind(shard, ShardIteratorType, SequenceNumber, Timestamp)
            return {"ShardIterator": self._kept(Iterator(StreamArn, ShardId, behind, hops, self._stream.now_ms))}

        return self._call("iterator", "GetShardIterator", serve)

    def _behind(self, shard: ScriptedShard, kind: str, number: str, instant: datetime | None) -> int:
        stream, lost = self._stream, self._stream.trimmed.get(shard.shard_id, -1)
        if kind == "TRIM_HORIZON":
            return lost
        if kind == "AFTER_SEQUENCE_NUMBER":
            place = int(number)
            if not stream.has(shard.shard_id, place):
                raise refused("GetShardIterator", "ValidationException")
            if lost > place or (lost == place and not stream.habits.lenient):
                raise refused("GetShardIterator", "TrimmedDataAccessException")
            return place
        assert instant is not None, kind
        asked_ms = int(instant.timestamp() * 1000)
        if stream.habits.instants == "refused" or asked_ms > stream.now_ms:
            raise refused("GetShardIterator", "ValidationException")
        for item in shard.items:
            if item.arrival_ms >= asked_ms:
                return item.sequence_number - 1
        return max((item.sequence_number for item in shard.items), default=lost)

    def get_records(self, ShardIterator: str, Limit: int = 1000) -> Json:
        def serve(fate: Fate) -> Json:
            found = self._iterators[int(ShardIterator)]
            if self._stream.now_ms - found.issued_ms > ITERATOR_MS:
                raise refused("GetRecords", "ExpiredIteratorException")
            shard = self._shard("GetRecords", found.arn, found.shard_id)
            if self._stream.trimmed.get(shard.shard_id, -1) > found.behind:
                raise refused("GetRecords", "TrimmedDataAccessException")
            return self._answer(shard, found, Limit, empty=fate.word == "empty")

        return self._call("records", "GetRecords", serve, self._stream.habits.shows_body)

    def _answer(self, shard: ScriptedShard, place: Iterator, limit: int, *, empty: bool) -> Json:
        habits = self._stream.habits
        waiting = [item for item in shard.items if item.sequence_number > place.behind]
        nothing = (empty or place.hops > 0) and place.empty < MOST_EMPTY
        page = [] if nothing else waiting[:limit]
        answer: Json = {"Records": [_record(item) for item in page]}
        if shard.closed and not nothing and page == waiting and (habits.ends_with_records or not page):
            return answer if habits.absent else {**answer, "NextShardIterator": None}
        behind = page[-1].sequence_number if page else place.behind
        left = max(0, place.hops - 1) if nothing else 0
        onward = replace(
            place, behind=behind, hops=left, issued_ms=self._stream.now_ms, empty=0 if page else place.empty + 1
        )
        return {**answer, "NextShardIterator": self._kept(onward)}

    def _kept(self, iterator: Iterator) -> str:
        self._iterators.append(iterator)
        return str(len(self._iterators) - 1)


def refused(operation: str, code: str) -> ClientError:
    """An error that the service answers with."""
    status = 500 if code == "InternalServerError" else 400
    meta = {"HTTPStatusCode": status, "RequestId": "1", "HostId": "", "HTTPHeaders": {}, "RetryAttempts": 0}
    return ClientError(
        {"Error": {"Code": code, "Message": "so the schedule says"}, "ResponseMetadata": meta}, operation
    )


def _described(shard: ScriptedShard) -> Json:
    numbers = {"StartingSequenceNumber": "1", **({"EndingSequenceNumber": "2"} if shard.closed else {})}
    parent = {"ParentShardId": shard.parents[0]} if shard.parents else {}
    return {"ShardId": shard.shard_id, "SequenceNumberRange": numbers, **parent}


def _record(item: Item) -> Json:
    change = {
        "ApproximateCreationDateTime": item.arrival_ms // 1000,
        "Keys": {"id": {"S": item.key}},
        "SequenceNumber": str(item.sequence_number),
        "SizeBytes": 3,
        "StreamViewType": "KEYS_ONLY",
    }
    return {"eventID": str(item.sequence_number), "eventName": "MODIFY", "eventVersion": "1.1", "dynamodb": change}


def _parsed(answer: Json) -> Json:
    """An answer as botocore parses it: times are times, and what is null is not there."""
    records = [{**record, "dynamodb": _timed(record["dynamodb"])} for record in answer["Records"]]
    rest = {name: value for name, value in answer.items() if value is not None}
    return {**rest, "Records": records}


def _timed(change: Json) -> Json:
    moment = datetime.fromtimestamp(change["ApproximateCreationDateTime"], UTC)
    return {**change, "ApproximateCreationDateTime": moment}
