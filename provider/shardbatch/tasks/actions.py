# SPDX-License-Identifier: Apache-2.0
"""What a person does to rows, done by a task: its actor is the run, and Airflow is asked whether owners are over."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from shardbatch.hooks.leases import Leases, existing_store
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import archive_setting, chosen_leases, default_staging, deployment_id
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.tasks.liveness import liveness
from shardbatch.tasks.positions import source_of, way_of

if TYPE_CHECKING:
    from shardbatch.control.action import Done
    from shardbatch.control.verb import Verb
    from shardbatch.core.ports import LeaseStore, Liveness
    from shardbatch.core.registered import Registered
    from shardbatch.core.rows import Namespace

#: Rows that an answer names one by one; of more it has the counts.
NAMED = 20


@dataclass(frozen=True)
class Actions:
    """The rows of an application, as an author says where they are.

    :param leases: default: the setting ``[shardbatch] leases``.
    :param staging: default: the setting ``[shardbatch] staging``; without one nothing is looked for there.
    :raises ConfigurationError: if there is no lease store.
    """

    app_name: str
    stream: Stream
    leases: Leases | None = None
    staging: Staging | None = None

    def __post_init__(self) -> None:
        self.store_of()

    def store_of(self) -> Leases:
        """The lease store.

        :raises ConfigurationError: if there is none.
        """
        return chosen_leases(self.leases)

    def perform(
        self,
        name: str,
        context: Mapping[str, Any],
        say: Callable[..., None],
        *,
        given: object,
        reason: str,
        preview: bool,
    ) -> dict[str, Any]:
        """Do what a verb does, or only say it; a small answer: counts of results, some rows, and what was left and why.

        :param given: has what was chosen, as the verb's operator names it.
        :raises ConfigurationError: if what was chosen is not there or makes no sense.
        """
        from shardbatch.control.verbs import VERBS

        verb = VERBS[name]
        chosen = verb.chosen(lambda argument: getattr(given, argument.parameter))
        leases = self.store_of()
        namespace = namespace_of(self.app_name, self.stream.stream_name)
        opened = contextlib.closing(replace(leases, create=True).open()) if verb.positions else existing_store(leases)
        with opened as store:
            found = act(
                verb,
                store,
                namespace,
                actor=_actor(context, leases),
                reason=reason,
                preview=preview,
                liveness=liveness(deployment_id(leases)),
                staging=self.staging or default_staging(),
                chosen=chosen,
                stream=self.stream,
            )
        for item in found:
            say("%s %s of %s: %s. %s", item.kind, item.name, item.owner or "no owner", item.result, _rest(item))
        return _answer(name, found, preview)


def act(
    verb: Verb,
    store: LeaseStore,
    namespace: Namespace,
    *,
    actor: str,
    reason: str,
    preview: bool,
    liveness: Liveness,
    staging: Staging | None,
    chosen: Mapping[str, Any],
    stream: Stream | None = None,
) -> tuple[Any, ...]:
    """Do what a verb does, or only say it, with what it needs beside the rows: what it refuses, it refuses here for
    tasks and for the command line alike.

    :param liveness: says whether an owner is over.
    :param staging: opened for a verb that reaches staging.
    :param chosen: what the use-case takes.
    :param stream: opened for a verb that takes positions, and asked by one that removes an application for what that
        registered; ``None``: a stream of a service that knows no such thing.
    """
    needs: dict[str, Any] = {}
    if verb.positions:
        assert stream is not None, verb.name
        with contextlib.closing(source_of(stream)) as source:
            given = {**chosen, "form": way_of(chosen["form"]).form, "source": source}
            return verb.act(store, namespace, actor=actor, reason=reason, dry_run=preview, **given)
    if verb.asks or verb.archives or verb.removes:
        needs["liveness"] = liveness
    if verb.removes:
        needs["registered"] = None if stream is None else registered_of(stream, namespace.app_name)
    if verb.staging:
        needs["landing"] = None if staging is None else staging.open()
    if verb.places:
        from shardbatch.landing.location import place

        needs["place"] = place
    if verb.archives and chosen["archive_for"] is None:
        chosen = {**chosen, "archive_for": archive_setting()}
    return verb.act(store, namespace, actor=actor, reason=reason, dry_run=preview, **needs, **chosen)


def registered_of(stream: Stream, app_name: str) -> Registered | None:
    """What an application may have registered with a stream, if its service knows such a thing."""
    made: Callable[[str], Registered] | None = getattr(stream, "registered", None)
    return None if made is None else made(app_name)


def _actor(context: Mapping[str, Any], leases: Leases) -> str:
    run = context["dag_run"]
    return f"run {run.run_id} of DAG {run.dag_id} in {deployment_id(leases)}"


def _rest(item: Done) -> str:
    return item.why or item.effect


def _answer(verb: str, found: Sequence[Done], preview: bool) -> dict[str, Any]:
    left = [item for item in found if item.result == "left"]
    return {
        "verb": verb,
        "preview": preview,
        "counts": dict(Counter(item.result for item in found)),
        "unknown": sum(item.unknown for item in left),
        "left": {item.name: item.why for item in left[:NAMED]},
        "rows": [asdict(item) for item in found[:NAMED]],
    }
