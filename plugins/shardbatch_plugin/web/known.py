# SPDX-License-Identifier: Apache-2.0
"""Which applications there are: those that this deployment's DAGs declare, and what their stores have beside."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from shardbatch.core.application import Group
from shardbatch.core.rows import Namespace
from shardbatch.errors import ApplicationUnknown, ConfigurationError
from shardbatch.hooks.declared import Declared
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import default_leases, deployment_id
from shardbatch.hooks.staging import Staging
from shardbatch_plugin.web.access import Access
from shardbatch_plugin.web.found import Claiming, claiming
from shardbatch_plugin.web.stores import Place


@dataclass(frozen=True, order=True)
class DagGroup:
    """A group of a DAG of this deployment."""

    dag_id: str
    group_id: str


@dataclass(frozen=True)
class NotKnown:
    """A claim of which the page cannot tell the application, and why."""

    dag_id: str
    group_id: str
    app_name: str
    stream_name: str
    why: str


@dataclass
class Declaration:
    """An application that DAGs of this deployment declare, with what each group says of it."""

    place: Place
    namespace: Namespace
    declared: list[tuple[DagGroup, Declared]] = field(default_factory=list)

    @property
    def groups(self) -> set[DagGroup]:
        """The groups that declare it."""
        return {group for group, _ in self.declared}

    def staging(self, groups: Collection[DagGroup]) -> Staging | None:
        """Its staging folder, as the first of these groups says that names it in a form known without a run."""
        said = (one.staging for group, one in self.declared if group in groups)
        return next((staging for staging in said if staging and "{" not in staging.uri), None)


@dataclass
class Known:
    """What the DAGs and the settings say.

    ``all_groups`` are the groups of all claims, those of which the application is not known too.
    """

    places: dict[str, Place] = field(default_factory=dict)
    declarations: dict[tuple[str, Namespace], Declaration] = field(default_factory=dict)
    not_known: list[NotKnown] = field(default_factory=list)
    all_groups: set[DagGroup] = field(default_factory=set)

    def in_place(self, key: str) -> list[Declaration]:
        """The applications that DAGs declare in a store."""
        return [one for (place, _), one in self.declarations.items() if place == key]

    def groups_of(self, key: str, namespace: Namespace, claimed_by: Iterable[Group] = ()) -> set[DagGroup]:
        """The groups of this deployment that an application has.

        Its own row names the groups that have claimed for it. Only the DAGs of these count: a DAG file may name any
        application, and by that alone nobody gets to see or change it. Where nobody has claimed yet, and where all
        that have are DAGs of this deployment that are gone, the declarations count.

        :param claimed_by: those of its row.
        """
        declaration = self.declarations.get((key, namespace))
        declared = declaration.groups if declaration else set()
        here = deployment_of(self.places[key].leases)
        ours = {DagGroup(group.dag_id, group.group_id) for group in claimed_by if here and group.deployment == here}
        dag_ids = {group.dag_id for group in ours}
        found = {group for group in declared | (ours & self.all_groups) if group.dag_id in dag_ids}
        return found or (declared if all(here and group.deployment == here for group in claimed_by) else set())

    def expect_place(self, key: str) -> Place:
        """The store of a digest.

        :raises ApplicationUnknown: if no DAG names such a store.
        """
        if key not in self.places:
            raise application_unknown()
        return self.places[key]


def known() -> Known:
    """What the DAGs and the settings say now."""
    found = known_of(claiming())
    try:
        leases = default_leases()
    except ConfigurationError as error:  # the setting is wrong: what the DAGs say is shown all the same
        found.not_known.append(NotKnown("", "", "", "", str(error)))
        return found
    if leases is not None:
        place = Place(leases)
        found.places.setdefault(place.key, place)
    return found


def known_of(claims: Iterable[Claiming]) -> Known:
    """What claims say."""
    found = Known()
    for one in claims:
        group = DagGroup(one.dag_id, one.group_id)
        found.all_groups.add(group)
        declared = one.application
        if declared is None:
            found.not_known.append(NotKnown(one.dag_id, one.group_id, "", "", one.error))
            continue
        why = _unknown_why(declared)
        try:
            namespace = None if why else namespace_of(declared.app_name, declared.stream_name)
        except ConfigurationError as error:
            why = str(error)
        if why or namespace is None or declared.leases is None:
            names = (declared.app_name, declared.stream_name)
            found.not_known.append(NotKnown(one.dag_id, declared.group_id, *names, why))
            continue
        place = Place(declared.leases)
        found.places.setdefault(place.key, place)
        application = found.declarations.setdefault((place.key, namespace), Declaration(place, namespace))
        application.declared.append((group, declared))
    return found


def deployment_of(leases: Leases) -> str:
    """The name of this deployment among those that use a store; empty if it is not known."""
    try:
        return deployment_id(leases)
    except ConfigurationError:  # runs fail with the same error, and say so
        return ""


def application_unknown() -> ApplicationUnknown:
    """The one answer for a store or an application that is not there, and for one that the user may not see."""
    return ApplicationUnknown(
        "There is no such application.", remedy="Go back to the list. Its first claim makes an application."
    )


def visible(access: Access, groups: Collection[DagGroup]) -> bool:
    """Whether a user may see an application that has these groups here."""
    return access.sees({group.dag_id for group in groups})


def _unknown_why(declared: Declared) -> str:
    if declared.leases is None:
        return "Its lease store is a class of the author's own, which only a run can open."
    if declared.templated:
        return "Its names or its lease store are templates, which only a run can render."
    return ""
