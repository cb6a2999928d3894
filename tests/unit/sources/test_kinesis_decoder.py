# SPDX-License-Identifier: Apache-2.0
"""The body of a GetRecords answer as Arrow, by our decoder and by botocore's parser."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections.abc import Callable
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore.awsrequest import AWSResponse

from shardbatch.core.ports import SYSTEM_CLOCK
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.errors import InvalidAnswer
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.kinesis import decoder
from shardbatch.sources.kinesis.calls import DECODED, Caller
from shardbatch.sources.kinesis.options import KinesisOptions, StreamName
from shardbatch.sources.kinesis.pace import RATE
from shardbatch.sources.records import SCHEMA, empty

CHILDREN = [
    {
        "ShardId": "shardId-000000000001",
        "ParentShards": ["shardId-000000000000"],
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**127 - 1)},
    },
    {"ShardId": "shardId-000000000002", "ParentShards": ["shardId-000000000000"]},
]


def body_of(records: list[dict[str, Any]], **fields: Any) -> bytes:
    return json.dumps({"Records": records, "MillisBehindLatest": 0, **fields}).encode()


def record(number: int, data: bytes, **fields: Any) -> dict[str, Any]:
    return {
        "SequenceNumber": str(49_680_629_832_520_021_470_711_316_227_327_402_784_640_272_148_308_426_754 + number),
        "PartitionKey": f"key-{number}",
        "Data": base64.b64encode(data).decode(),
        "ApproximateArrivalTimestamp": 1_790_000_000 + number / 1000,
        **fields,
    }


class Raw:
    """The bytes of a canned HTTP answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


def client_answering(body: bytes, status: int = 200, **headers: str) -> Any:
    """A real client whose HTTP attempts are answered by a canned answer instead of a server."""
    client = boto3.client(
        "kinesis",
        region_name="eu-west-1",
        aws_access_key_id="123456789012",
        aws_secret_access_key="no",
        endpoint_url="http://127.0.0.1:9",
    )

    def answer(request: Any, **_: Any) -> AWSResponse:
        return AWSResponse(request.url, status, {"content-length": str(len(body)), **headers}, Raw(body))

    client.meta.events.register_last("before-send.kinesis.GetRecords", answer)
    return client


def by_botocore(body: bytes) -> decoder.Decoded:
    return decoder.adapt(client_answering(body).get_records(ShardIterator="i"))


def call(client: Any, **fields: Any) -> tuple[Caller, Callable[[], decoder.Decoded]]:
    caller = Caller(client, StreamName("s"), SYSTEM_CLOCK, KinesisOptions())
    pace = Pace(SYSTEM_CLOCK, 0.0, 0.0, RATE)
    return caller, lambda: caller.records("i", pace)


def test_the_two_decoders_give_equal_arrow() -> None:
    draw = random.Random(7)
    records = [record(n, draw.randbytes(draw.randrange(40))) for n in range(500)]
    records += [record(501, b""), record(502, b"\0\xff", PartitionKey="schlüssel\U0001f600", EncryptionType="NONE")]
    records[3].pop("ApproximateArrivalTimestamp")
    body = body_of(records, MillisBehindLatest=1234, NextShardIterator="next", SomethingNew={"a": [1]})
    ours, theirs = decoder.decode(body), by_botocore(body)
    assert ours.records.equals(theirs.records, check_metadata=True)
    assert ours == theirs
    assert ours.records.schema.equals(SCHEMA)
    assert (ours.next_iterator, ours.children, ours.millis_behind_latest) == ("next", (), 1234)
    assert ours.records.column("arrival_time")[3].as_py() is None


def test_an_end_with_children_is_the_same_from_both() -> None:
    body = body_of([record(1, b"last")], ChildShards=CHILDREN)
    ours = decoder.decode(body)
    assert ours == by_botocore(body)
    assert ours.next_iterator is None
    assert ours.children == (
        Shard("shardId-000000000001", ("shardId-000000000000",), KeyRange(0, 2**127 - 1)),
        Shard("shardId-000000000002", ("shardId-000000000000",)),
    )


def test_an_answer_without_records_has_all_columns() -> None:
    body = body_of([], NextShardIterator="n")
    assert decoder.decode(body) == by_botocore(body)
    assert decoder.decode(body).records.equals(empty())


def test_arrival_times_are_exact_to_the_millisecond() -> None:
    draw = random.Random(11)
    millis = [draw.randrange(1_400_000_000_000, 2_500_000_000_000) for _ in range(20_000)]
    body = body_of([record(0, b"", ApproximateArrivalTimestamp=ms / 1000) for ms in millis])
    column = decoder.decode(body).records.column("arrival_time")
    assert column.type == pa.timestamp("us", tz="UTC")
    assert column.cast(pa.int64()).to_pylist() == [ms * 1000 for ms in millis]


def test_times_in_exponent_form_are_read() -> None:
    body = body_of([record(0, b"")]).replace(b"1790000000.0", b"1.790000000123E9")
    assert decoder.decode(body).records.column("arrival_time").cast(pa.int64()).to_pylist() == [1_790_000_000_123_000]


def test_payload_and_partition_keys_are_metered() -> None:
    body = body_of([record(1, b"12345", PartitionKey="ab"), record(2, b"", PartitionKey="ü")])
    assert decoder.decode(body).metered_bytes == 5 + 2 + 2


@pytest.mark.parametrize("field", ["Records", "MillisBehindLatest"])
def test_a_missing_field_is_an_error_never_an_empty_answer(field: str) -> None:
    answer = json.loads(body_of([record(1, b"secret")], NextShardIterator="n"))
    del answer[field]
    body = json.dumps(answer).encode()
    with pytest.raises(InvalidAnswer):
        decoder.decode(body)
    with pytest.raises(InvalidAnswer):
        by_botocore(body)


def test_a_body_cut_anywhere_is_an_error_for_both() -> None:
    body = body_of([record(n, b"x" * 10) for n in range(3)], NextShardIterator="n")
    for length in range(len(body)):
        with pytest.raises(InvalidAnswer):
            decoder.decode(body[:length])
    for length in (0, 1, len(body) // 2, len(body) - 1):
        with pytest.raises(InvalidAnswer):
            by_botocore(body[:length])


@pytest.mark.parametrize("decode", [decoder.decode, decoder.decode_event])
def test_a_text_that_is_not_utf_8_is_an_error_that_shows_no_data(decode: Callable[[bytes], Any]) -> None:
    body = body_of([record(1, b"data")])
    assert decode(body).records.num_rows == 1
    with pytest.raises(InvalidAnswer, match="not UTF-8") as refused:
        decode(body.replace(b"key-1", b"key-\xfe"))
    assert "fe" not in str(refused.value)


def test_errors_of_the_parser_show_no_data() -> None:
    for body in (
        body_of([record(1, b"", Data="c2Vj!cmV0")]),
        body_of([record(1, b"", Data=["c2VjcmV0"])]),
        body_of([record(1, b"secret")])[:-20],
    ):
        with pytest.raises(InvalidAnswer) as caught:
            decoder.decode(body)
        assert "c2Vj" not in str(caught.value)


def test_botocore_still_fires_before_parse_with_the_arguments_used() -> None:
    body = body_of([record(1, b"one")], NextShardIterator="n")
    client = client_answering(body)
    seen: list[dict[str, Any]] = []

    def look(response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
        seen.append({"status": response_dict["status_code"], "body": response_dict["body"]})
        assert response_dict["headers"].get("Content-Length") == str(len(body))
        customized_response_dict["ours"] = 1

    client.meta.events.register("before-parse.kinesis.GetRecords", look)
    answer = client.get_records(ShardIterator="i")
    assert seen == [{"status": 200, "body": body}]
    assert answer["ours"] == 1


def test_a_call_is_decoded_by_us_and_botocore_gets_nothing_to_parse() -> None:
    body = body_of([record(1, b"one")], NextShardIterator="n")
    client = client_answering(body)
    caller, _ = call(client)
    answer = caller.once("get_records", ShardIterator="i")
    assert isinstance(answer[DECODED], decoder.Decoded)
    assert "Records" not in answer


def test_without_the_hook_the_answer_is_the_same() -> None:
    body = body_of([record(1, b"one"), record(2, b"two")], NextShardIterator="n", MillisBehindLatest=7)
    client = client_answering(body)
    caller, ask = call(client)
    hooked = ask()
    client.meta.events.unregister("before-parse.kinesis", unique_id="shardbatch-before-parse")
    assert "Records" in caller.once("get_records", ShardIterator="i")
    assert ask() == hooked


def test_other_users_of_the_client_see_botocores_answer() -> None:
    client = client_answering(body_of([record(1, b"one")], NextShardIterator="n"))
    call(client)
    assert client.get_records(ShardIterator="i")["Records"][0]["Data"] == b"one"


def test_two_sources_may_share_a_client() -> None:
    client = client_answering(body_of([record(1, b"one")], NextShardIterator="n"))
    (first, ask_first), (second, ask_second) = call(client), call(client)
    assert ask_first() == ask_second()
    assert (first.calls, second.calls) == ({"GetRecords": 1}, {"GetRecords": 1})


def test_a_body_shorter_than_its_announced_length_is_an_error() -> None:
    body = body_of([record(1, b"one")], NextShardIterator="n")
    client = client_answering(body, **{"content-length": str(len(body) + 1)})
    _, ask = call(client)
    with pytest.raises(InvalidAnswer, match="cut short"):
        ask()


def test_record_bytes_stand_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    body = body_of([record(1, b"very secret bytes", PartitionKey="secret key")], NextShardIterator="n")
    client = client_answering(body)
    _, ask = call(client)
    with caplog.at_level(logging.DEBUG):
        assert ask().records.num_rows == 1
    assert "GetRecords" in caplog.text
    assert base64.b64encode(b"very secret bytes").decode() not in caplog.text
    assert "secret" not in caplog.text
