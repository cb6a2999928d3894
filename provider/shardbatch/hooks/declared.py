# SPDX-License-Identifier: Apache-2.0
"""What a claim task says of its application in the serialized DAG, for those who have no DAG file: the Streams page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from shardbatch.hooks.leases import KINDS, Leases, leases_from
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.stream_literals import stream_to_json

if TYPE_CHECKING:
    from shardbatch.tasks.application import ApplicationSpec

#: Where a template begins.
TEMPLATE = ("{{", "{%")


@dataclass(frozen=True)
class Declared:
    """An application as its author wrote it: its texts may be templates.

    :param app_name: the application.
    :param stream_name: the name of its stream.
    :param group_id: the group that claims for it; empty for a claim that stands alone.
    :param leases: where its leases are kept; ``None`` for a class of the author's own, as for the next two.
    :param staging: where its slices are kept.
    :param stream: the stream as literals.
    """

    app_name: str
    stream_name: str
    group_id: str
    leases: Leases | None
    staging: Staging | None
    stream: Mapping[str, Any] | None = None

    @property
    def templated(self) -> bool:
        """Whether it is known only to a run which application and store it means."""
        texts = (self.app_name, self.stream_name, *(asdict(self.leases).values() if self.leases else ()))
        return any(mark in text for text in texts if isinstance(text, str) for mark in TEMPLATE)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, for :func:`declared_from`."""
        return {
            "app_name": self.app_name,
            "stream_name": self.stream_name,
            "group_id": self.group_id,
            "leases": None if self.leases is None else self.leases.to_json(),
            "staging": None if self.staging is None else asdict(self.staging),
            "stream": self.stream,
        }


def declared(spec: ApplicationSpec) -> Declared:
    """What is said of an application."""
    return Declared(
        app_name=spec.app_name,
        stream_name=spec.stream.stream_name,
        group_id=spec.group_id,
        leases=spec.leases if type(spec.leases) in KINDS.values() else None,
        staging=spec.staging if type(spec.staging) is Staging else None,
        stream=stream_to_json(spec.stream),
    )


def declared_from(value: Mapping[str, Any]) -> Declared:
    """The application of plain JSON.

    :raises ConfigurationError: for a lease store or staging folder that this version does not know.
    """
    return Declared(
        app_name=value["app_name"],
        stream_name=value["stream_name"],
        group_id=value["group_id"],
        leases=None if value["leases"] is None else leases_from(value["leases"]),
        staging=None if value["staging"] is None else Staging(**value["staging"]),
        stream=value["stream"],
    )
