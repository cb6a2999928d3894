# SPDX-License-Identifier: Apache-2.0
"""Calls of a boto3 client: paced, counted, their bodies decoded, their errors put into our words."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from shardbatch.core.ports import Clock
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import InvalidAnswer, SourceError, Throttled
from shardbatch.sources.kinesis import decoder
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.event_stream import Opening, events
from shardbatch.sources.kinesis.options import KinesisOptions, StreamName
from shardbatch.sources.kinesis.pace import Pace, Patience
from shardbatch.sources.kinesis.refusals import (
    PassingRefusal,
    PlaceRefused,
    StreamBusy,
    TokenExpired,
    Unreachable,
    named,
    unsent,
)

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

__all__ = ["Caller", "PassingRefusal", "PlaceRefused", "StreamBusy", "TokenExpired", "Unreachable"]

DECODED = "shardbatch.decoded"
BODY = "shardbatch.body"


class _Now(threading.local):
    """The caller whose call this thread is making, if it is one of ours."""

    caller: Caller | None = None
    pace: Pace | None = None
    sent: int = 0
    waiting: Waiting = NO_WAITING


_now = _Now()


def _before_send(event_name: str = "", **_: Any) -> None:
    """Every HTTP attempt, those that botocore's own retries make included, keeps the pace and is counted."""
    if _now.caller is None:
        return
    if _now.pace is not None:
        _note(seconds=_now.pace.take())
    _now.caller.count(event_name.rpartition(".")[2])


def _note(**what: Any) -> None:
    """Count what the service's limits cost this thread."""
    _now.waiting += Waiting(**what)


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

    def waited(self) -> Waiting:
        """What the service's limits have cost this thread so far; differences tell what a step cost."""
        return _now.waiting

    def renewed(self) -> None:
        """Note that a subscription followed another one."""
        _note(resubscribed=1)

    def patience(self) -> Patience:
        """A new count of failures."""
        return Patience(self.options.attempts, self.options.throttles)

    def once(self, operation: str, pace: Pace | None = None, **parameters: Any) -> dict[str, Any]:
        """One call, by the client's method name.

        :raises SourceError: of the kind that says what to do about it.
        """
        if pace is not None:
            _note(seconds=pace.wait())
        outer = (_now.caller, _now.pace)
        _now.caller, _now.pace = self, pace
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**parameters)
        except ClientError as error:
            raise self._named(operation, *_reason(error.response)) from error
        except (ConnectionError, HTTPClientError) as error:
            raise Unreachable(f"No answer to {operation} of {self.where}: {error}") from error
        except BotoCoreError as error:
            raise unsent(operation, self.where, error) from error
        except RuntimeError as error:
            if "credentials" not in str(error):
                raise
            # Botocore's only word for credentials that were renewed and have expired all the same.
            raise PassingRefusal(f"{operation} of {self.where} could not be sent: {error}") from error
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
                _note(seconds=delay)
            except (InvalidAnswer, Unreachable) as error:
                delay = patience.failed(error)
            self.clock.sleep(delay)

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
        return events(answer[BODY], lambda code, message: self._named("subscribe_to_shard", code, message))

    def _named(self, operation: str, code: str, message: str, status: int = 0) -> SourceError:
        error = named(operation, self.where, code, message, status)
        if isinstance(error, Throttled):
            _note(refused=1)
        return error


def _reason(response: Mapping[str, Any]) -> tuple[str, str, int]:
    error, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    return str(error.get("Code", "")), str(error.get("Message", "")), int(meta.get("HTTPStatusCode", 0))
