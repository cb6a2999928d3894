# SPDX-License-Identifier: Apache-2.0
"""The one application that a request is about, once it is seen that the user may see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends

from shardbatch.control.overview import Look, Overview, look, overview
from shardbatch.control.shard_table import ShardRow, shard_table
from shardbatch.core.application import Group
from shardbatch.core.owner import Owner
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.core.watermark import Watermark, watermark
from shardbatch.errors import ApplicationUnknown, ConfigurationError, ShardbatchError
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import default_staging
from shardbatch.hooks.staging import Staging
from shardbatch.run.consumer import Rows
from shardbatch_plugin.web.access import Access, AccessDep
from shardbatch_plugin.web.found import is_there
from shardbatch_plugin.web.known import DagGroup, Known, application_unknown, deployment_of, known, visible
from shardbatch_plugin.web.stores import Place, store_asker

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """The rows of an application as of a moment ago, and what follows from them, which is worked out once for all."""

    look: Look

    @cached_property
    def watermark(self) -> Watermark:
        """Up to when all is committed."""
        return watermark(self.look.application, self.look.leases)

    @cached_property
    def overview(self) -> Overview:
        """The application in a few numbers."""
        return overview(self.look)

    @cached_property
    def table(self) -> list[ShardRow]:
        """All of its shards."""
        return shard_table(self.look.leases, self.look.application, self.look.undecided)


@dataclass
class Chosen:
    """An application in its store, and what the user may do there.

    ``groups`` are its groups in this deployment, whether the user may read
    their DAGs or not.
    """

    access: Access
    known: Known
    place: Place
    namespace: Namespace
    seen: Seen
    groups: frozenset[DagGroup]

    @property
    def look(self) -> Look:
        """Its rows as of a moment ago."""
        return self.seen.look

    @property
    def table(self) -> list[ShardRow]:
        """All of its shards."""
        return self.seen.table

    @property
    def dag_ids(self) -> frozenset[str]:
        """Its DAGs here."""
        return frozenset(group.dag_id for group in self.groups)

    @property
    def may_act(self) -> bool:
        """Whether the user may act on some of it."""
        return self.access.edits_one(self.dag_ids)

    def may_act_on(self, owner: str | None) -> bool:
        """Whether the user may act on what this owner has. What the run of a DAG has that is gone is as if no run had
        it."""
        found = self.owner_here(owner)
        there = found is not None and is_there(found.dag_id)
        return self.access.acts(self.dag_ids, found.dag_id if found is not None and there else None)

    def owner_here(self, owner: str | None) -> Owner | None:
        """The owner of a text, if it is a run of this deployment."""
        found = Owner.parse(owner or "")
        here = self.deployment
        return found if found is not None and here and found.deployment == here else None

    @cached_property
    def deployment(self) -> str:
        """The name of this deployment in the store; empty if it is not known. To find it may read a connection."""
        return deployment_of(self.place.leases)

    @property
    def staging(self) -> Staging | None:
        """Its staging folder: as a DAG declares it, else the deployment's.

        :raises ConfigurationError: if the setting cannot be read.
        """
        declaration = self.known.declarations.get((self.place.key, self.namespace))
        return (declaration.staging(self.groups) if declaration else None) or default_staging()

    def ask(self, question: Sequence[Any], read: Callable[[LeaseStore], T], fresh_s: float | None = None) -> T:
        """Read from the store. What is read is shared with others who ask the same of this application.

        :param fresh_s: seconds for which it is shared, default: a moment.
        :raises NoAnswer: if it does not answer in time.
        """
        return store_asker(self.place).ask((self.namespace, *question), read, fresh_s)


def choose(access: AccessDep, store: str, app_name: str, stream_name: str) -> Chosen:
    """The application of a request's query.

    :raises ApplicationUnknown: if there is none, or the user may not see it: they are not told which.
    :raises NoAnswer: if the store does not answer in time.
    """
    all_known = known()
    place = all_known.expect_place(store)
    try:
        namespace = namespace_of(app_name, stream_name)
    except ConfigurationError:
        raise application_unknown() from None
    asker = store_asker(place)
    try:
        # Only its own row is read until it is known who may see it: the time that all of it takes would tell of it.
        claimed_by = asker.ask((namespace, "claimed by"), partial(_claimed_by, namespace))
        groups = all_known.groups_of(store, namespace, claimed_by)
        if not visible(access, groups):
            raise application_unknown()
        found = asker.ask((namespace, "look"), lambda opened: Seen(look(opened, namespace)))
    except ShardbatchError as error:
        # Of a store, no more is told to those who may not see what a DAG declares there.
        if isinstance(error, ApplicationUnknown) or not visible(access, all_known.groups_of(store, namespace)):
            raise application_unknown() from None
        raise
    return Chosen(access, all_known, place, namespace, found, frozenset(groups))


def _claimed_by(namespace: Namespace, store: LeaseStore) -> tuple[Group, ...]:
    return Rows(namespace=namespace, store=store).expect_application().claimed_by


ChosenDep = Annotated[Chosen, Depends(choose)]
