# SPDX-License-Identifier: Apache-2.0
"""What a person does from the page: as a preview, then with its token and a reason, by the verbs' own use-cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel

from shardbatch.control.preview import AsSeen, Watched, chosen_of, token_of
from shardbatch.control.verb import Verb
from shardbatch.control.verbs import REPLAY, VERBS
from shardbatch.core.rows import APPLICATION, Key, Namespace
from shardbatch.errors import ConfigurationError, ProtocolError
from shardbatch.hooks.leases import Leases, existing_store
from shardbatch.hooks.staging import Staging
from shardbatch.tasks import actions, replay_start
from shardbatch.tasks.metadata_liveness import liveness_of
from shardbatch_plugin.web.access import Access
from shardbatch_plugin.web.answers import Forbidden
from shardbatch_plugin.web.chosen import Chosen, choose
from shardbatch_plugin.web.detail import VERBS as OFFERED

if TYPE_CHECKING:
    from shardbatch.core.ports import LeaseStore


class StalePreview(ProtocolError):
    """The rows are not as the preview saw them, or the preview was of something else. What is not as the preview saw it
    was not changed."""

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
        said: dict[str, Any] = {"actor": self.actor, "reason": reason, "preview": preview}
        if verb is REPLAY:
            found = replay_start.replay(store, self.namespace, self.leases, page=True, **said, **chosen)
            run = "a run" if preview else f"run {found.run_id}"
            effect = f"{run} of DAG {found.dag_id} works on it again, in group {found.group_id}"
            return [
                {
                    "kind": "batch",
                    "name": found.batch_id,
                    "owner": found.owner,
                    "result": found.result,
                    "why": f"output: {found.output}; files: {found.files}",
                    "effect": effect,
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


def act(access: Access, asked: Asked) -> dict[str, Any]:
    """Do what a verb does to an application, or only say it.

    :raises StalePreview: if the rows are not as the preview with this token saw them.
    :raises Forbidden: if the user may not change one of the rows.
    """
    verb = asked.named
    chosen = choose(access, asked.store, asked.app_name, asked.stream_name)
    ground = Ground(namespace=chosen.namespace, leases=chosen.place.leases, staging=chosen.staging, actor=access.name)
    given = chosen_of(verb, asked.chosen)
    with existing_store(chosen.place.leases) as store:
        watched = Watched(store)
        rows = ground.perform(verb, watched.store(), given, reason=asked.reason, preview=True)
        _require_right(chosen, {one["owner"] for one in rows} or {""})
        if verb is REPLAY:
            _require_start(access, rows[0]["dag_id"])
        # Replays stand on the application's row, not on the batch's: without it a token would start one after another.
        since = watched.store().get(Key(APPLICATION, chosen.namespace, ())) if verb is REPLAY else None
        token = token_of(
            verb.name,
            asked.chosen,
            access.name,
            rows,
            watched.rows.values(),
            where=(asked.store, str(chosen.namespace), getattr(since, "last_action", None)),
        )
        if not asked.preview:
            if asked.token != token:
                raise StalePreview
            kept = AsSeen(store, watched.rows, rows, StalePreview)
            rows = ground.perform(verb, kept.store(), given, reason=asked.reason, preview=False)
    done = not asked.preview and all(one["result"] != "left" for one in rows)
    return {"rows": rows, "token": token, "done": done}


def _require_right(chosen: Chosen, owners: Iterable[str]) -> None:
    """See that the user may change rows of these owners.

    :raises Forbidden: if they may not change those of one.
    """
    for owner in sorted(owners):
        if not chosen.may_act_on(owner):
            run = chosen.owner_here(owner)
            if run is None:
                raise Forbidden(
                    "You may not change this: no run of this Airflow has it, so you need to be able to edit all DAGs "
                    "of the application."
                )
            named = run.dag_id in chosen.access.readable
            whose = f"DAG {run.dag_id!r}, whose run has it" if named else "its DAG"
            raise Forbidden(f"You may not change this: Airflow does not let you edit {whose}.")


def _require_start(access: Access, dag_id: str) -> None:
    """See that a user may start runs of a DAG.

    :raises Forbidden: if they may not.
    """
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    allowed = get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=access.user
    )
    if not allowed:
        raise Forbidden(f"You may not start runs of DAG {dag_id!r}.")
