# SPDX-License-Identifier: Apache-2.0
"""What this deployment's DAGs say of applications, as serialized: no file of an author is imported here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from sqlalchemy import func, select

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.declared import Declared, declared_from

FIELD = "shardbatch_application"
#: The module of a claim task, of which a mapped one says no more.
CLAIM = "shardbatch.operators.claim"
MAPPED = "Its claim is a mapped task: only a run knows for which applications."
UNREADABLE = "Another version of shardbatch serialized it. Use one version for the API server and the DAG processor."
#: Serialized DAGs that are in memory at a time; each may have megabytes.
READ_AT_ONCE = 50


@dataclass(frozen=True)
class Claiming:
    """A claim task of a DAG, and the application that it names.

    ``error`` says why that cannot be read, if so; then ``application`` is ``None``.
    """

    dag_id: str
    task_id: str
    application: Declared | None
    error: str = ""

    @property
    def group_id(self) -> str:
        """The group of the claim; empty for one that stands alone."""
        return self.task_id.rpartition(".")[0] if self.application is None else self.application.group_id


def claiming_in(dag_id: str, data: Mapping[str, Any]) -> Iterator[Claiming]:
    """The claim tasks of a serialized DAG."""
    for task in data["dag"]["tasks"]:
        fields = task["__var"]
        said, task_id = fields.get(FIELD), fields["task_id"]
        if said is None:
            if fields.get("_is_mapped") and fields.get("_task_module") == CLAIM:
                yield Claiming(dag_id, task_id, None, MAPPED)
            continue
        try:
            yield Claiming(dag_id, task_id, declared_from(json.loads(said)))
        except ConfigurationError as error:  # it was serialized by a later version than the API server's
            yield Claiming(dag_id, task_id, None, str(error))
        except (ValueError, TypeError, KeyError, AttributeError):
            yield Claiming(dag_id, task_id, None, UNREADABLE)


class Dags:
    """The DAGs that claim, each read anew only if it was serialized anew."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, str], tuple[Claiming, ...]] = {}
        self._lock = threading.Lock()

    def claiming(self) -> list[Claiming]:
        """The claim tasks of all DAGs of this deployment, by their latest version; not of DAGs whose file is gone."""
        newest = (
            select(DagVersion.dag_id, func.max(DagVersion.version_number).label("number"))
            .join(SerializedDagModel, SerializedDagModel.dag_version_id == DagVersion.id)
            .group_by(DagVersion.dag_id)
            .subquery()
        )
        current = (
            select(SerializedDagModel.id, SerializedDagModel.dag_hash)
            .join(DagVersion, SerializedDagModel.dag_version_id == DagVersion.id)
            .join(newest, (newest.c.dag_id == DagVersion.dag_id) & (newest.c.number == DagVersion.version_number))
            .join(DagModel, DagModel.dag_id == SerializedDagModel.dag_id)
            .where(DagModel.is_stale.is_(False))
        )
        with create_session() as session:
            wanted = [(row_id, dag_hash) for row_id, dag_hash in session.execute(current)]
            with self._lock:
                known = dict(self._known)
            missing = [row_id for row_id, dag_hash in wanted if (row_id, dag_hash) not in known]
            for begin in range(0, len(missing), READ_AT_ONCE):
                some = missing[begin : begin + READ_AT_ONCE]
                for row in session.scalars(select(SerializedDagModel).where(SerializedDagModel.id.in_(some))):
                    known[row.id, row.dag_hash] = tuple(claiming_in(row.dag_id, row.data or {"dag": {"tasks": []}}))
                session.expunge_all()
        kept = {key: known[key] for key in wanted if key in known}
        with self._lock:
            self._known = kept
        return [one for key in sorted(kept, key=str) for one in kept[key]]


def is_there(dag_id: str) -> bool:
    """Whether Airflow knows a DAG, be it one whose file is gone."""
    with create_session() as session:
        return session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id)) is not None


_dags = Dags()


def claiming() -> list[Claiming]:
    """The claim tasks of all DAGs of this deployment."""
    return _dags.claiming()
