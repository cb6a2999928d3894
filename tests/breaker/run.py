# SPDX-License-Identifier: Apache-2.0
"""A DAG run as the breaker's Airflow keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.owner import Owner
from shardbatch.core.policies import Policies
from shardbatch.run import Claim, Committed, Frozen

FEW_RECORDS = ReadLimits(records=4, concurrency=1)
#: State of a work, and the batch and attempt that it ended, unless it did nothing or a person marked it.
State = tuple[str, "tuple[str, int] | None"]


@dataclass(repr=False)
class Run:
    """A DAG run: its state, its next task, and what its tasks answered.

    ``began_ms`` is when it started, or was cleared. ``red``: it fails after its commit. ``replay`` is the batch that it
    was told to replay, ``known`` the one that it has frozen since its last claim, which ``claim_id`` names. ``states``
    are the works of its block: ``none``, ``success`` or ``skipped``. ``begun`` counts the tries of each work.
    """

    name: str
    deployment: str = "here"
    group: str = "orders"
    interval: Interval | None = None
    policies: Policies = field(default_factory=Policies)
    max_shards: int | None = None
    read_tasks: int = 2
    drain: bool = True
    limits: ReadLimits = FEW_RECORDS
    began_ms: int = 0
    state: str = "running"
    task: str = "claim"
    clears: int = 0
    claimed: Claim | None = None
    frozen: Frozen | None = None
    committed: Committed | None = None
    groups: list[str] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    red: bool = False
    replay: str | None = None
    known: str | None = None
    claim_id: str = ""
    states: dict[str, State] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.name} ({self.state}, {self.task})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def to_do(self) -> list[str]:
        """The works of its block that have not ended."""
        return [work for work, (state, _) in self.states.items() if state == "none"]

    @property
    def owner(self) -> Owner:
        return Owner(self.deployment, "dag", self.name, self.group, "interval" if self.interval else "incremental")
