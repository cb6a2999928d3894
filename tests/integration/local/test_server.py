# SPDX-License-Identifier: Apache-2.0
"""The stream server on the wire: faults, steering from outside, starting and stopping."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from shardbatch.local import Clock, StreamServer
from tests.support.aws import AwsServer
from tests.support.ports import free_port

ROOT = "shardId-000000000000"
TARGET = "Kinesis_20131202."


@contextmanager
def connection(server: StreamServer) -> Iterator[http.client.HTTPConnection]:
    opened = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        yield opened
    finally:
        opened.close()


def ask(opened: http.client.HTTPConnection, operation: str, **fields: Any) -> Any:
    opened.request("POST", "/", json.dumps(fields), {"X-Amz-Target": TARGET + operation})
    return json.loads(opened.getresponse().read() or b"{}")


def steer(url: str, method: str, path: str, **fields: Any) -> Any:
    """A control call; its JSON answer."""
    host = url.removeprefix("http://")
    opened = http.client.HTTPConnection(host, timeout=10)
    try:
        opened.request(method, f"/_shardbatch/{path}", json.dumps(fields))
        answer = opened.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        opened.close()


def test_many_calls_share_a_connection(server: StreamServer) -> None:
    with connection(server) as opened:
        ask(opened, "CreateStream", StreamName="s", ShardCount=1)
        kept = opened.sock
        for _ in range(50):
            assert ask(opened, "ListStreams")["StreamNames"] == ["s"]
        assert opened.sock is kept


def test_requests_that_arrive_in_pieces_or_together_are_answered_in_order(server: StreamServer) -> None:
    one = b"POST / HTTP/1.1\r\nX-Amz-Target: Kinesis_20131202.ListStreams\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(one[:20])
        raw.sendall(one[20:-1])
        raw.sendall(one[-1:] + one + one.replace(b"ListStreams", b"Nothing"))
        received = b""
        while b"UnknownOperationException" not in received.rpartition(b"\r\n\r\n")[2]:
            received += raw.recv(65536)
        assert received.count(b"HTTP/1.1 200 OK") == 2


def test_a_client_that_waits_to_be_told_to_continue_is_told(server: StreamServer) -> None:
    head = b"POST / HTTP/1.1\r\nX-Amz-Target: Kinesis_20131202.ListStreams\r\nExpect: 100-continue\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(head + b"Content-Length: 2\r\n\r\n")
        assert raw.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.sendall(b"{}")
        assert raw.recv(100).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nX: " + b"x" * 70_000, 431),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST / HTTP/1.1\r\nContent-Type: application/x-amz-cbor-1.1\r\n\r\n", 415),
    ],
)
def test_bad_http_is_refused_and_the_server_lives_on(server: StreamServer, request_bytes: bytes, status: int) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(request_bytes)
        assert raw.recv(100).startswith(b"HTTP/1.1 %d " % status)
    with connection(server) as opened:
        assert ask(opened, "ListStreams")["StreamNames"] == []


def test_an_error_reaches_boto3_by_its_name(server: StreamServer, client: Any) -> None:
    server.faults.add("ListStreams", "error", error="LimitExceededException", message="too often")
    with pytest.raises(ClientError) as raised:
        client.list_streams()
    assert raised.value.response["Error"] == {"Code": "LimitExceededException", "Message": "too often"}


def test_boto3_gets_over_faults_by_retrying(server: StreamServer) -> None:
    patient = AwsServer("shardbatch.local", server.endpoint_url).client("kinesis", attempts=4)
    server.faults.add("ListStreams", "reset")
    server.faults.add("ListStreams", "error", after=0, error="InternalFailure")
    server.faults.add("ListStreams", "error", after=1, error="ProvisionedThroughputExceededException")
    assert patient.list_streams()["StreamNames"] == []
    outcomes = [(call.status, call.error) for call in server.calls.list("ListStreams")]
    assert outcomes[-1] == (200, None)
    assert len(outcomes) == 3


def test_a_connection_can_be_reset_before_or_after_the_effect(server: StreamServer) -> None:
    server.engine.create("s")
    stream = server.engine.find(server.engine.home(), "s")
    for applied in (False, True):
        server.faults.add("PutRecord", "reset", applied=applied)
        with connection(server) as opened, pytest.raises(ConnectionResetError):
            ask(opened, "PutRecord", StreamName="s", PartitionKey="k", Data="")
    assert stream.shards[ROOT].next_count == 2
    assert [call.status for call in server.calls.list("PutRecord")] == [0, 0]


def test_a_body_can_stop_short_of_its_length(server: StreamServer) -> None:
    server.faults.add("ListStreams", "cut", keep=0.3)
    with connection(server) as opened:
        opened.request("POST", "/", "{}", {"X-Amz-Target": TARGET + "ListStreams"})
        with pytest.raises(http.client.IncompleteRead) as raised:
            opened.getresponse().read()
    assert raised.value.expected is not None
    assert 0 < len(raised.value.partial) < raised.value.expected


def test_a_slow_answer_holds_up_its_own_connection_only(server: StreamServer) -> None:
    server.faults.add("ListStreams", "latency", seconds=0.4)
    with ThreadPoolExecutor(1) as pool, connection(server) as slow, connection(server) as quick:
        began = time.monotonic()
        waiting = pool.submit(ask, slow, "ListStreams")
        while not server.calls.count("ListStreams"):
            assert time.monotonic() - began < 10
        assert ask(quick, "ListStreams")["StreamNames"] == []
        assert not waiting.done()
        waiting.result(10)
        assert time.monotonic() - began >= 0.4


def test_the_log_measures_the_spacing_of_calls(server: StreamServer, client: Any) -> None:
    server.engine.create("s")
    iterator = client.get_shard_iterator(StreamName="s", ShardId=ROOT, ShardIteratorType="LATEST")["ShardIterator"]
    for _ in range(3):
        client.get_records(ShardIterator=iterator)
    times = [call.monotonic for call in server.calls.list("GetRecords", shard=ROOT)]
    assert times == sorted(set(times))
    assert times[0] <= time.monotonic()


def test_large_pages_arrive_whole(server: StreamServer, client: Any) -> None:
    client.create_stream(StreamName="s", ShardCount=1)
    for start in range(0, 5_000, 500):
        records = [{"PartitionKey": "k", "Data": b"%05d" % n + b"x" * 1_000} for n in range(start, start + 500)]
        client.put_records(StreamName="s", Records=records)
    iterator = client.get_shard_iterator(StreamName="s", ShardId=ROOT, ShardIteratorType="TRIM_HORIZON")
    records = client.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    assert [int(record["Data"][:5]) for record in records] == list(range(5_000))


def test_a_server_on_a_still_clock_reports_that_time() -> None:
    with StreamServer(clock=Clock(lambda: 1_700_000_000.0)) as server:
        client = AwsServer("shardbatch.local", server.endpoint_url).client("kinesis", attempts=1)
        client.create_stream(StreamName="s", ShardCount=1)
        summary = client.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
        assert summary["StreamCreationTimestamp"].timestamp() == 1_700_000_000.0
        server.clock.advance(86_400.9)
        headers = client.list_streams()["ResponseMetadata"]["HTTPHeaders"]
        assert headers["date"] == "Wed, 15 Nov 2023 22:13:20 GMT"  # cut off to whole seconds


def test_everything_can_be_steered_from_outside(server: StreamServer, client: Any) -> None:
    url = server.endpoint_url
    assert steer(url, "GET", "health") == (200, {"ok": True})
    client.create_stream(StreamName="s", ShardCount=1)
    numbers = [client.put_record(StreamName="s", PartitionKey="k", Data=b"x")["SequenceNumber"] for _ in range(3)]
    status, fault = steer(url, "POST", "faults", operation="ListStreams", kind="error", error="LimitExceededException")
    assert (status, fault["kind"]) == (200, "error")
    assert [item["id"] for item in steer(url, "GET", "faults")[1]] == [fault["id"]]
    with pytest.raises(ClientError):
        client.list_streams()
    steer(url, "POST", "faults", operation="ListStreams", kind="reset")
    steer(url, "DELETE", "faults")
    assert client.list_streams()["StreamNames"] == ["s"]
    assert [call["error"] for call in steer(url, "GET", "calls?operation=ListStreams")[1]] == [
        "LimitExceededException",
        None,
    ]
    assert steer(url, "DELETE", "calls") == (200, {})
    assert steer(url, "GET", "calls") == (200, [])
    assert steer(url, "POST", "trim", stream="s", shard=ROOT, before=numbers[2]) == (200, {"trimmed": 2})
    (shown,) = steer(url, "GET", "streams")[1]
    assert [(shard["Records"], shard["Trimmed"]) for shard in shown["shards"]] == [(1, 2)]
    assert steer(url, "POST", "options", name_children=False)[1]["name_children"] is False
    before = steer(url, "GET", "clock")[1]["now"]
    assert steer(url, "POST", "clock", advance=3600)[1]["now"] >= before + 3600
    assert steer(url, "POST", "reset") == (200, {})
    assert client.list_streams()["StreamNames"] == []


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("clock", {"advance": -1}, 400),
        ("clock", {}, 400),
        ("options", {"odd": 1}, 400),
        ("faults", {"operation": "X", "kind": "odd"}, 400),
        ("trim", {"stream": "missing"}, 400),
        ("trim", {}, 400),
        ("calls", {}, 404),
        ("odd", {}, 404),
    ],
)
def test_bad_steering_is_refused_with_a_reason(
    server: StreamServer, path: str, fields: dict[str, Any], status: int
) -> None:
    answered, body = steer(server.endpoint_url, "POST", path, **fields)
    assert answered == status
    assert body["error"]


def test_a_stopped_server_can_be_started_again_and_keeps_its_streams() -> None:
    server = StreamServer()
    server.stop()
    server.start()
    server.engine.create("s")
    with pytest.raises(RuntimeError):
        server.start()
    with connection(server) as opened:
        ask(opened, "ListStreams")
        server.stop()
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask(opened, "ListStreams")
    with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", server.port), timeout=10):
        pass
    with server, connection(server) as opened:
        assert ask(opened, "ListStreams")["StreamNames"] == ["s"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_only_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(ValueError, match="loopback"):
        StreamServer(host=host)


def test_a_taken_port_is_an_error(server: StreamServer) -> None:
    second = StreamServer(server.port)
    with pytest.raises(OSError, match="in use"):
        second.start()
    second.stop()


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "shardbatch.local", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_process_prints_its_address_and_ends_cleanly(number: signal.Signals) -> None:
    port = free_port()
    options = ["--stream", "orders:4", "--stream", "t", "--account", "111122223333", "--limits", "--no-children"]
    with process("--port", str(port), *options) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        assert url == f"http://127.0.0.1:{port}"
        shown = {stream["name"]: len(stream["shards"]) for stream in steer(url, "GET", "streams")[1]}
        assert shown == {"orders": 4, "t": 1}
        options_now = steer(url, "GET", "options")[1]
        assert (options_now["limits"], options_now["name_children"]) == (True, False)
        running.send_signal(number)
        output, errors = running.communicate(timeout=10)
        assert (running.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--stream", "a b:1"], "NAME:SHARDS"),
        (["--stream", "a:0"], "NAME:SHARDS"),
        (["--stream", "a", "--stream", "a"], "exists"),
        (["--host", "0.0.0.0"], "loopback"),
        (["--host", "example.org"], "loopback"),
        (["--account", "12"], "12 digits"),
        (["--reshard-seconds", "-1"], "0 or more"),
        (["--port", "70000"], "port"),
    ],
)
def test_a_bad_command_line_is_one_clear_error(arguments: list[str], reason: str) -> None:
    with process(*arguments) as running:
        _, errors = running.communicate(timeout=20)
    assert running.returncode in (1, 2)
    assert reason in errors
    assert "Traceback" not in errors


def test_a_taken_port_ends_the_process_with_a_reason(server: StreamServer) -> None:
    with process("--port", str(server.port)) as running:
        _, errors = running.communicate(timeout=20)
    assert running.returncode == 1
    assert "choose another --port" in errors


def subscription(client: Any) -> dict[str, Any]:
    """A stream with a consumer; the fields of a subscription to its first shard."""
    client.create_stream(StreamName="s", ShardCount=1)
    arn = client.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    consumer = client.register_stream_consumer(StreamARN=arn, ConsumerName="c")["Consumer"]["ConsumerARN"]
    return {"ConsumerARN": consumer, "ShardId": ROOT, "StartingPosition": {"Type": "LATEST"}}


@pytest.mark.parametrize("kind", ["reset", "cut"])
def test_a_subscription_whose_answer_is_spoilt_is_none(server: StreamServer, client: Any, kind: str) -> None:
    fields = subscription(client)
    server.faults.add("SubscribeToShard", kind, applied=True)
    with pytest.raises((BotoCoreError, HTTPError)):
        client.subscribe_to_shard(**fields)
    server.clock.advance(6)
    next(iter(client.subscribe_to_shard(**fields)["EventStream"]))
    errors = [call.error for call in server.calls.list("SubscribeToShardEvent")]
    assert errors == [None]  # there was nothing to take over


def test_one_connection_serves_a_subscription_and_then_other_calls(server: StreamServer, client: Any) -> None:
    fields = subscription(client)
    client.split_shard(StreamName="s", ShardToSplit=ROOT, NewStartingHashKey="1")
    with connection(server) as kept:
        for _ in range(2):
            kept.request("POST", "/", json.dumps(fields), {"X-Amz-Target": f"{TARGET}SubscribeToShard"})
            answer = kept.getresponse()
            assert answer.getheader("Content-Type") == "application/vnd.amazon.eventstream"
            assert b"ChildShards" in answer.read()
            kept.request("POST", "/", b"{}", {"X-Amz-Target": f"{TARGET}ListStreams"})
            assert json.loads(kept.getresponse().read())["StreamNames"] == ["s"]
            server.clock.advance(6)


def test_a_subscription_that_nobody_reads_waits(server: StreamServer, client: Any) -> None:
    """The server keeps no more than a little of what its client does not take, and goes on with others."""
    fields = subscription(client) | {"StartingPosition": {"Type": "TRIM_HORIZON"}}
    for _ in range(30):
        client.put_record(StreamName="s", PartitionKey="a", Data=b"x" * 1_000_000)
    with connection(server) as kept:
        kept.request("POST", "/", json.dumps(fields), {"X-Amz-Target": f"{TARGET}SubscribeToShard"})
        answer = kept.getresponse()
        answer.read(1)
        client.list_streams()
        sent = server.calls.count("SubscribeToShardEvent")
        assert sent < 15
        taken = 0
        while taken < 40_000_000:  # in base64
            taken += len(answer.read1())
    assert server.calls.count("SubscribeToShardEvent") >= 30
