# SPDX-License-Identifier: Apache-2.0
"""The link from a task of a group to its batch: to the run that owns it, in Airflow's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

from shardbatch.core.owner import Owner
from shardbatch.errors import ProtocolError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class BatchLink(BaseOperatorLink):
    """Leads to the run that owns the task's batch: its own, or the one that took the batch over meanwhile.

    Airflow asks for it in the worker as a try of the task ends, whether that succeeded or failed.
    """

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address of the run, relative to Airflow's own."""
        dag_id, run_id = getattr(operator, "batch_run", None) or (ti_key.dag_id, ti_key.run_id)
        return f"{_prefix()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def lead_to_owner(task: Any, error: ProtocolError, deployment: str) -> None:
    """Let a task's link lead to the run that the batch of an error belongs to, if that is a run of this Airflow."""
    owner = Owner.parse(error.owner)
    if owner is not None and owner.deployment == deployment:
        task.batch_run = (owner.dag_id, owner.run_id)


def add_link(task: Any) -> None:
    """Give a task of an author the link, mapped or not, unless its class forbids it."""
    links = tuple(task.operator_extra_links)
    if any(isinstance(link, BatchLink) for link in links):
        return
    try:
        task.operator_extra_links = (*links, BatchLink())
    except AttributeError:  # a property of its class: it has only what the class says
        return


def _prefix() -> str:
    """The path below which Airflow's pages stand, where a proxy has put them below one."""
    from airflow.sdk import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
