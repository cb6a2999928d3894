# SPDX-License-Identifier: Apache-2.0
"""From a DAG, a run or a task in Airflow to its application, its batch and its shards, and what is wrong there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from shardbatch.control.banner import Banner, Failed, TaskError, banner
from shardbatch.core.batch import Batch
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Mode, Owner
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.errors import ApplicationUnknown, ShardbatchError
from shardbatch.hooks.leases import store_digest
from shardbatch.tasks.task_error import KEY, left
from shardbatch_plugin.web.access import Access
from shardbatch_plugin.web.answers import NotFound
from shardbatch_plugin.web.chosen import Chosen, choose
from shardbatch_plugin.web.found import Claiming, claiming
from shardbatch_plugin.web.known import deployment_of
from shardbatch_plugin.web.listing import row_of
from shardbatch_plugin.web.one_batch import expect_batch
from shardbatch_plugin.web.runs import running

#: XComs of the steps that say what a run came to, and the outcome of a claim that got nothing as others hold all.
BATCH_ID, OUTCOME, SUMMARY, ENTRIES = "batch_id", "outcome", "summary", "return_value"
HELD = "held"
#: Shards of a read task that are told as places, at most.
MOST_SHARDS = 20
#: From which urgency on an application's problem is told for its runs, too.
URGENT = 2
FAILED, AGAIN = TaskInstanceState.FAILED.value, TaskInstanceState.UP_FOR_RETRY.value


@dataclass
class Told:
    """What Airflow keeps of a run: the tasks whose last try failed, and what its steps have left, by task and key."""

    failed: list[Failed] = field(default_factory=list)
    xcoms: dict[tuple[str, str], Any] = field(default_factory=dict)

    def text(self, task_id: str, key: str) -> str:
        """A text that a task has left; empty if it has left none."""
        value = self.xcoms.get((task_id, key))
        return value if isinstance(value, str) else ""


@dataclass(frozen=True)
class Asked:
    """What of Airflow's pages is asked about; what is empty is not given, and a ``map_index`` below zero."""

    dag_id: str
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1


def place(access: Access, asked: Asked) -> dict[str, Any]:
    """Where something of Airflow's pages belongs, and the line about it.

    :raises NotFound: for a DAG that is not there, or that the user may not read: they are not told which.
    """
    if asked.dag_id not in access.readable:
        raise NotFound(f"There is no DAG {asked.dag_id!r}.", remedy="See that you may read it.")
    claims = [one for one in claiming() if one.dag_id == asked.dag_id]
    told = _told(asked, claims) if asked.run_id else Told()
    places: list[dict[str, Any]] = []
    batches: dict[str, Batch] = {}
    lines: list[Banner] = []
    for one in _of_task(claims, asked.task_id):
        address = _address(one)
        if address is None:
            continue
        batch_id = told.text(_step(one, "freeze"), BATCH_ID) or told.text(_step(one, "claim"), BATCH_ID)
        shards: list[str | None] = []
        try:
            chosen = choose(access, **address)
            if batch_id:
                batches[one.group_id] = expect_batch(chosen, batch_id)
            shards += _shards(chosen, one, told, asked)
            lines += _problem(chosen)
        except (ApplicationUnknown, NotFound):
            pass  # no run has claimed for it yet, or the batch is gone: neither is wrong
        except ShardbatchError as error:
            lines.append(Banner("warning", error.message, error.remedy))
        found = {**address, "group_id": one.group_id, "batch_id": batch_id or None}
        places += [{**found, "shard_id": shard_id} for shard_id in shards or [None]]
    held = (_step(one, "claim") for one in claims if told.text(_step(one, "claim"), OUTCOME) == HELD)
    nothing = next((told.text(task_id, SUMMARY) for task_id in held), "")
    line = banner(told.failed, batches, task_id=asked.task_id, nothing_claimed=nothing)
    line = line or next(iter(lines), None)
    return {"places": places, "banner": None if line is None else asdict(line)}


def _address(one: Claiming) -> dict[str, str] | None:
    """How the page addresses the application of a claim; ``None`` if only a run knows which it is."""
    declared = one.application
    if declared is None or declared.leases is None or declared.templated:
        return None
    names = {"app_name": declared.app_name, "stream_name": declared.stream_name}
    return {"store": store_digest(declared.leases), **names}


def _step(one: Claiming, name: str) -> str:
    """The id of a step of a claim's group."""
    return f"{one.group_id}.{name}" if one.group_id else name


def _of_task(claims: Sequence[Claiming], task_id: str) -> list[Claiming]:
    """The claims of a task's group, the innermost first; all of the DAG for a task of none."""
    return _inside(claims, task_id) or list(claims)


def _inside(claims: Sequence[Claiming], task_id: str) -> list[Claiming]:
    inside = [one for one in claims if one.group_id and task_id.startswith(f"{one.group_id}.")]
    return sorted(inside, key=lambda one: -len(one.group_id))


def _told(asked: Asked, claims: Sequence[Claiming]) -> Told:
    of_run = (TaskInstance.dag_id == asked.dag_id, TaskInstance.run_id == asked.run_id)
    tasks = select(TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state, TaskInstance.end_date).where(
        *of_run, TaskInstance.state.in_([FAILED, AGAIN])
    )
    xcoms = select(XComModel.task_id, XComModel.map_index, XComModel.key, XComModel.value).where(
        XComModel.dag_id == asked.dag_id, XComModel.run_id == asked.run_id
    )
    errors: dict[tuple[str, int], TaskError | None] = {}
    found = Told()
    steps = [_step(one, name) for one in claims for name in ("claim", "freeze")]
    with create_session() as session:
        for row in session.execute(xcoms.where(XComModel.key == KEY)):
            errors[row.task_id, row.map_index] = left(row.value)
        for row in session.execute(
            xcoms.where(XComModel.task_id.in_(steps), XComModel.key.in_([BATCH_ID, OUTCOME, SUMMARY, ENTRIES]))
        ):
            found.xcoms[row.task_id, row.key] = row.value
        for task_id, map_index, state, ended in session.execute(tasks):
            groups = _inside(claims, task_id)
            found.failed.append(
                Failed(
                    task_id,
                    map_index,
                    group_id=groups[0].group_id if groups else "",
                    ended_ms=None if ended is None else round(ended.timestamp() * 1000),
                    again=str(getattr(state, "value", state)) == AGAIN,
                    error=errors.get((task_id, map_index)),
                )
            )
    return found


def _shards(chosen: Chosen, one: Claiming, told: Told, asked: Asked) -> list[str]:
    """The shards that a read task has, as their rows name it; none of any other task, and none once they went on."""
    entries = told.xcoms.get((_step(one, "claim"), ENTRIES))
    if asked.task_id != _step(one, "read") or not isinstance(entries, list) or not 0 <= asked.map_index < len(entries):
        return []
    group = entries[asked.map_index]["group"]
    here = deployment_of(chosen.place.leases)
    owners = [Owner(here, asked.dag_id, asked.run_id, one.group_id, mode.value) for mode in Mode]
    found = chosen.ask(
        ("read", asked.dag_id, asked.run_id, one.group_id, group),
        lambda store: [
            cast("Lease", row).shard_id
            for owner in owners
            for row in store.list(
                SHARD_LEASE, chosen.namespace, owner.scope, lease_owner=str(owner), read_group=str(group)
            )
        ],
    )
    return found[:MOST_SHARDS]


def _problem(chosen: Chosen) -> list[Banner]:
    """What is wrong with the application as a whole, if it is for a person to know now."""
    at_work = running(chosen.dag_ids & chosen.access.readable)
    found, key = chosen.seen.overview, chosen.place.key
    row = row_of(chosen.known, chosen.access, key, chosen.namespace, found, chosen.groups, at_work)
    problem = row["problem"]
    return [] if problem is None or row["urgency"] < URGENT else [Banner("warning", problem["text"], problem["remedy"])]
