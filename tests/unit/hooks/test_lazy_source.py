# SPDX-License-Identifier: Apache-2.0
"""A source is opened by the first question, once, and closed only if it was opened."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shardbatch.core.position import TRIM_HORIZON
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.lazy_source import LazySource
from tests.support.scripted import ScriptedStream


def test_many_threads_that_ask_first_open_it_once() -> None:
    stream = ScriptedStream(shards=2)
    stream.put("a", "b")
    opened: list[int] = []
    started = threading.Barrier(8)

    def make() -> ScriptedStream:
        opened.append(1)
        return stream

    source = LazySource("orders", make)

    def ask(_: int) -> str:
        started.wait(10)
        return source.identity()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {stream.identity()}
    assert opened == [1]


def test_it_answers_as_the_source_does() -> None:
    stream = ScriptedStream(shards=2)
    stream.put("a", "b")
    source = LazySource("orders", lambda: stream)
    assert source.list_shards() == stream.list_shards()
    assert source.capabilities == stream.capabilities
    assert source.resolve(TRIM_HORIZON) == TRIM_HORIZON
    assert source.retention_ms() == stream.retention_ms()
    shard = stream.list_shards()[0].shard_id
    page = next(source.read(shard, TRIM_HORIZON))
    assert page.records.num_rows == next(stream.read(shard, TRIM_HORIZON)).records.num_rows


def test_what_cannot_be_opened_shows_at_the_first_question_and_not_before() -> None:
    def make() -> ScriptedStream:
        raise ConfigurationError("There is no Airflow connection 'nowhere'.", remedy="Add it.")

    source = LazySource("orders", make)
    assert source.name == "orders"
    source.end_reading(lambda: False)
    source.close()
    with pytest.raises(ConfigurationError, match="nowhere"):
        source.identity()
