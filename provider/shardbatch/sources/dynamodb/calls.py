# SPDX-License-Identifier: Apache-2.0
"""Calls of the two clients: of a table, which names its stream, and of the stream, whose records are decoded here."""

from __future__ import annotations

from typing import Any

from shardbatch.core.ports import Clock
from shardbatch.errors import SourceError
from shardbatch.sources.aws.calls import AwsCaller, require_whole
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.dynamodb import decoder
from shardbatch.sources.dynamodb.decoder import Decoded
from shardbatch.sources.dynamodb.options import DynamoDBOptions, TableName
from shardbatch.sources.dynamodb.pace import BETWEEN_DESCRIPTIONS, UNMETERED
from shardbatch.sources.dynamodb.refusals import named

DECODED = "shardbatch.decoded"


class Caller(AwsCaller):
    """The calls of one source with one of its clients.

    :param service: the client's service, in botocore's events.
    """

    def __init__(self, client: Any, service: str, table: TableName, clock: Clock, options: DynamoDBOptions) -> None:
        super().__init__(client, service, clock, attempts=options.attempts, throttles=options.throttles)
        self.table = table
        self.options = options
        #: Between calls of DescribeStream, of which an account has few.
        self.descriptions = Pace(clock, BETWEEN_DESCRIPTIONS, 0.0, UNMETERED)

    @property
    def where(self) -> str:
        """The stream with its region and endpoint, for messages."""
        meta = self.client.meta
        what = f"stream {self.table.stream_arn}" if self.table.stream_arn else f"stream of table {self.table.address}"
        return f"{what} in {meta.region_name} at {meta.endpoint_url}"

    def named(self, operation: str, code: str, message: str, status: int = 0) -> SourceError:
        """The error that an error code of the service is."""
        return named(operation, self.where, code, message, status)

    def takes(self, operation: str, parameter: str) -> bool:
        """Whether this version of botocore knows a parameter: calls have gained some over the years."""
        shape = self.client.meta.service_model.operation_model(operation).input_shape
        return parameter in shape.members

    def take_body(self, operation: str, response: Any, found: dict[str, Any]) -> None:
        """Decode records in botocore's place, and leave it nothing to parse or to write into a debug log."""
        records = operation == "GetRecords" and response["status_code"] == 200
        try:
            require_whole(operation, response)
            if records:
                found[DECODED] = decoder.decode(response["body"])
        finally:
            if records:
                response["body"] = b"{}"

    def records(self, iterator: str, pace: Pace) -> Decoded:
        """One answer of GetRecords, whole."""
        answer = self.once("get_records", pace, ShardIterator=iterator, Limit=self.options.page_records)
        decoded = answer.get(DECODED)
        return decoded if isinstance(decoded, Decoded) else decoder.adapt(answer)
