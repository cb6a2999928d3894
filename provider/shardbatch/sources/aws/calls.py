# SPDX-License-Identifier: Apache-2.0
"""Calls of a boto3 client: paced, counted, their bodies whole, their errors put into our words."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from shardbatch.core.ports import Clock
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import InvalidAnswer, SourceError, Throttled
from shardbatch.sources.aws.pace import Pace, Patience
from shardbatch.sources.aws.refusals import PassingRefusal, Unreachable, unsent


class _Now(threading.local):
    """The caller whose call this thread is making, if it is one of ours."""

    caller: AwsCaller | None = None
    pace: Pace | None = None
    sent: int = 0
    waiting: Waiting = NO_WAITING


_now = _Now()


def _before_send(event_name: str = "", **_: Any) -> None:
    """Every HTTP attempt, those that botocore's own retries make included, keeps the pace and is counted."""
    if _now.caller is None:
        return
    if _now.pace is not None:
        note(seconds=_now.pace.take())
    _now.caller.count(event_name.rpartition(".")[2])


def _before_parse(event_name: str, response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    if _now.caller is not None:
        _now.caller.take_body(event_name.rpartition(".")[2], response_dict, customized_response_dict)


def note(**what: Any) -> None:
    """Count what the service's limits cost this thread, as fields of :class:`Waiting`."""
    _now.waiting += Waiting(**what)


def require_whole(operation: str, response: Mapping[str, Any]) -> None:
    """Refuse a body that is shorter than its announced length: botocore makes an answer without fields of it.

    :raises InvalidAnswer: if it was cut short.
    """
    body, headers = response["body"], response["headers"]
    length = headers.get("content-length")
    if length is not None and not headers.get("content-encoding") and int(length) != len(body):
        raise InvalidAnswer(f"An answer to {operation} was cut short: {len(body)} of {length} bytes.")


def unreadable(what: str, body: bytes, error: Exception) -> InvalidAnswer:
    """The error for a body that a parser refuses. The parser's words name a place and a type, never a value; those of
    a text that is not UTF-8 would show a part of it."""
    reason = "a text in it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
    return InvalidAnswer(f"{what} of {len(body)} bytes cannot be parsed: {reason}.")


def date_of(answer: Mapping[str, Any]) -> int | None:
    """The ``Date`` of an answer, in whole seconds, cut off, as milliseconds; ``None`` for a server that sends none."""
    headers: Mapping[str, str] = answer["ResponseMetadata"].get("HTTPHeaders", {})
    date = headers.get("date")
    return None if date is None else int(parsedate_to_datetime(date).timestamp()) * 1000


class AwsCaller:
    """The calls of one source, which says in a subclass what its errors mean.

    Retries of the given client's own configuration are harmless but not needed: ``total_max_attempts=1`` is best.

    :param service: the service's name in botocore's events (``dynamodb-streams``).
    :param attempts: answers in a row that may fail before :meth:`patiently` gives up.
    :param throttles: refusals in a row before it does.
    """

    def __init__(self, client: Any, service: str, clock: Clock, *, attempts: int, throttles: int) -> None:
        self.client = client
        self.clock = clock
        self.calls: Counter[str] = Counter()
        self._attempts, self._throttles = attempts, throttles
        self._lock = threading.Lock()
        events = client.meta.events
        events.register(f"before-send.{service}", _before_send, unique_id="shardbatch-before-send")
        events.register(f"before-parse.{service}", _before_parse, unique_id="shardbatch-before-parse")

    @property
    def where(self) -> str:
        """The stream with its region and endpoint, for messages."""
        raise NotImplementedError

    def named(self, operation: str, code: str, message: str, status: int = 0) -> SourceError:
        """The error that an error code of the service is."""
        raise NotImplementedError

    def take_body(self, operation: str, response: Any, found: dict[str, Any]) -> None:
        """See to the body of an answer before botocore parses it; what is put into ``found`` stands in the answer.

        :raises InvalidAnswer: if it was cut short.
        """
        require_whole(operation, response)

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

    def patience(self) -> Patience:
        """A new count of failures."""
        return Patience(self._attempts, self._throttles)

    def once(self, operation: str, pace: Pace | None = None, **parameters: Any) -> dict[str, Any]:
        """One call, by the client's method name.

        :raises SourceError: of the kind that says what to do about it.
        """
        if pace is not None:
            note(seconds=pace.wait())
        outer = (_now.caller, _now.pace)
        _now.caller, _now.pace = self, pace
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**parameters)
        except ClientError as error:
            raise self.refused(operation, *_reason(error.response)) from error
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
        """One call, tried again while it is throttled, fails or is answered by half, as often as the caller may."""
        patience = self.patience()
        while True:
            try:
                return self.once(operation, **parameters)
            except Throttled as error:
                delay = patience.throttled(error)
                note(seconds=delay)
            except (InvalidAnswer, Unreachable) as error:
                delay = patience.failed(error)
            self.clock.sleep(delay)

    def refused(self, operation: str, code: str, message: str, status: int = 0) -> SourceError:
        """As :meth:`named`; a refusal for the rate is counted."""
        error = self.named(operation, code, message, status)
        if isinstance(error, Throttled):
            note(refused=1)
        return error


def _reason(response: Mapping[str, Any]) -> tuple[str, str, int]:
    error, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    return str(error.get("Code", "")), str(error.get("Message", "")), int(meta.get("HTTPStatusCode", 0))
