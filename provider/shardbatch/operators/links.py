# SPDX-License-Identifier: Apache-2.0
"""The link from a task of a group to its batch, in the Streams page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

from shardbatch.core.owner import Owner
from shardbatch.errors import ProtocolError
from shardbatch.hooks.leases import KINDS, store_digest

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from shardbatch.tasks.application import ApplicationSpec


@dataclass(frozen=True)
class Shown:
    """What a link leads to: a batch in the Streams page; its application, if there is no batch."""

    store: str
    app_name: str
    stream_name: str
    batch_id: str = ""

    @property
    def path(self) -> str:
        """The path of Airflow's pages that shows it, with the part behind ``#`` that the page itself reads."""
        parts = ["app", self.store, self.app_name, self.stream_name]
        parts += ["batch", self.batch_id] if self.batch_id else []
        return "/plugin/streams#/" + "/".join(quote(part, safe="") for part in parts)


class BatchLink(BaseOperatorLink):
    """Leads to the task's batch in the Streams page, or to its application where there is no batch.

    Where neither is known it leads to the run that owns the batch: its own, or the one that took the batch over.
    Airflow asks for it in the worker as a try of the task ends, whether that succeeded or failed.
    """

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address, relative to Airflow's own."""
        shown: Shown | None = getattr(operator, "batch_shown", None)
        if shown is not None:
            return _prefix() + shown.path
        dag_id, run_id = getattr(operator, "batch_run", None) or (ti_key.dag_id, ti_key.run_id)
        return f"{_prefix()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def lead_to(task: Any, spec: ApplicationSpec, batch_id: str | None = None) -> None:
    """Let a task's link lead to a batch, or to the application if there is none.

    :param spec: the application, rendered. The page cannot show one in a store of the author's own class.
    """
    if type(spec.leases) in KINDS.values():
        task.batch_shown = Shown(store_digest(spec.leases), spec.app_name, spec.stream.stream_name, batch_id or "")


def lead_to_batch(task: Any, batch_id: str | None) -> None:
    """Let a task's link, which leads to its application, lead to a batch of it, if there is one."""
    shown: Shown | None = getattr(task, "batch_shown", None)
    if shown is not None and batch_id:
        task.batch_shown = replace(shown, batch_id=batch_id)


def lead_to_owner(task: Any, error: ProtocolError, deployment: str) -> None:
    """Let a task's link lead to the batch of an error; where the page cannot show it, to the run that the batch belongs
    to, if that is a run of this Airflow."""
    lead_to_batch(task, error.batch_id)
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
