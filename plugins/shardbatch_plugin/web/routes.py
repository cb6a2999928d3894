# SPDX-License-Identifier: Apache-2.0
"""The JSON of the page: which address gives what."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from fastapi.responses import JSONResponse

from shardbatch_plugin.web import acting, detail, listing, one_batch, one_shard, places, records
from shardbatch_plugin.web.access import AccessDep
from shardbatch_plugin.web.answers import answer
from shardbatch_plugin.web.chosen import ChosenDep
from shardbatch_plugin.web.origin import from_the_page

router = APIRouter()


@router.get("/applications")
def applications(access: AccessDep) -> JSONResponse:
    """All applications that the user may see, the most urgent first."""
    return answer(**listing.applications(access))


@router.get("/application")
def application(chosen: ChosenDep) -> JSONResponse:
    """How an application stands, and what the user may do to it."""
    return answer(**detail.application(chosen))


@router.get("/shards")
def shards(chosen: ChosenDep) -> JSONResponse:
    """All shards of an application."""
    return answer(**detail.shards(chosen))


@router.get("/batches")
def batches(
    chosen: ChosenDep, limit: Annotated[int, Query(ge=1, le=5000)] = 500, intervals: bool = False
) -> JSONResponse:
    """The latest batches of an application, those of interval runs too if they are asked for."""
    return answer(**detail.batches(chosen, limit, intervals=intervals))


@router.get("/completeness")
def completeness(chosen: ChosenDep, hours: Annotated[int, Query(ge=1, le=24 * 31)] = 72) -> JSONResponse:
    """Which of the last hours are complete."""
    return answer(**detail.hours(chosen, hours))


@router.get("/batch")
def batch(chosen: ChosenDep, batch_id: str, scope: str | None = None) -> JSONResponse:
    """One batch."""
    return answer(**one_batch.batch(chosen, batch_id, scope))


@router.get("/shard")
def shard(chosen: ChosenDep, shard_id: str) -> JSONResponse:
    """One shard."""
    return answer(**one_shard.shard(chosen, shard_id))


@router.get("/reading")
def reading(chosen: ChosenDep) -> JSONResponse:
    """How far the reads have come that are at work."""
    return answer(**detail.read_tasks(chosen))


@router.get("/records")
def first_records(
    chosen: ChosenDep, batch_id: str, shard_id: str, count: Annotated[int, Query(ge=1, le=records.MOST)] = 20
) -> JSONResponse:
    """The first records of a slice, for those who may see them."""
    return answer(**records.records(chosen, batch_id, shard_id, count))


@router.get("/place")
def place(
    access: AccessDep,
    dag_id: str,
    run_id: str = "",
    task_id: str = "",
    map_index: int = -1,
) -> JSONResponse:
    """Where a DAG, a run or a task of Airflow's pages belongs, and what is wrong there."""
    return answer(**places.place(access, places.Asked(dag_id, run_id, task_id, map_index)))


@router.post("/act", dependencies=[Depends(from_the_page)])
def act(body: Annotated[dict[str, Any], Body()], access: AccessDep) -> JSONResponse:
    """Do what a verb does to an application, or only say it."""
    return answer(**acting.act(access, acting.Asked.of(body)))
