# SPDX-License-Identifier: Apache-2.0
"""Who may see and do what: by Airflow's own authorisation of the application's DAGs.

An application is seen by whoever may read one of its DAGs. What a run has is changed by whoever may edit the DAG of
that run, and what no run has by whoever may edit all of the application's DAGs. One that has no DAG in this deployment
is for those who may edit Airflow's connections.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Annotated, Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends


class Access:
    """What one user may do, asked of Airflow's auth manager once a request.

    :param user: who calls, as Airflow knows them.
    """

    def __init__(self, user: Any) -> None:
        self.user = user

    @property
    def name(self) -> str:
        """How the user is called on rows that they change."""
        return str(self.user.get_name())

    @cached_property
    def readable(self) -> frozenset[str]:
        """The DAGs that the user may read."""
        return self._dags("GET")

    @cached_property
    def editable(self) -> frozenset[str]:
        """The DAGs that the user may edit."""
        return self._dags("PUT")

    @cached_property
    def admin(self) -> bool:
        """Whether the user may edit Airflow's connections, by which all applications could be reached anyway."""
        return bool(get_auth_manager().is_authorized_connection(method="PUT", user=self.user))

    def sees(self, dag_ids: Collection[str]) -> bool:
        """Whether the user may see an application that has these DAGs here."""
        return not self.readable.isdisjoint(dag_ids) if dag_ids else self.admin

    def acts(self, dag_ids: Collection[str], owner_dag_id: str | None = None) -> bool:
        """Whether the user may change rows of an application that has these DAGs here.

        :param owner_dag_id: the DAG of the run that has the rows, if it is a run of this deployment; default: the rows
            have no such owner.
        """
        if owner_dag_id is not None:
            return owner_dag_id in self.editable
        return self.editable.issuperset(dag_ids) if dag_ids else self.admin

    def edits_one(self, dag_ids: Collection[str]) -> bool:
        """Whether the user may edit one of these DAGs; of an application without a DAG here, whether it is theirs."""
        return not self.editable.isdisjoint(dag_ids) if dag_ids else self.admin

    def _dags(self, method: Literal["GET", "PUT"]) -> frozenset[str]:
        return frozenset(get_auth_manager().get_authorized_dag_ids(user=self.user, method=method))


def access_of(user: GetUserDep) -> Access:
    """What the user of a request may do."""
    return Access(user)


#: For an endpoint's argument.
AccessDep = Annotated[Access, Depends(access_of)]
