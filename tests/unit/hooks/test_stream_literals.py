# SPDX-License-Identifier: Apache-2.0
"""A stream as literals: it comes back as it was, and what cannot is refused where the DAG is parsed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardbatch import DynamoDBStream, KinesisStream
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.stream_literals import literals_of, stream_of
from tests.support.lines.stream import LinesStream

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


@dataclass(frozen=True)
class Odd:
    """A stream's class with one argument of any kind."""

    stream_name: str
    given: Any = None


@pytest.mark.parametrize(
    "stream",
    [
        KinesisStream("orders"),
        KinesisStream(stream_arn=ARN, aws_conn_id=None, calls_per_second=2.5, fan_out="never", deaggregate="off"),
        KinesisStream("orders", start=datetime(2026, 11, 28, 1, 2, 3, 4567, tzinfo=UTC)),
        DynamoDBStream("orders", start="LATEST"),
        LinesStream("orders", "/streams"),
    ],
)
def test_it_comes_back_as_it_was(stream: Any) -> None:
    literals = literals_of(stream)
    assert literals["name"] == "orders"
    assert stream_of(json.loads(json.dumps(literals))) == stream


def test_times_come_back_too() -> None:
    assert stream_of(literals_of(Odd("orders", timedelta(minutes=1)))) == Odd("orders", timedelta(minutes=1))  # type: ignore[arg-type, comparison-overlap]


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (KinesisStream("{{ var.value.stream }}"), r"KinesisStream\(name\) = .* is a template"),
        (Odd("orders", "{% if x %}a{% endif %}"), "is a template"),
        (Odd("orders", object()), r"Odd\(given=...\) is of object"),
        (Odd("orders", ["a"]), "is of list"),
        (object(), "object cannot be handed to the triggerer"),
    ],
)
def test_what_cannot_be_handed_to_the_triggerer_is_refused(stream: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        literals_of(stream)


def test_a_class_inside_of_something_else_is_refused() -> None:
    @dataclass(frozen=True)
    class Inner:
        stream_name: str = "orders"

    with pytest.raises(ConfigurationError, match="at the top of a module"):
        literals_of(Inner())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        {"class": "unusual_prefix_of_a_dag_file.Stream", "arguments": {}},
        {"class": "shardbatch.hooks.kinesis.Missing", "arguments": {}},
        {"class": "shardbatch.hooks.kinesis.KinesisStream", "arguments": {"of_a_later_version": 1}},
        {"class": "NoModule", "arguments": {}},
        {},
    ],
)
def test_a_class_that_is_not_here_is_an_error_that_says_what_to_do(value: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="where the triggerer runs"):
        stream_of(value)
