# SPDX-License-Identifier: Apache-2.0
"""Metrics reach a real StatsD server through Airflow's own client, and never stop a step."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

from shardbatch.core import metrics
from shardbatch.core.looks import LookAgain, Looks
from shardbatch.core.metrics import METRICS
from shardbatch.errors import LeaseLost
from shardbatch.tasks.metrics import LONGEST_TAG, Meter, tag_of
from tests.support.statsd import StatsD
from tests.support.waiting import wait_until


def test_every_metric_arrives_with_its_value_kind_and_tags(statsd: StatsD) -> None:
    meter = Meter("etl", "orders", "incremental")
    for number, metric in enumerate(METRICS, start=1):
        meter(metric, number, **dict.fromkeys(metric.tags, "claim"))
    wait_until(lambda: len(statsd.sent()) == len(METRICS), 10, "all metrics to arrive")
    letters = {"counter": "c", "gauge": "g", "timer": "ms"}
    for number, (metric, sent) in enumerate(zip(METRICS, statsd.sent(), strict=True), start=1):
        assert (sent.name, sent.value, sent.kind) == (metric.name, number, letters[metric.kind.value])
        own = dict.fromkeys(metric.tags, "claim")
        assert sent.tags == {"app": "etl", "stream": "orders", "mode": "incremental", **own}


@pytest.mark.parametrize("name", ["my orders", "заказы", "a,b=c:d|e", "x" * 128, "x" * 65, "tab\tand\nline"])
def test_a_name_that_a_backend_would_drop_arrives_and_stays_apart_from_others(statsd: StatsD, name: str) -> None:
    Meter(name, name + "!", "incremental")(metrics.STEP_FAILURES, 1, step="commit", error="E" * 40)
    wait_until(lambda: len(statsd.sent()) == 1, 10, "the metric to arrive")
    tags = statsd.sent()[0].tags
    assert (tags["app"], tags["stream"]) == (tag_of(name), tag_of(name + "!"))
    assert tags["app"] != tags["stream"]
    assert all(len(value) <= LONGEST_TAG for value in tags.values())


def test_a_plain_name_is_its_own_tag() -> None:
    assert tag_of("orders-by_item.v2") == "orders-by_item.v2"
    assert tag_of("x" * LONGEST_TAG) == "x" * LONGEST_TAG
    assert tag_of("my orders") != tag_of("my_orders")


def test_a_counter_of_zero_is_not_sent_and_a_gauge_of_zero_is(statsd: StatsD) -> None:
    meter = Meter("etl", "orders", "interval")
    meter(metrics.GAPS, 0)
    meter(metrics.UNTIL_LOSS, 0)
    wait_until(lambda: bool(statsd.sent()), 10, "the gauge to arrive")
    assert [sent.name for sent in statsd.sent()] == ["shardbatch.until_data_loss"]


def test_a_step_says_how_long_it_took_or_that_it_failed_and_a_deferral_is_neither(statsd: StatsD) -> None:
    meter = Meter("etl", "orders", "incremental")
    with pytest.raises(LookAgain), meter.step("freeze"):
        raise LookAgain(Looks(), 60.0)
    with pytest.raises(LeaseLost), meter.step("commit"):
        raise LeaseLost("It went to another.")
    with meter.step("claim"):
        pass
    wait_until(lambda: len(statsd.sent()) == 2, 10, "two metrics to arrive")
    failed, took = statsd.sent()
    assert (failed.name, failed.tags["step"], failed.tags["error"]) == (
        *("shardbatch.step.failures", "commit"),
        "LeaseLost",
    )
    assert (took.name, took.tags["step"]) == ("shardbatch.step.duration", "claim")
    assert 0 <= took.value < 5000


def test_a_step_that_airflow_ended_by_its_time_limit_has_failed(statsd: StatsD) -> None:
    with pytest.raises(AirflowTaskTimeout), Meter("etl", "orders", "incremental").step("read"):
        raise AirflowTaskTimeout("Timeout, PID: 7")
    wait_until(lambda: len(statsd.sent()) == 1, 10, "the failure to arrive")
    [failed] = statsd.sent()
    assert (failed.name, failed.tags["error"]) == ("shardbatch.step.failures", "AirflowTaskTimeout")


def test_a_backend_that_fails_is_told_of_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no route to host")

    for name in ("incr", "gauge", "timing"):
        monkeypatch.setattr(stats, name, refuse)
    meter = Meter("etl", "orders", "incremental")
    with caplog.at_level(logging.WARNING, logger="shardbatch"), meter.step("claim"):
        meter(metrics.READ_RECORDS, 1)
        meter(metrics.BEHIND, 1)
    [line] = [record.getMessage() for record in caplog.records if record.name == "shardbatch"]
    assert "RuntimeError: no route to host" in line
    assert "[metrics]" in line


def test_where_airflow_sends_no_metrics_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
    with caplog.at_level(logging.WARNING):
        Meter("etl", "orders", "incremental")(metrics.READ_RECORDS, 1)
    assert caplog.records == []
