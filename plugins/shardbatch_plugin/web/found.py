# SPDX-License-Identifier: Apache-2.0
"""Which applications there are: those of this deployment's DAGs, as serialized, and what their stores have beside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session

from shardbatch.hooks.declared import Declared, declared_from

FIELD = "shardbatch_application"


@dataclass(frozen=True)
class Claiming:
    """A claim task of a DAG, and the application that it names."""

    dag_id: str
    task_id: str
    application: Declared


def claiming_in(dag_id: str, data: Mapping[str, Any]) -> Iterator[Claiming]:
    """The claim tasks of a serialized DAG."""
    for task in data["dag"]["tasks"]:
        said = task["__var"].get(FIELD)
        if said is not None:
            yield Claiming(dag_id, task["__var"]["task_id"], declared_from(json.loads(said)))


def claiming() -> list[Claiming]:
    """The claim tasks of all DAGs of this deployment, by their latest version."""
    with create_session() as session:
        rows = session.scalars(SerializedDagModel._latest_by_version_select()).all()
        return [one for row in rows for one in claiming_in(row.dag_id, row.data)]
