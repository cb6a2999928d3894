# SPDX-License-Identifier: Apache-2.0
"""All shards of a stream, and what the stream is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shardbatch.core.shard import KeyRange, Shard
from shardbatch.errors import InvalidAnswer, ShardNotFound, SourceError, StreamNotFound
from shardbatch.sources.aws.refusals import WHICH_STREAM
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.refusals import StreamBusy, TokenExpired

CREATING_POLL = 0.5
#: Denials in a row after which a stream counts as missing, which is final: the service may deny one that it has for a
#: moment.
MOST_DENIALS = 3
DENIAL_POLL = 0.2


def describe(caller: Caller) -> dict[str, Any]:
    """The stream's summary once it is readable: ``ACTIVE`` or ``UPDATING``. A stream in creation is waited for.

    :raises StreamNotFound: if there is none, or it is being deleted.
    :raises SourceError: if it is still being created after the options' time.
    """
    deadline = caller.clock.monotonic() + caller.options.creating_timeout.total_seconds()
    denied = 0
    while True:
        try:
            answer = caller.patiently("describe_stream_summary", **caller.stream.address)
        except ShardNotFound as error:
            denied += 1
            if denied >= MOST_DENIALS:
                raise missing(caller) from error.__cause__  # the service's own word
            caller.clock.sleep(DENIAL_POLL)
            continue
        summary: dict[str, Any] = answer.get("StreamDescriptionSummary") or {}
        if "StreamARN" not in summary:
            raise InvalidAnswer(f"The description of the {caller.where} was cut short.")
        status = summary.get("StreamStatus")
        if status == "DELETING":
            deleted = f"The {caller.where} is being deleted."
            raise StreamNotFound(deleted, remedy=WHICH_STREAM, stream=caller.stream.name)
        if status != "CREATING":
            return {**summary, "ResponseMetadata": answer.get("ResponseMetadata", {})}
        if caller.clock.monotonic() >= deadline:
            raise SourceError(f"The {caller.where} is still being created.", remedy="Retry when it is ACTIVE.")
        caller.clock.sleep(CREATING_POLL)


def missing(caller: Caller) -> StreamNotFound:
    """The error that names the stream, its region and its endpoint."""
    return StreamNotFound(f"There is no {caller.where}.", remedy=WHICH_STREAM, stream=caller.stream.name)


def list_all(caller: Caller) -> list[Shard]:
    """Every shard that the service lists, by starting sequence number.

    :raises StreamNotFound: if there is no such stream.
    :raises InvalidAnswer: if the pages run in a circle, or an active stream lists nothing.
    """
    for _ in range(2):
        try:
            shards = _listed(caller)
        except (ShardNotFound, StreamBusy):
            shards = {}  # the description tells whether there is a stream
        if shards:
            return sorted(shards.values(), key=lambda s: (int(s.starting_sequence_number or 0), s.shard_id))
        describe(caller)
    raise InvalidAnswer(f"The {caller.where} lists no shards although it is active.")


def _listed(caller: Caller) -> dict[str, Shard]:
    """One walk over the pages, begun anew when its token expires."""
    patience = caller.patience()
    while True:
        try:
            return _walk(caller)
        except TokenExpired as error:
            caller.clock.sleep(patience.expired(error))


def open_at(caller: Caller, instant_ms: int) -> list[Shard] | None:
    """The shards that were open at an instant, of those that are still listed; ``None`` if the service does not tell.

    A service that does not know this filter lists all shards. That shows by a shard beside its parent: one ends where
    the other begins.

    :raises StreamNotFound: if there is no such stream.
    """
    moment = datetime.fromtimestamp(instant_ms // 1000, UTC) + timedelta(milliseconds=instant_ms % 1000)
    try:
        found = _walk(caller, ShardFilter={"Type": "AT_TIMESTAMP", "Timestamp": moment})
    except ShardNotFound as error:
        raise missing(caller) from error.__cause__
    except SourceError as error:
        if error.retryable is not False or isinstance(error, StreamNotFound):
            raise
        return None
    if any(parent in found for shard in found.values() for parent in shard.parent_shard_ids):
        return None
    return [found[shard_id] for shard_id in sorted(found)]


def _walk(caller: Caller, **asked: Any) -> dict[str, Shard]:
    found: dict[str, Shard] = {}
    limit = caller.options.listed_shards
    seen: set[str] = set()
    parameters: dict[str, Any] = {**caller.stream.address, **asked}
    while True:
        answer = caller.patiently("list_shards", MaxResults=limit, **parameters)
        if "Shards" not in answer:
            raise InvalidAnswer(f"A listing page of the {caller.where} was cut short.")
        for item in answer["Shards"]:
            shard = to_shard(item)
            if shard.closed or shard.shard_id not in found:
                found[shard.shard_id] = shard
        token = answer.get("NextToken")
        if not token:
            return found
        if token in seen:
            raise InvalidAnswer(f"The listing of the {caller.where} runs in a circle.")
        seen.add(token)
        # The token names the stream; the service refuses both together.
        parameters = {"NextToken": token}


def to_shard(item: Mapping[str, Any]) -> Shard:
    """A shard of a listing. Either parent field may stand alone; an ending number closes, whatever its value."""
    numbers, span = item.get("SequenceNumberRange") or {}, item.get("HashKeyRange")
    named = (item.get("ParentShardId"), item.get("AdjacentParentShardId"))
    return Shard(
        shard_id=item["ShardId"],
        parent_shard_ids=tuple(dict.fromkeys(parent for parent in named if parent)),
        hash_range=KeyRange(int(span["StartingHashKey"]), int(span["EndingHashKey"])) if span else None,
        closed=bool(numbers.get("EndingSequenceNumber")),
        starting_sequence_number=numbers.get("StartingSequenceNumber"),
    )
