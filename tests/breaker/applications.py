# SPDX-License-Identifier: Apache-2.0
"""Spark applications: each enters blocks of ``open_batch``, may be begun again by its cluster, and may outlive the task
that submitted it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardbatch.core.start import Begun, Start
from tests.breaker.plans import Kind
from tests.breaker.process import Process

if TYPE_CHECKING:
    from tests.breaker.memory_landing import MemoryLanding
    from tests.breaker.world import World

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
            landing.ended_starts[driver.inside.start_id] = driver.inside
            driver.done.append(driver.inside)
            driver.inside, driver.at = None, driver.at + 1

    def _enter(self, landing: MemoryLanding, driver: Driver) -> None:
        number = driver.number if self.numbered else 0
        start_id = f"{landing.count():06d}-{self.name}"
        known_as = self.name if self.numbered else ""
        begun = Begun(start_id, self.attempt, self.work, self.token, driver.incarnation, number, known_as)
        landing.begun.setdefault(self.batch_id, []).append(begun)
        landing.of_start[start_id] = self.batch_id
        driver.inside = Start(start_id, self.attempt, self.work, self.plan[driver.at])
        driver.left = list(self.rows) if driver.inside.outputs else []


class Cluster:
    """Every application that was submitted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.applications: list[Application] = []

    def of(self, batch_id: str, attempt: int, work: str | None) -> list[Application]:
        """Those of a work in an attempt, the first that was submitted first."""
        return [a for a in self.applications if (a.batch_id, a.attempt, a.work) == (batch_id, attempt, work)]

    def submit(self, process: Process, batch_id: str, attempt: int) -> Application:
        """A try starts an application. Tries that do not know whether an earlier one's application was told their token
        enter a block in all of them, or in none."""
        assert process.work is not None
        plans, older = self._world.plans, self.of(batch_id, attempt, process.work)
        plan = plans.blocks()
        if plans.kind(process.work) is not Kind.OWN and older and bool(plan) != bool(older[0].plan):
            plan = older[0].plan
        application = Application(
            name=process.name,
            batch_id=batch_id,
            attempt=attempt,
            work=process.work,
            token=process.token,
            plan=plan,
            rows=tuple(self._world.readable(batch_id)),
            numbered=plans.choose((False, True)),
        )
        application.drive(self._world.landing.count())
        self.applications.append(application)
        self._world.say(f"{process}: SUBMITS for {application.work} as {application.token!r}: {plan}")
        return application

    def end(self, name: str) -> None:
        """Somebody ends an application."""
        for application in self.applications:
            if application.name == name:
                application.over("ended")

    def shut(self, applications: list[Application]) -> None:
        """These applications are over, with all of their drivers."""
        for driver in (driver for application in applications for driver in application.drivers):
            driver.state = "ended" if driver.state == "running" else driver.state

    def restartable(self) -> list[Application]:
        """The applications of which it may begin another driver."""
        return [a for a in self.applications if a.state == "running" and len(a.drivers) < MOST_DRIVERS]

    def restart(self, application: Application, *, lives: bool) -> None:
        """It takes an application's driver for dead, maybe wrongly, and begins another."""
        if not lives:
            application.over("failed")
        application.drive(self._world.landing.count())
        self._world.say(f"{application.name}: is begun again, the driver before {'lives' if lives else 'is dead'}")

    def drivers(self) -> list[tuple[Application, Driver]]:
        """The drivers that run."""
        return [(a, driver) for a in self.applications for driver in a.drivers if driver.state == "running"]
