# SPDX-License-Identifier: Apache-2.0
"""Filling a stream of the server quickly: PutRecords without an SDK."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPConnection
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from shardbatch.errors import ShardbatchError

ENTRIES_A_CALL = 500
BYTES_A_CALL = 5 * 1024 * 1024
PAUSE_SECONDS = 0.2


class FillError(ShardbatchError):
    """The server did not take a record."""

    remedy = "Records put before stay in the stream: create it anew, then fill it again."


def fill_stream(
    endpoint_url: str,
    stream: str,
    records: Iterable[tuple[str, bytes]],
    *,
    progress: Callable[[int], object] | None = None,
    timeout: float = 60.0,
) -> int:
    """Put records into a stream of the server, in order, and return how many there were.

    It costs a fraction of what an SDK costs, and signs nothing: only a server like this one takes it.

    :param endpoint_url: :attr:`StreamServer.endpoint_url`
    :param stream: name of a stream in the server's default account and region
    :param records: partition key (1 to 256 characters) and data of each record
    :param progress: called with the number of records put so far, after each call of at most 500
    :param timeout: seconds that one call may take; throttled records are put again meanwhile
    :raises FillError: the server refused the call, or went on throttling
    :raises OSError: the server cannot be reached
    """
    address = urlsplit(endpoint_url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=timeout)
    done = 0
    try:
        calls = _calls(records)
        entries = next(calls, [])
        while entries:
            _send(connection, stream, entries)
            following = next(calls, [])  # made while the server works
            _finish(connection, stream, entries, time.monotonic() + timeout)
            done += len(entries)
            if progress is not None:
                progress(done)
            entries = following
    finally:
        connection.close()
    return done


def _calls(records: Iterable[tuple[str, bytes]]) -> Iterator[list[dict[str, str]]]:
    rest = iter(records)
    while batch := list(islice(rest, ENTRIES_A_CALL)):
        entries: list[dict[str, str]] = []
        size = 0
        for key, data in batch:
            if entries and size + len(key) + len(data) > BYTES_A_CALL:
                yield entries
                entries, size = [], 0
            size += len(key) + len(data)
            entries.append({"PartitionKey": key, "Data": b64encode(data).decode("ascii")})
        yield entries


def _send(connection: HTTPConnection, stream: str, entries: list[dict[str, str]]) -> None:
    headers = {"X-Amz-Target": "Kinesis_20131202.PutRecords", "Content-Type": "application/x-amz-json-1.1"}
    connection.request("POST", "/", json.dumps({"StreamName": stream, "Records": entries}).encode(), headers)


def _finish(connection: HTTPConnection, stream: str, entries: list[dict[str, str]], deadline: float) -> None:
    while True:
        answer = _receive(connection)
        if not answer["FailedRecordCount"]:
            return
        if time.monotonic() > deadline:
            raise FillError(f"{stream} goes on throttling: give it more shards, or its server no limits.")
        time.sleep(PAUSE_SECONDS)
        entries = [entry for entry, result in zip(entries, answer["Records"], strict=True) if "ErrorCode" in result]
        _send(connection, stream, entries)


def _receive(connection: HTTPConnection) -> dict[str, Any]:
    reply = connection.getresponse()
    answer: dict[str, Any] = json.loads(reply.read())
    if reply.status != 200:
        raise FillError(f"the server refused to put records: {answer.get('__type')}: {answer.get('message')}.")
    return answer
