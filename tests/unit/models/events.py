# SPDX-License-Identifier: Apache-2.0
"""Exhaustive model of one batch's asset event: tries of commits of two runs, that die or live on, step by step.

A try reads the row; asks Airflow, if another clearing came to send the event; writes its own clearing by CAS; and ends.
Airflow takes the success of a run's current try only, and makes the event with it. A try may stop at any step and go on
later, also when Airflow has started another one or a person has cleared the task. Once the first run is over (none of
its tries is current), another run may take the batch over, to replay it.

The law: never two events; and when a try of the batch's owner has ended well, one.

Left out one at a time, these break it: Airflow is asked (``ask``), a lost CAS is looked at again (``loop``), only the
owner sends (``owner``). That a clearing sends again what it came to send itself only spares the question, which may
have no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

RULES = ("ask", "loop", "owner")
MOST_TRIES = 3


@dataclass(frozen=True)
class Try:
    """A try of a commit: its run and clearing, what it read of the row (``event``, ``count``), and how far it is."""

    run: int
    clearing: int
    at: str = "read"  # read, ask, write, end, over
    event: tuple[int, int] | str = ""
    count: int = 0
    sends: bool = False


@dataclass(frozen=True)
class World:
    """``event`` is ``due`` or the run and clearing that came to send it; ``current`` is each run's try, if it has one.

    ``green`` says that a try of the owner has ended well.
    """

    owner: int = 0
    event: tuple[int, int] | str = "due"
    count: int = 0
    made: int = 0
    tries: tuple[Try, ...] = ()
    current: tuple[int, ...] = (-1, -1)
    clearings: tuple[int, ...] = (0, 0)
    green: bool = False


def _with(world: World, number: int, one: Try, **changes: object) -> World:
    tries = (*world.tries[:number], one, *world.tries[number + 1 :])
    return replace(world, tries=tries, **changes)  # type: ignore[arg-type]


def _step(world: World, number: int, without: str) -> World:
    """One step of one try."""
    one = world.tries[number]
    mine = (one.run, one.clearing)
    if one.at == "read":
        seen = replace(one, event=world.event, count=world.count)
        if without != "owner" and world.owner != one.run:
            return _with(world, number, replace(seen, at="end"))
        if world.event in ("due", mine):
            return _with(world, number, replace(seen, at="write"))
        return _with(world, number, replace(seen, at="ask"))
    if one.at == "ask":
        out = world.made > 0 or without == "ask"
        return _with(world, number, replace(one, at="end" if out else "write"))
    if one.at == "write":
        if world.count != one.count:
            return _with(world, number, replace(one, at="end" if without == "loop" else "read"))
        return _with(world, number, replace(one, at="end", sends=True), event=mine, count=world.count + 1)
    over = replace(one, at="over")
    if world.current[one.run] != number:
        return _with(world, number, over)  # Airflow does not take its success
    current = tuple(-1 if run == one.run else held for run, held in enumerate(world.current))
    green = world.green or world.owner == one.run
    return _with(world, number, over, made=world.made + one.sends, current=current, green=green)


def _start(world: World, run: int, clearing: int, **changes: object) -> World:
    current = tuple(len(world.tries) if at == run else held for at, held in enumerate(world.current))
    clearings = tuple(clearing if at == run else held for at, held in enumerate(world.clearings))
    tries = (*world.tries, Try(run, clearing))
    return replace(world, tries=tries, current=current, clearings=clearings, **changes)  # type: ignore[arg-type]


def _next(world: World, without: str) -> Iterator[tuple[str, World]]:
    for number, one in enumerate(world.tries):
        if one.at != "over":
            yield f"try {number} of run {one.run}, clearing {one.clearing}: {one.at}", _step(world, number, without)
    if len(world.tries) == MOST_TRIES:
        return
    for run in (0, 1):
        if world.current[run] >= 0:
            yield f"run {run} retries", _start(world, run, world.clearings[run])
        if any(one.run == run for one in world.tries):
            yield f"run {run} is cleared", _start(world, run, world.clearings[run] + 1)
    if world.owner == 0 and world.current[0] < 0 and world.tries:
        yield "run 1 takes the batch over", _start(world, 1, 0, owner=1, count=world.count + 1)
    for run in (0, 1):
        if world.current[run] >= 0:
            yield (
                f"run {run} fails",
                replace(world, current=tuple(-1 if at == run else held for at, held in enumerate(world.current))),
            )


def broken(without: str = "") -> list[str] | None:
    """The shortest trace that breaks the law without a rule; ``None`` if there is none."""
    begin = _start(World(), 0, 0)
    seen, waiting = {begin}, [(begin, ("run 0 commits",))]
    for world, trace in waiting:
        for said, after in _next(world, without):
            if after.made > 1 or (after.green and not after.made):
                return [*trace, said]
            if after not in seen:
                seen.add(after)
                waiting.append((after, (*trace, said)))
    return None
