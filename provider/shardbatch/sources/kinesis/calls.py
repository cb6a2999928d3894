# SPDX-License-Identifier: Apache-2.0
"""Calls of a boto3 client: paced, counted, their bodies decoded, their errors put into our words."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from shardbatch.core.ports import Clock
from shardbatch.errors import InvalidAnswer, IteratorExpired, ShardNotFound, SourceError, Throttled
from shardbatch.sources.kinesis import decoder
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.event_stream import Opening, events
from shardbatch.sources.kinesis.options import KinesisOptions, StreamName
from shardbatch.sources.kinesis.pace import Pace, Patience

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

DECODED = "shardbatch.decoded"
BODY = "shardbatch.body"

THROTTLES = frozenset(
    {
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
FAILURES = frozenset({"InternalFailure", "InternalFailureException", "ServiceUnavailable"})


class Unreachable(SourceError):
    """The service did not answer, or answered that it failed."""

    remedy = "Check the endpoint in the connection and the network; the task may be retried."


class TokenExpired(SourceError):
    """The listing's token is older than its five minutes."""


class StreamBusy(SourceError):
    """The stream's state does not permit the call."""


class _Now(threading.local):
    """The caller whose call this thread is making, if it is one of ours."""

    caller: Caller | None = None
    pace: Pace | None = None
    sent: int = 0


_now = _Now()


def _before_send(event_name: str = "", **_: Any) -> None:
    """Every HTTP attempt, those that botocore's own retries make included, keeps the pace and is counted."""
    if _now.caller is None:
        return
    if _now.pace is not None:
        _now.pace.take()
    _now.caller.count(event_name.rpartition(".")[2])


def _before_parse(event_name: str, response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Believe no body that is shorter than announced; decode records in botocore's place, and leave it nothing to parse
    or to write into a debug log. Botocore itself takes what it cannot parse for an answer without any field."""
    if _now.caller is None:
        return
    operation = event_name.rpartition(".")[2]
    body, headers = response_dict["body"], response_dict["headers"]
    if operation == "SubscribeToShard" and response_dict["status_code"] == 200:
        customized_response_dict[BODY], response_dict["body"] = body, Opening()
        return
    records = operation == "GetRecords" and response_dict["status_code"] == 200
    if records:
        response_dict["body"] = b"{}"
    length = headers.get("content-length")
    if length is not None and not headers.get("content-encoding") and int(length) != len(body):
        raise InvalidAnswer(f"An answer to {operation} was cut short: {len(body)} of {length} bytes.")
    if records:
        customized_response_dict[DECODED] = decoder.decode(body)


class Caller:
    """The calls of one source.

    Retries of the given client's own configuration are harmless but not needed: ``total_max_attempts=1`` is best.
    """

    def __init__(self, client: KinesisClient, stream: StreamName, clock: Clock, options: KinesisOptions) -> None:
        self.client = client
        self.stream = stream
        self.clock = clock
        self.options = options
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()
        events = client.meta.events
        events.register("before-send.kinesis", _before_send, unique_id="shardbatch-before-send")
        events.register("before-parse.kinesis", _before_parse, unique_id="shardbatch-before-parse")

    @property
    def where(self) -> str:
        """The stream with its region and endpoint, for messages."""
        meta = self.client.meta
        return f"stream {self.stream.arn or self.stream.name} in {meta.region_name} at {meta.endpoint_url}"

    def count(self, operation: str) -> None:
        """Note that a request was sent."""
        _now.sent += 1
        with self._lock:
            self.calls[operation] += 1

    def sent(self) -> int:
        """Requests that this thread has sent so far; differences tell what a step cost."""
        return _now.sent

    def patience(self) -> Patience:
        """A new count of failures."""
        return Patience(self.options.attempts, self.options.throttles)

    def once(self, operation: str, pace: Pace | None = None, **parameters: Any) -> dict[str, Any]:
        """One call, by the client's method name.

        :raises SourceError: of the kind that says what to do about it.
        """
        if pace is not None:
            pace.wait()
        outer = (_now.caller, _now.pace)
        _now.caller, _now.pace = self, pace
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**parameters)
        except ClientError as error:
            raise self._named(operation, *_reason(error.response)) from error
        except (ConnectionError, HTTPClientError) as error:
            raise Unreachable(f"No answer to {operation} of {self.where}: {error}") from error
        except BotoCoreError as error:
            raise SourceError(
                f"{operation} of {self.where} could not be sent: {error}",
                remedy="Check the credentials and the region in the connection.",
            ) from error
        finally:
            _now.caller, _now.pace = outer
        return answer

    def patiently(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """One call, tried again while it is throttled, fails or is answered by half, within the options' bounds."""
        patience = self.patience()
        while True:
            try:
                return self.once(operation, **parameters)
            except Throttled as error:
                delay = patience.throttled(error)
            except (InvalidAnswer, Unreachable) as error:
                delay = patience.failed(error)
            self.clock.sleep(delay)

    def records(self, iterator: str, pace: Pace) -> Decoded:
        """One answer of GetRecords, whole."""
        limit = self.options.page_records
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
            hidden = SourceError(
                "This version of botocore does not show the body of an answer.",
                remedy="Update botocore, or choose FanOut.NEVER.",
            )
            hidden.retryable = False
            raise hidden
        return events(answer[BODY], lambda code, message: self._named("subscribe_to_shard", code, message))

    def _named(self, operation: str, code: str, message: str, status: int = 0) -> SourceError:
        text = f"{operation} of {self.where}: {code}: {message}"
        if code in THROTTLES:
            return Throttled(text)
        if code == "ExpiredIteratorException":
            return IteratorExpired(text)
        if code == "ExpiredNextTokenException":
            return TokenExpired(text)
        if code == "ResourceNotFoundException":
            return ShardNotFound(text)
        if code == "ResourceInUseException":
            return StreamBusy(text)
        if status >= 500 or code in FAILURES:
            return Unreachable(text)
        refused = SourceError(text, remedy="Check the permissions of the connection's role and the stream's policy.")
        refused.retryable = False
        return refused


def _reason(response: Mapping[str, Any]) -> tuple[str, str, int]:
    error, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    return str(error.get("Code", "")), str(error.get("Message", "")), int(meta.get("HTTPStatusCode", 0))
