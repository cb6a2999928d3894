# SPDX-License-Identifier: Apache-2.0
"""What a person does from the page: first as a preview, then with its token and a reason, by the verbs' own use-cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Body, Depends
from fastapi.responses import JSONResponse
from sqlalchemy import select

from shardbatch.control.preview import Watched, chosen_of, token_of
from shardbatch.control.verb import Verb
from shardbatch.control.verbs import REPLAY, VERBS
from shardbatch.core.owner import Owner
from shardbatch.core.rows import Namespace
from shardbatch.errors import ApplicationUnknown, ConfigurationError, ProtocolError
from shardbatch.hooks.leases import Leases, existing_store
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import default_staging
from shardbatch.hooks.staging import Staging
from shardbatch.run.consumer import Rows
from shardbatch.tasks import actions, replay_start
from shardbatch.tasks.metadata_liveness import liveness_of
from shardbatch_plugin.web.access import Access, AccessDep
from shardbatch_plugin.web.answers import Forbidden, answer
from shardbatch_plugin.web.known import deployment_of, known, visible
from shardbatch_plugin.web.origin import from_the_page

if TYPE_CHECKING:
    from shardbatch.core.ports import LeaseStore

router = APIRouter()

#: What the page offers. The others need a place that only the command line or a DAG can name.
OFFERED = ("release", "park", "unpark", "set-aside", "drop", "accept-gap", "reset", "replay")


class StalePreview(ProtocolError):
    """The rows are not as the preview saw them, or the preview was of something else; nothing was changed."""

    remedy = "Look at the new preview, then decide again."


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The body of a request. ``token`` is that of the preview; a preview needs neither it nor a reason."""

    store: str
    app_name: str
    stream_name: str
    verb: str
    chosen: dict[str, Any]
    reason: str = ""
    preview: bool = True
    token: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Asked:
        """What a body asks for.

        :raises ConfigurationError: naming the field that is missing, unknown or of another kind.
        """
        kinds = {"chosen": dict, "preview": bool}
        for one in fields(cls):
            kind = kinds.get(one.name, str)
            if one.name not in body and one.name not in ("reason", "preview", "token"):
                raise ConfigurationError(f"The request lacks {one.name!r}.", remedy="Give it.")
            if one.name in body and type(body[one.name]) is not kind:
                raise ConfigurationError(f"{one.name!r} of the request is no {kind.__name__}.", remedy="Mend it.")
        unknown = sorted(body.keys() - {one.name for one in fields(cls)})
        if unknown:
            raise ConfigurationError(f"The request has an unknown field {unknown[0]!r}.", remedy="Leave it out.")
        return cls(**body)

    @property
    def named(self) -> Verb:
        """The verb.

        :raises ConfigurationError: for one that the page does not offer.
        """
        if self.verb not in OFFERED:
            raise ConfigurationError(
                f"The page does not offer {self.verb!r}.",
                remedy=f"It offers {', '.join(OFFERED)}; 'airflow shardbatch' has the rest.",
            )
        return VERBS[self.verb]


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where a verb acts, and who acts."""

    namespace: Namespace
    leases: Leases
    staging: Staging | None
    actor: str

    def perform(
        self, verb: Verb, store: LeaseStore, chosen: Mapping[str, Any], *, reason: str, preview: bool
    ) -> list[dict[str, Any]]:
        """Do it, or only say it; a row of the answer for each row that it is about."""
        said = {"actor": self.actor, "reason": reason, "preview": preview}
        if verb is REPLAY:
            found = replay_start.replay(store, self.namespace, self.leases, page=True, **said, **chosen)
            run = "a run" if preview else f"run {found.run_id}"
            effect = f"{run} of DAG {found.dag_id} works on it again, in group {found.group_id}"
            return [
                {
                    **{"kind": "batch", "name": found.batch_id, "owner": found.owner, "result": found.result},
                    **{"why": f"output: {found.output}; files: {found.files}", "effect": effect},
                    "dag_id": found.dag_id,
                }
            ]
        done = actions.act(
            verb,
            store,
            self.namespace,
            liveness=liveness_of(self.leases),
            staging=self.staging,
            chosen=chosen,
            **said,
        )
        return [asdict(one) for one in done]


@router.post("/act", dependencies=[Depends(from_the_page)])
def act(body: Annotated[dict[str, Any], Body()], access: AccessDep) -> JSONResponse:
    """Do what a verb does to an application, or only say it. It runs in a thread, as it waits for the lease store."""
    asked = Asked.of(body)
    verb = asked.named
    found = known()
    place = found.expect_place(asked.store)
    namespace = namespace_of(asked.app_name, asked.stream_name)
    declaration = found.declarations.get((place.key, namespace))
    ground = Ground(
        namespace=namespace,
        leases=place.leases,
        staging=(declaration.staging if declaration else None) or default_staging(),
        actor=access.name,
    )
    with existing_store(place.leases) as store:
        row = Rows(namespace=namespace, store=store).application()
        groups = found.groups_of(place.key, namespace, row.claimed_by if row else ())
        if not visible(access, groups):
            raise ApplicationUnknown("There is no such application.")
        chosen = chosen_of(verb, asked.chosen)
        watched = Watched(store)
        rows = ground.perform(verb, watched.store(), chosen, reason=asked.reason, preview=True)
        dag_ids = {group.dag_id for group in groups}
        _require_right(access, dag_ids, [one["owner"] for one in rows], deployment_of(place.leases))
        if verb is REPLAY:
            _require_start(access, rows[0]["dag_id"])
        token = token_of(verb.name, asked.chosen, access.name, rows, watched.rows.values())
        if not asked.preview:
            if asked.token != token:
                raise StalePreview
            rows = ground.perform(verb, store, chosen, reason=asked.reason, preview=False)
    done = not asked.preview and all(one["result"] != "left" for one in rows)
    return answer(rows=rows, token=token, done=done)


def _require_right(access: Access, dag_ids: set[str], owners: Iterable[str], deployment: str) -> None:
    """See that a user may change rows of these owners.

    :raises Forbidden: if they may not change one of them.
    """
    parsed = [Owner.parse(owner) for owner in owners]
    here = {owner.dag_id for owner in parsed if owner is not None and owner.deployment == deployment}
    with create_session() as session:  # what a DAG that is gone holds is for those who may edit the others
        there = set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(here)))) if here else set()
    asked = [owner.dag_id if owner is not None and owner.dag_id in here & there else None for owner in parsed]
    for owner_dag_id in asked or [None]:
        if not access.acts(dag_ids, owner_dag_id):
            whose = f"DAG {owner_dag_id!r}, whose run has it" if owner_dag_id else "a DAG of this application"
            raise Forbidden(f"You may not change this: Airflow does not let you edit {whose}.")


def _require_start(access: Access, dag_id: str) -> None:
    """See that a user may start runs of a DAG.

    :raises Forbidden: if they may not.
    """
    allowed = get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=access.user
    )
    if not allowed:
        raise Forbidden(f"You may not start runs of DAG {dag_id!r}.")
