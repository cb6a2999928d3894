# SPDX-License-Identifier: Apache-2.0
"""A stream becomes literals, and the same stream again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any

import pytest
from airflow.utils.file import get_unique_dag_module_name

from shardbatch import DynamoDBStream, KinesisStream
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.stream_literals import stream_from, stream_to_json
from shardbatch.hooks.streams import Stream
from tests.support.lines.stream import LinesStream


@pytest.mark.parametrize(
    "stream",
    [
        KinesisStream("orders", start="LATEST", calls_per_second=2.5, aws_conn_id=None),
        KinesisStream(stream_arn="arn:aws:kinesis:eu-west-1:123456789012:stream/orders", fan_out="never"),
        KinesisStream("orders", start=datetime(2026, 11, 28, tzinfo=UTC)),
        DynamoDBStream("orders", view="NEW_IMAGE"),
        LinesStream("orders", "/streams"),
    ],
)
def test_a_stream_is_literals_and_back(stream: Stream) -> None:
    value = stream_to_json(stream)
    assert value is not None
    assert stream_from(json.loads(json.dumps(value))) == stream


def test_a_class_that_cannot_be_written_is_none() -> None:
    @dataclass(frozen=True)
    class Inner(LinesStream):
        pass

    class Plain:
        name = "orders"

    assert stream_to_json(Inner("orders", "/streams")) is None, "no other process can import it"
    assert stream_to_json(Plain()) is None  # type: ignore[arg-type]
    assert stream_to_json(LinesStream("orders", b"/streams")) is None  # type: ignore[arg-type]


@dataclass(frozen=True)
class OfPart(LinesStream):
    part: Any = None


@dataclass(frozen=True)
class Signed(LinesStream):
    token: str = field(default="", repr=False)


class Part(Enum):
    HALF = "half"


class Word(StrEnum):
    HALF = "half"


def test_a_word_that_would_come_as_another_value_is_not_written() -> None:
    assert stream_to_json(OfPart("orders", "/streams", part=Part.HALF)) is None
    value = stream_to_json(OfPart("orders", "/streams", part=Word.HALF))
    assert value is not None
    assert stream_from(json.loads(json.dumps(value))) == OfPart("orders", "/streams", part=Word.HALF)


def test_a_field_that_is_not_to_be_shown_gets_into_no_trigger() -> None:
    assert stream_to_json(Signed("orders", "/streams", token="hunter2")) is None


def test_a_class_of_a_dag_file_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow gives the module of a DAG file a name that no other process can import."""
    monkeypatch.setattr(OfPart, "__module__", get_unique_dag_module_name("/dags/orders.py"))
    assert stream_to_json(OfPart("orders", "/streams")) is None


@pytest.mark.parametrize("name", ["nowhere.at_all:Stream", "tests.support.lines.stream:Gone"])
def test_a_class_that_is_not_here_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot import the stream's class"):
        stream_from({"class": name})
