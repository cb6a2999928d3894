# SPDX-License-Identifier: Apache-2.0
"""Spark applications: each enters blocks of ``open_batch``, may be begun again by its cluster, and may outlive the task
that submitted it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardbatch.core.start import Begun, Start

if TYPE_CHECKING:
    from tests.breaker.memory_landing import MemoryLanding

#: Driver processes of one application at most.
MOST_DRIVERS = 3


@dataclass
class Driver:
    """One process of an application. ``state`` is ``running``, ``finished``, ``failed`` or ``ended`` (by somebody).

    ``at`` is the block that it is in or comes to next, ``inside`` the start of the block that it is in, ``left`` what
    it has yet to write there, ``done`` the starts that it left well.
    """

    incarnation: str
    number: int
    state: str = "running"
    at: int = 0
    inside: Start | None = None
    left: list[str] = field(default_factory=list)
    done: list[Start] = field(default_factory=list)


@dataclass
class Application:
    """One submission. ``plan`` has the output roots of each block that it enters; ``token`` is what it was told, empty
    if nothing. Until it is ``recorded``, nobody else can know of it. ``numbered``: its cluster numbers its drivers.
    """

    name: str
    batch_id: str
    attempt: int
    work: str
    token: str
    plan: tuple[tuple[str, ...], ...]
    rows: tuple[str, ...]
    numbered: bool = False
    recorded: bool = False
    drivers: list[Driver] = field(default_factory=list)

    @property
    def last(self) -> Driver:
        """The driver that the cluster began last; what becomes of it becomes of the application."""
        return self.drivers[-1]

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``failed`` or ``ended``."""
        return self.last.state

    @property
    def whole(self) -> bool:
        """Whether its last driver left every block well."""
        return len(self.last.done) == len(self.plan)

    def drive(self, born: int) -> None:
        """The cluster begins a driver process of it."""
        self.drivers.append(Driver(f"{born:08d}", len(self.drivers) + 1))

    def over(self, state: str) -> None:
        """Its last driver is no more; an older one may live on."""
        if self.state == "running":
            self.last.state = state

    def swallow(self) -> None:
        """The block that it is in fails, and it goes on as if nothing were."""
        if self.last.inside is not None:
            self.last.inside, self.last.at = None, self.last.at + 1

    def step(self, landing: MemoryLanding, driver: Driver | None = None) -> None:
        """A driver, else the last, enters a block, writes some rows to each of its roots, or leaves it well."""
        driver = driver or self.last
        if driver.state != "running":
            return
        if driver.inside is None and driver.at == len(self.plan):
            driver.state = "finished"
        elif driver.inside is None:
            self._enter(landing, driver)
        elif driver.left:
            some = max(1, len(driver.left) // 2)
            for root in driver.inside.outputs:
                landing.write(root, driver.inside.start_id, driver.left[:some])
            del driver.left[:some]
        else:
            landing.starts.setdefault(self.batch_id, []).append(driver.inside)
            driver.done.append(driver.inside)
            driver.inside, driver.at = None, driver.at + 1

    def _enter(self, landing: MemoryLanding, driver: Driver) -> None:
        number = driver.number if self.numbered else 0
        start_id = f"{landing.count():06d}-{self.name}"
        begun = Begun(start_id, self.attempt, self.work, self.token, driver.incarnation, number)
        landing.begun.setdefault(self.batch_id, []).append(begun)
        driver.inside = Start(start_id, self.attempt, self.work, self.plan[driver.at])
        driver.left = list(self.rows) if driver.inside.outputs else []
