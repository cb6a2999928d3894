# SPDX-License-Identifier: Apache-2.0
"""What a run asks of a group: mode, interval and limits, by precedence."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from shardbatch import ClaimOptions, ReadLimits, batch_params
from shardbatch.core.interval import Interval
from shardbatch.errors import ConfigurationError
from shardbatch.tasks.run_request import request_of

T0 = datetime(2026, 11, 28, tzinfo=UTC)
T0_MS = round(T0.timestamp() * 1000)
HOUR = timedelta(hours=1)


@dataclass
class Run:
    run_type: str = "scheduled"
    conf: dict[str, Any] = field(default_factory=dict)
    data_interval_start: datetime | None = T0
    data_interval_end: datetime | None = T0 + HOUR
    run_id: str = "scheduled__x"


def params(**values: Any) -> dict[str, Any]:
    return {f"orders.{name}": value for name, value in values.items()}


def test_a_run_is_incremental_by_default() -> None:
    request = request_of("orders", Run(), ParamsDict(batch_params("orders")))
    assert (request.mode, request.interval) == ("incremental", None)
    assert request.limits(ReadLimits(records=5)) == ReadLimits(records=5)


def test_a_backfill_reads_its_data_interval_whatever_its_run_id_says() -> None:
    request = request_of("orders", Run(run_type="backfill", run_id="scheduled__2026"), {})
    assert request.mode == "interval"
    assert request.interval == Interval(T0_MS, T0_MS + 3_600_000)


def test_a_run_that_a_backfill_processes_again_goes_on_with_the_batch_that_it_has() -> None:
    request = request_of("orders", Run("backfill"), {}, lambda: True)
    assert (request.mode, request.interval, request.replay) == ("incremental", None, None)
    without = Run("backfill", data_interval_start=None, data_interval_end=None)  # its batch needs no interval
    assert request_of("orders", without, {}, lambda: True).mode == "incremental"


@pytest.mark.parametrize(
    "conf", [{"mode": "interval"}, {"from": "2026-11-28T00:00:00Z", "to": "2026-11-28T01:00:00Z"}], ids=["mode", "span"]
)
@pytest.mark.parametrize("place", ["conf", "params"])
def test_a_run_that_says_what_it_reads_reads_that_whatever_batch_it_has(conf: dict[str, Any], place: str) -> None:
    run = Run("backfill", params(**conf) if place == "conf" else {})
    request = request_of("orders", run, params(**conf) if place == "params" else {}, lambda: True)
    assert request.interval == Interval(T0_MS, T0_MS + 3_600_000)


@pytest.mark.parametrize("run_type", ["scheduled", "manual", "asset_triggered"])
def test_only_a_backfill_asks_for_the_batch_of_its_run(run_type: str) -> None:
    def asked() -> bool:
        raise AssertionError

    assert request_of("orders", Run(run_type), {}, asked).mode == "incremental"
    assert request_of("orders", Run(run_type, params(mode="interval")), {}, asked).mode == "interval"


def test_from_and_to_make_an_interval() -> None:
    conf = {"orders.from": "2026-11-28T00:00:00Z", "orders.to": "2026-11-28T02:00:00+01:00"}
    assert request_of("orders", Run(conf=conf), {}).interval == Interval(T0_MS, T0_MS + 3_600_000)


def test_a_backfill_may_be_incremental_by_request() -> None:
    assert request_of("orders", Run("backfill", {"orders.mode": "incremental"}), {}).mode == "incremental"


def test_conf_wins_over_params_and_params_over_arguments() -> None:
    run = Run(conf={"orders.records": 3})
    request = request_of("orders", run, params(records=7, bytes=70, max_shards=2, duration_s=1.5, run_duration_s=9))
    limits = request.limits(ReadLimits(records=1, bytes=1, concurrency=4))
    seconds = {"duration": timedelta(seconds=1.5), "run_duration": timedelta(seconds=9)}
    assert limits == ReadLimits(records=3, bytes=70, concurrency=4, **seconds)
    assert request.options(ClaimOptions(read_tasks=3)) == ClaimOptions(read_tasks=3, max_shards=2)


def test_other_groups_and_other_conf_are_not_ours() -> None:
    run = Run(conf={"payments.mode": "interval", "something": 1})
    assert request_of("orders", run, {}).mode == "incremental"
    run = Run(conf={"orders.flights.records": 5, "orders.records": 7})
    assert request_of("orders", run, params(**{"flights.bytes": 9})).values == {"records": 7}
    assert request_of("orders.flights", run, {}).values == {"records": 5}


@pytest.mark.parametrize(
    ("conf", "named"),
    [
        ({"orders.form": "2026-11-28T00:00:00Z"}, "orders.form"),  # an unknown key
        ({"orders": {"from": "…"}}, "'orders'"),
        ({"orders.mode": "sideways"}, "sideways"),
        ({"orders.mode": "incremental", "orders.from": "2026-11-28T00:00:00Z"}, "orders.from"),  # would not be applied
        ({"orders.from": "2026-11-28T00:00:00Z"}, "orders.from"),
        ({"orders.from": "2026-11-28", "orders.to": "2026-11-29"}, "time zone"),
        ({"orders.from": "yesterday", "orders.to": "2026-11-29T00:00:00Z"}, "yesterday"),
        ({"orders.records": 0}, "orders.records"),
        ({"orders.records": 1.5}, "orders.records"),
        ({"orders.max_shards": -1}, "orders.max_shards"),
        ({"orders.bytes": "many"}, "orders.bytes"),
        *(
            ({f"orders.{name}": number}, f"orders.{name}")
            for name in ("duration_s", "run_duration_s", "records", "bytes", "max_shards")
            for number in (float("nan"), float("inf"), float("-inf"), "nan", "inf", 1e300, 10**400, True)
        ),
        ({"orders.from": "0001-01-01T00:00:00+14:00", "orders.to": "2026-11-29T00:00:00Z"}, "orders.from"),
        ({"orders.mode": " "}, "orders.mode"),
        ({"orders.mode": "interval", "orders.records": 5}, "orders.records"),  # would not be applied
        ({"orders.from": "2026-11-28T00:00Z", "orders.to": "2026-11-29T00:00Z", "orders.max_shards": 1}, "max_shards"),
        ({"orders.from": "2026-11-29T00:00:00Z", "orders.to": "2026-11-28T00:00:00Z"}, "no length"),
    ],
)
def test_what_cannot_be_done_fails(conf: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        request_of("orders", Run(conf=conf), {})


@pytest.mark.parametrize(("start", "end"), [(None, None), (T0, T0)])
def test_a_backfill_without_an_interval_names_the_remedy(start: datetime | None, end: datetime | None) -> None:
    run = Run("backfill", data_interval_start=start, data_interval_end=end)
    with pytest.raises(ConfigurationError, match="CronDataIntervalTimetable"):
        request_of("orders", run, {})


@pytest.mark.parametrize("hours", [0, -1])
def test_times_that_a_person_gave_in_the_wrong_order_are_what_the_error_names(hours: int) -> None:
    conf = {"orders.from": T0.isoformat(), "orders.to": (T0 + hours * HOUR).isoformat()}
    with pytest.raises(ConfigurationError, match=r"Give orders\.to a later instant") as refused:
        request_of("orders", Run(conf=conf), {})
    assert "Timetable" not in str(refused.value)


def test_a_run_whose_data_interval_has_no_length_may_be_given_times() -> None:
    run = Run("manual", {"orders.mode": "interval"}, data_interval_start=T0, data_interval_end=T0)
    with pytest.raises(ConfigurationError, match=r"Give orders\.from and orders\.to, or a schedule"):
        request_of("orders", run, {})


@pytest.mark.parametrize("mode", ["", None])
def test_a_mode_that_nobody_chose_asks_for_nothing(mode: str | None) -> None:
    form = {key: param.value for key, param in batch_params("orders").items()}
    assert form["orders.mode"] == ""
    replay = request_of("orders", Run(conf={**form, "orders.mode": mode, "orders.replay": "b1"}), {})
    assert (replay.replay, replay.mode) == ("b1", "incremental")
    assert request_of("orders", Run("backfill", {**form, "orders.mode": mode}), {}).mode == "interval"


@pytest.mark.parametrize(
    ("name", "fits", "refused"),
    [
        ("mode", ["", "incremental", "interval", None], ["sideways", " ", 1]),
        ("from", [None, T0.isoformat()], ["yesterday", ""]),
        ("to", [None, T0.isoformat()], ["2026-11-28", 5]),
        ("replay", [None, "b1"], ["", "  ", 5]),
        ("max_shards", [None, 1, 2**53], [0, -1, 1.5, "many", 2**53 + 1]),
        ("duration_s", [None, 0.5, 366 * 86_400], [0, "1", 366 * 86_400 + 1]),
        ("run_duration_s", [None, 1], [0, -1]),
        ("records", [None, 1], [0, 1.5]),
        ("bytes", [None, 1], [0, "x"]),
    ],
)
def test_the_form_refuses_what_no_run_can_use(name: str, fits: list[Any], refused: list[Any]) -> None:
    param = batch_params("orders")[f"orders.{name}"]
    assert param.description
    assert param.schema["title"]
    for value in fits:
        assert param.resolve(value) == value
    for value in refused:
        with pytest.raises(ParamValidationError):
            param.resolve(value)


def test_every_param_of_the_form_is_one_that_a_run_may_ask() -> None:
    filled = params(**{"mode": "interval", "from": T0.isoformat(), "to": (T0 + HOUR).isoformat()})
    numbers = params(max_shards=1, duration_s=1, run_duration_s=1, records=1, bytes=1)
    assert set(filled) | set(numbers) | set(params(replay="b1")) == set(batch_params("orders"))
    assert request_of("orders", Run(), {**filled, **numbers}).interval is not None


def test_a_run_may_be_told_to_replay_a_batch_and_reads_nothing_then() -> None:
    run = Run(conf={"orders.replay": " b1 "})
    request = request_of("orders", run, params(records=7, mode="interval"))
    assert (request.replay, request.mode, request.interval) == ("b1", "incremental", None)
    assert request.limits(ReadLimits(records=1)) == ReadLimits(records=1)
    assert request_of("orders", Run(), params(replay="b2")).replay == "b2"
    assert request_of("orders", run, params(replay="b2")).replay == "b1"
    assert request_of("orders", Run(), params(replay=None)).replay is None


@pytest.mark.parametrize(
    ("kind", "conf", "named"),
    [
        ("manual", {"orders.replay": ""}, "orders.replay"),
        ("manual", {"orders.replay": 7}, "orders.replay"),
        ("manual", {"orders.replay": "b1", "orders.records": 5}, "orders.records was given"),  # would not be applied
        ("manual", {"orders.replay": "b1", "orders.mode": "incremental"}, "orders.mode was given"),
        ("backfill", {"orders.replay": "b1"}, "backfill"),
    ],
)
def test_a_replay_that_cannot_be_done_fails(kind: str, conf: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        request_of("orders", Run(kind, conf), {})
