# SPDX-License-Identifier: Apache-2.0
"""The list of all applications, of all stores, as one user may see them."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from shardbatch.control.overview import Look, Overview, look, overview
from shardbatch.control.urgency import order, urgency_of
from shardbatch.core.owner import Owner
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.errors import ApplicationUnknown, ShardbatchError, StoreError
from shardbatch_plugin.web.access import Access
from shardbatch_plugin.web.answers import now_ms, told
from shardbatch_plugin.web.known import DagGroup, Declaration, Known, deployment_of, known, visible
from shardbatch_plugin.web.runs import Running, running
from shardbatch_plugin.web.stores import LIMIT_S, Asker, Place, store_asker

#: Applications of one store that are read at a time.
AT_ONCE = 4
#: Seconds for which the names of a store's applications are kept: on DynamoDB to ask for them reads the whole table.
NAMES_S = 30.0


@dataclass(frozen=True)
class _Row:
    namespace: Namespace
    overview: Overview | None
    error: dict[str, str] | None = None


@dataclass(frozen=True)
class _Store:
    rows: tuple[_Row, ...]
    error: dict[str, str] | None = None


class _Names:
    """The applications that each store has beside those of DAGs, as they were listed last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, frozenset[Namespace]]] = {}

    def of(self, key: str, store: LeaseStore) -> frozenset[Namespace]:
        listed = self._known.get(key)
        if listed is None or time.monotonic() - listed[0] > NAMES_S:
            found = frozenset(Namespace(row["app_name"], row["stream_name"]) for row in store.applications())
            listed = self._known[key] = (time.monotonic(), found)
        return listed[1]


_names = _Names()


def applications(access: Access) -> dict[str, Any]:
    """The applications that a user may see, the most urgent first; the stores; and claims that name none."""
    all_known = known()
    begun = {key: _begin(place, all_known.in_place(key)) for key, place in sorted(all_known.places.items())}
    until = time.monotonic() + LIMIT_S
    stores = {key: _ended(asker, future, until) for key, (asker, future) in begun.items()}
    groups = {
        (key, row.namespace): all_known.groups_of(
            key, row.namespace, row.overview.claimed_by if row.overview is not None else ()
        )
        for key, store in stores.items()
        for row in store.rows
    }
    shown = {place: found for place, found in groups.items() if visible(access, found)}
    rows = {
        (key, row.namespace): row
        for key, store in stores.items()
        for row in store.rows
        if (key, row.namespace) in shown
    }
    # What a DAG only declares looks the same whether there is such an application, of others, or none.
    for place, declaration in all_known.declarations.items():
        if place not in shown and visible(access, declaration.groups):
            shown[place] = declaration.groups
    at_work = running({group.dag_id for found in shown.values() for group in found} & access.readable)
    found = [
        row_of(
            all_known,
            access,
            key,
            namespace,
            rows[key, namespace].overview if (key, namespace) in rows else None,
            shown[key, namespace],
            at_work,
            error=rows[key, namespace].error if (key, namespace) in rows else stores[key].error,
        )
        for key, namespace in shown
    ]
    found.sort(
        key=lambda one: order(
            one["urgency"], one["expires_in_ms"], one["behind_ms"], one["app_name"], one["stream_name"], one["store"]
        )
    )
    seen = {one["store"] for one in found}
    return {
        "stores": [
            {"store": key, "label": all_known.places[key].label, "error": store.error}
            for key, store in stores.items()
            if key in seen or access.admin
        ],
        "applications": found,
        "not_known": [
            {**asdict(one), "linked": _linked(one.dag_id, one.group_id, shown)}
            for one in all_known.not_known
            if one.dag_id in access.readable or (not one.dag_id and access.admin)
        ],
    }


def row_of(
    all_known: Known,
    access: Access,
    key: str,
    namespace: Namespace,
    found: Overview | None,
    groups: Collection[DagGroup],
    at_work: Collection[Running],
    *,
    error: dict[str, str] | None = None,
) -> dict[str, Any]:
    """An application as the list shows it. One that no run has claimed for yet has no numbers."""
    now, place = now_ms(), all_known.places[key]
    here = deployment_of(place.leases)
    dag_ids = {group.dag_id for group in groups}
    works = [run for run in at_work if run.dag_id in dag_ids]
    urgency, problem = (0, None) if found is None else urgency_of(found, now, _at_work(found, here, works))
    if found is None and error is None:
        problem_json: dict[str, str] | None = {
            "text": "No run of its DAG here has claimed for it yet.",
            "remedy": "Let a run of its DAG begin.",
        }
    else:
        problem_json = None if problem is None else asdict(problem)
    names = ("retention_ms", "behind_ms", "watermark_ms", "last_commit_ms", "unfinished", "parked", "set_aside")
    numbers = (*names, "gaps", "open_shards", "held_shards")
    expires = found.expires_from_ms if found is not None else None
    return {
        "store": key,
        "app_name": namespace.app_name,
        "stream_name": namespace.stream_name,
        "dags": [
            {"dag_id": group.dag_id, "group_id": group.group_id, "may_edit": group.dag_id in access.editable}
            for group in sorted(groups)
            if group.dag_id in access.readable
        ],
        "declared": (key, namespace) in all_known.declarations,
        "error": error,
        "urgency": int(urgency),
        "expires_in_ms": None if expires is None else expires - now,
        **{name: getattr(found, name, None) for name in numbers},
        "running": [asdict(run) for run in works if run.dag_id in access.readable],
        "problem": problem_json,
    }


def _begin(place: Place, declared: Collection[Declaration]) -> tuple[Asker[LeaseStore], Future[_Store]]:
    names = frozenset(one.namespace for one in declared)
    asker = store_asker(place)
    return asker, asker.begin(("overviews", names), partial(_read, place.key, names))


def _ended(asker: Asker[LeaseStore], future: Future[_Store], until: float) -> _Store:
    try:
        return asker.answer(future, until - time.monotonic())
    except ShardbatchError as error:
        return _Store((), told(error))


def _read(key: str, declared: frozenset[Namespace], store: LeaseStore) -> _Store:
    """All applications of a store. Where a role may not list them, those that DAGs declare."""
    failed = None
    try:
        names = declared | _names.of(key, store)
    except StoreError as error:
        names, failed = declared, told(error)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="shardbatch-page") as pool:
        rows = pool.map(partial(_overview, store), sorted(names, key=str))
        return _Store(tuple(row for row in rows if row is not None), failed)


def _overview(store: LeaseStore, namespace: Namespace) -> _Row | None:
    try:
        found: Look = look(store, namespace)
    except ApplicationUnknown:  # no run has claimed for it yet, or it was removed just now
        return None
    except ShardbatchError as error:
        return _Row(namespace, None, told(error))
    return _Row(namespace, overview(found))


def _at_work(found: Overview, here: str, works: Collection[Running]) -> set[str]:
    """The owners whose runs work. Of another deployment that cannot be known, so they count as if they did."""
    runs = {(run.dag_id, run.run_id) for run in works}
    known_owners = {text: Owner.parse(text) for text in found.owners}
    return {
        text
        for text, owner in known_owners.items()
        if owner is not None and (owner.deployment != here or (owner.dag_id, owner.run_id) in runs)
    }


def _linked(dag_id: str, group_id: str, shown: dict[tuple[str, Namespace], set[DagGroup]]) -> list[dict[str, str]]:
    """The applications that a claim has worked for, as their own rows tell."""
    return [
        {"store": key, "app_name": namespace.app_name, "stream_name": namespace.stream_name}
        for (key, namespace), groups in shown.items()
        if DagGroup(dag_id, group_id) in groups
    ]
