# SPDX-License-Identifier: Apache-2.0
"""Tokens of Bloop as a format of positions: which streams have one, and what hinders it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.bloop.format import BloopTokens
from shardbatch.bloop.stream import table_stream
from shardbatch.control.position_format import Standing
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, InvalidToken, SourceError
from tests.support.scripted import ScriptedStream
from tests.support.tokens import ARN, token
from tests.unit.bloop.test_writing import row

FORM = BloopTokens()


def standing(*rows: Lease, listed: frozenset[str] | None = None) -> Standing:
    there = frozenset(lease.shard_id for lease in rows) if listed is None else listed
    return Standing(ARN, rows, there, Application(Namespace("etl", "orders"), ARN, TRIM_HORIZON, 1))


@pytest.mark.parametrize("arn", [ARN, ARN.replace("arn:aws:", "arn:aws-cn:")])
def test_the_stream_of_a_table_has_a_token(arn: str) -> None:
    FORM.require_stream(arn)


@pytest.mark.parametrize(
    "arn", ["orders@1", ARN.partition("/stream")[0], "arn:aws:kinesis:eu-west-1:123456789012:stream/orders@1"]
)
def test_another_stream_has_none(arn: str) -> None:
    with pytest.raises(ConfigurationError, match="Bloop reads streams of DynamoDB tables only"):
        FORM.require_stream(arn)


def test_an_application_of_which_nothing_is_left_has_none() -> None:
    with pytest.raises(ConfigurationError, match="all have been read and have left the stream"):
        FORM.write(standing(row("A", SHARD_END), listed=frozenset()), ScriptedStream())


def test_a_place_that_cannot_be_looked_at_hinders_it() -> None:
    stream = ScriptedStream()
    (shard,) = stream.shards
    (first,) = stream.put("a")
    lease = replace(row(shard, after("9")), begins=after("9"))
    assert FORM.write(standing(lease), _lenient(stream)).positions == token(shard, f"{shard}>9")
    place = after(str(int(first) - 1))
    adjacent = replace(row(shard, place), begins=place)
    found = FORM.write(standing(adjacent), stream).positions
    assert found == token(shard, f"{shard}@{first}")
    stream.failing[shard] = SourceError("AWS does not allow it.", retryable=False)
    with pytest.raises(SourceError, match="does not allow"):
        FORM.write(standing(lease), stream)
    assert FORM.write(standing(row(shard, TRIM_HORIZON)), stream).positions == token(shard, f"{shard}|")


def _lenient(stream: ScriptedStream) -> ScriptedStream:
    """Takes any number for a place: the record there need not be in the stream."""

    def missing(shard: object, position: Position) -> bool:
        return False

    stream._missing = missing  # type: ignore[method-assign,assignment]
    return stream


def test_what_is_read_names_itself_for_the_notes() -> None:
    assert FORM.read(token("A", "A>1 B(A)")).text == "a Bloop token with 2 shards, 1 of them active"
    with pytest.raises(InvalidToken):
        FORM.read([])


def test_a_stream_is_named_by_its_table_or_by_its_arn() -> None:
    assert table_stream("orders", None, "eu-west-1").stream_name == "orders"
    assert table_stream(ARN, "aws_default", None).stream_name == "orders"
    with pytest.raises(ConfigurationError, match="names no DynamoDB table"):
        table_stream("orders table", None, None)
