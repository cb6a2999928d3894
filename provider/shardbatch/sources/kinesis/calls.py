# SPDX-License-Identifier: Apache-2.0
"""Calls of a Kinesis client: how the stream is named in them, and how their records are decoded."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from shardbatch.core.ports import Clock
from shardbatch.errors import SourceError
from shardbatch.sources.aws.calls import AwsCaller, note, require_whole
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.kinesis import decoder
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.event_stream import Opening, events
from shardbatch.sources.kinesis.options import KinesisOptions, StreamName
from shardbatch.sources.kinesis.refusals import named

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

DECODED = "shardbatch.decoded"
BODY = "shardbatch.body"


class Caller(AwsCaller):
    """The calls of one source."""

    def __init__(self, client: KinesisClient, stream: StreamName, clock: Clock, options: KinesisOptions) -> None:
        super().__init__(client, "kinesis", clock, attempts=options.attempts, throttles=options.throttles)
        self.stream = stream
        self.options = options

    @property
    def where(self) -> str:
        """The stream with its region and endpoint, for messages."""
        meta = self.client.meta
        return f"stream {self.stream.arn or self.stream.name} in {meta.region_name} at {meta.endpoint_url}"

    def named(self, operation: str, code: str, message: str, status: int = 0) -> SourceError:
        """The error that an error code of the service is."""
        return named(operation, self.where, code, message, status)

    def take_body(self, operation: str, response: Any, found: dict[str, Any]) -> None:
        """Decode records in botocore's place, and leave it nothing to parse or to write into a debug log."""
        answered = response["status_code"] == 200
        if operation == "SubscribeToShard" and answered:
            found[BODY], response["body"] = response["body"], Opening()
            return
        try:
            require_whole(operation, response)
            if operation == "GetRecords" and answered:
                found[DECODED] = decoder.decode(response["body"])
        finally:
            if operation == "GetRecords" and answered:
                response["body"] = b"{}"

    def renewed(self) -> None:
        """Note that a subscription followed another one."""
        note(resubscribed=1)

    def records(self, iterator: str, pace: Pace, limit: int | None = None) -> Decoded:
        """One answer of GetRecords, whole; of at most ``limit`` records, default the options' ``page_records``."""
        limit = limit or self.options.page_records
        answer = self.once("get_records", pace, ShardIterator=iterator, Limit=limit, **self.stream.owner)
        decoded = answer.get(DECODED)
        found = decoded if isinstance(decoded, Decoded) else decoder.adapt(answer)
        idle = found.records.num_rows == 0 and found.millis_behind_latest == 0
        pace.answered(found.metered_bytes, idle=idle)
        return found

    def subscribe(self, consumer: str, shard_id: str, start: dict[str, Any]) -> Generator[Decoded, None, None]:
        """The events of a new subscription of a consumer, given by its ARN.

        :raises SourceError: at once if it is refused, and later if an error comes in place of an event.
        """
        answer = self.once("subscribe_to_shard", ConsumerARN=consumer, ShardId=shard_id, StartingPosition=start)
        if BODY not in answer:
            raise SourceError(
                "This version of botocore does not show the body of an answer.",
                remedy="Update botocore, or choose FanOut.NEVER.",
                retryable=False,
            )
        return events(answer[BODY], lambda code, message: self.refused("subscribe_to_shard", code, message))
