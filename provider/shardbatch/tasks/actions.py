# SPDX-License-Identifier: Apache-2.0
"""What a person does to rows, done by a task: its actor is the run, and Airflow is asked whether owners are over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardbatch.hooks.leases import Leases
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import chosen_leases, default_staging, deployment_id
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import KinesisStream
from shardbatch.tasks.liveness import liveness

if TYPE_CHECKING:
    from shardbatch.control.action import Done

#: The use-case of each verb, and what it asks for beside the rows.
VERBS: dict[str, tuple[str, frozenset[str]]] = {
    "release": ("release.release", frozenset()),
    "park": ("park.park", frozenset()),
    "unpark": ("park.unpark", frozenset()),
    "set-aside": ("set_aside.set_aside", frozenset({"liveness"})),
    "drop": ("drop.drop", frozenset({"liveness", "landing"})),
    "accept-gap": ("accept_gap.accept_gap", frozenset()),
    "reset": ("reset.reset", frozenset({"liveness", "landing"})),
    "forget-root": ("forget_root.forget_root", frozenset({"place"})),
    "adopt-root": ("adopt_root.adopt_root", frozenset({"landing"})),
    "sum-markers": ("sum_markers.sum_markers", frozenset({"landing"})),
}
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
    stream: KinesisStream
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
        verb: str,
        context: Mapping[str, Any],
        say: Callable[..., None],
        *,
        reason: str,
        preview: bool,
        **chosen: Any,
    ) -> dict[str, Any]:
        """Do what a verb does, or only say it; a small answer: counts of results, some rows, and what was left and why.

        :raises ConfigurationError: if what was chosen is not there or makes no sense.
        """
        path, needs = VERBS[verb]
        module, _, name = path.rpartition(".")
        call: Callable[..., Sequence[Done]] = getattr(import_module(f"shardbatch.control.{module}"), name)
        leases, staging = self.store_of(), self.staging or default_staging()
        if "liveness" in needs:
            chosen["liveness"] = cache(liveness(deployment_id(leases)))  # many leases have the same owner
        if "landing" in needs:
            chosen["landing"] = None if staging is None else staging.open()
        if "place" in needs:
            from shardbatch.landing.location import place

            chosen["place"] = place
        if verb == "reset" and chosen["to"] is not None:
            from shardbatch.control.reset import target_of

            chosen["to"] = target_of(chosen["to"])
        namespace = namespace_of(self.app_name, self.stream.stream_name)
        store = replace(leases, create=False).open()
        try:
            store.prepare()
            found = call(store, namespace, actor=_actor(context, leases), reason=reason, dry_run=preview, **chosen)
        finally:
            store.close()
        for item in found:
            say("%s %s of %s: %s. %s", item.kind, item.name, item.owner or "no owner", item.result, _rest(item))
        return _answer(verb, found, preview)


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
        "left": {item.name: item.why for item in left[:NAMED]},
        "rows": [asdict(item) for item in found[:NAMED]],
    }
