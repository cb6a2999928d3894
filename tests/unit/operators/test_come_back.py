# SPDX-License-Identifier: Apache-2.0
"""A claim that looks on holds no worker meanwhile: it is deferred, and goes on where no triggerer ends that."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from shardbatch import KinesisStream, SQLLeases, Staging
from shardbatch.core.looks import LookAgain, Looks
from shardbatch.operators.claim import ClaimOperator
from shardbatch.operators.come_back import SLACK
from shardbatch.triggers import TimePassed

SEEN = Looks({"shardId-000": (2**48, 300.0)}, 1)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> ClaimOperator:
    """A claim that goes away once, unless it is told to stay."""
    made = ClaimOperator(
        task_id="claim", app_name="etl", stream=KinesisStream("orders"), leases=SQLLeases("leases_db"),
        staging=Staging("/staging"),
    )  # fmt: skip

    def claimed(context: Any, looks: Looks | None) -> Any:
        if looks == Looks():
            raise LookAgain(SEEN, 300.0)
        return [looks]

    monkeypatch.setattr(made, "step", claimed)
    return made


def test_it_is_deferred_and_goes_on_with_what_it_saw(task: ClaimOperator) -> None:
    with pytest.raises(TaskDeferred) as caught:
        task.execute({})  # type: ignore[typeddict-item]
    order = caught.value
    assert order.trigger.serialize() == ("shardbatch.triggers.TimePassed", {"seconds": 300.0})
    assert order.timeout == timedelta(seconds=300) + SLACK
    arguments = {**(order.kwargs or {}), "event": 300.0}
    assert task.resume_execution(order.method_name, arguments, {}) == [SEEN]  # type: ignore[typeddict-item]


@pytest.mark.parametrize("reason", ["Trigger timeout", "Trigger failure"])
def test_it_stays_in_its_worker_where_no_triggerer_ends_the_deferral(task: ClaimOperator, reason: str) -> None:
    assert task.resume_execution("__fail__", {"error": reason}, {}) == [None]  # type: ignore[typeddict-item]


def test_the_trigger_fires_once_when_the_time_has_passed() -> None:
    path, arguments = TimePassed(0.05).serialize()
    assert path == f"{TimePassed.__module__}.{TimePassed.__name__}"

    async def events() -> tuple[float, list[Any]]:
        began = asyncio.get_running_loop().time()
        found = [event.payload async for event in TimePassed(**arguments).run()]
        return asyncio.get_running_loop().time() - began, found

    passed, found = asyncio.run(events())
    assert passed >= 0.05
    assert found == [0.05]
