# SPDX-License-Identifier: Apache-2.0
"""Every order of steps in which an output root gets its first owner, and in which it changes hands.

The file system is a set of names: they appear, are looked at and go one at a time. A process may stop at any step for
ever, which is a death, or go on much later, which is a hang; a try again is another process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

State = Any
File = tuple[str, str, int]


def search(
    start: State, steps: Callable[[State], Iterable[tuple[str, State]]], broken: Callable[[State], str]
) -> tuple[int, str]:
    """How many states there are, and the shortest way to one that breaks the law; an empty text if none does."""
    back: dict[State, tuple[State, str] | None] = {start: None}
    todo = deque([start])
    while todo:
        state = todo.popleft()
        if broken(state):
            path, at = [broken(state)], back[state]
            while at is not None:
                path.append(at[1])
                at = back[at[0]]
            return len(back), "; ".join(reversed(path))
        for label, follower in steps(state):
            if follower not in back:
                back[follower] = (state, label)
                todo.append(follower)
    return len(back), ""


class First(NamedTuple):
    """Processes that want the root: where each stands, the names that it looked for in vain; files; who decided."""

    at: tuple[str, ...]
    missed: tuple[frozenset[tuple[str, str]], ...]
    files: frozenset[tuple[str, str]]
    decided: frozenset[str]


def first_owner(processes: tuple[str, ...], *, claim_of: Callable[[str], str], tidy: bool = False) -> tuple[int, str]:
    """Processes named ``A1``, ``A2``, ``B1``, … of applications ``A``, ``B``, … claim a root that is nobody's.

    :param claim_of: the name of a process's claim: one of its own, or one for its application.
    :param tidy: whether a claim is removed once the owner's file stands.
    """

    def steps(state: First) -> Iterator[tuple[str, First]]:
        for i, me in enumerate(processes):
            app, mine, at = me[0], ("claim", claim_of(me)), state.at[i]
            rivals = {(kind, claim_of(p) if kind == "claim" else p[0]) for p in processes if p[0] != app
                      for kind in ("claim", "owner")}  # fmt: skip

            def to(
                next_at: str,
                files: frozenset[tuple[str, str]] = state.files,
                missed: frozenset[tuple[str, str]] = frozenset(),
                decided: frozenset[str] = state.decided,
                i: int = i,
            ) -> First:
                return First(_with(state.at, i, next_at), _with(state.missed, i, missed), files, decided)

            if at == "look":
                taken = any(kind == "owner" and name != app for kind, name in state.files)
                has = ("owner", app) in state.files
                yield f"{me} looks", to("refused" if taken else "decide" if has else "claim")
            elif at == "claim":
                yield f"{me} claims", to("list", state.files | {mine})
            elif at == "list":
                left = rivals - state.missed[i]
                for name in left:
                    seen = name in state.files
                    missed = state.missed[i] | {name}
                    yield f"{me} looks for {name}", to("withdraw") if seen else to("list", missed=missed)
                if not left:
                    yield f"{me} is alone", to("own")
            elif at == "withdraw":
                yield f"{me} withdraws", to("refused", state.files - {mine})
            elif at == "own":
                yield f"{me} owns", to("tidy" if tidy else "decide", state.files | {("owner", app)})
            elif at == "tidy":
                yield f"{me} removes its claim", to("decide", state.files - {mine})
            elif at == "decide":
                yield f"{me} decides", to("over", decided=state.decided | {app})

    nothing: frozenset[Any] = frozenset()
    start = First(("look",) * len(processes), (nothing,) * len(processes), nothing, nothing)
    return search(start, steps, lambda state: "both decide" if len(state.decided) > 1 else "")


class Handed(NamedTuple):
    """Commits of each application: its batch's row and where it stands. Persons: where each stands and its epoch."""

    commits: tuple[tuple[str, str], ...]
    persons: tuple[tuple[str, int], ...]
    files: frozenset[File]
    told: frozenset[int]
    adopted: frozenset[tuple[str, int]]
    broken: str


def handed_over(
    commits: tuple[str, ...], persons: tuple[str, ...], *, claim_first: bool = True, all_rows: bool = True
) -> tuple[int, str]:
    """``A`` has the root; persons named ``B1``, ``C1``, … hand it to applications ``B``, ``C``, … meanwhile.

    The laws: after a handover nobody decides whose the root is not; and all that ``A`` decided is told by then.

    :param commits: the application of each batch that is to be frozen, looked for, decided and marked.
    :param claim_first: whether the claim that stops others' looks comes before the look at their rows.
    :param all_rows: whether the rows of all applications that are named in the root are looked at, or those of ``A``.
    """

    def passes(app: str, files: frozenset[File]) -> bool:
        top = max(epoch for kind, _, epoch in files if kind == "owner")
        return ("owner", app, top) in files and not any(
            kind == "claim" and epoch > top and name[0] != app for kind, name, epoch in files
        )

    def commit_steps(state: Handed, i: int) -> Iterator[tuple[str, Handed]]:
        app, (row, at) = commits[i], state.commits[i]
        who = f"{app}'s commit {i}"

        def to(next_row: str, next_at: str, **changes: Any) -> Handed:
            return state._replace(commits=_with(state.commits, i, (next_row, next_at)), **changes)

        if at == "freeze":
            yield f"{who} is frozen", to("FROZEN", "look")
        elif at == "look":
            yield f"{who} looks", to(row, "decide" if passes(app, state.files) else "look")
        elif at == "decide":
            newest = max(state.adopted, key=lambda item: item[1], default=("A", 1))[0]
            late = state.broken or (f"{who} decided in a root of {newest}" if app != newest else "")
            if row == "FROZEN":
                yield f"{who} decides", to("COMMITTED", "mark", broken=late)
        elif at == "mark":
            yield f"{who} marks", to(row, "over", told=state.told | {i})
        if row == "FROZEN":
            yield f"somebody drops {who}", to("VOID", at)

    def person_steps(state: Handed, j: int) -> Iterator[tuple[str, Handed]]:
        me, (at, epoch) = persons[j], state.persons[j]
        app = me[0]

        def to(next_at: str, epoch: int = epoch, **changes: Any) -> Handed:
            return state._replace(persons=_with(state.persons, j, (next_at, epoch)), **changes)

        if at == "claim":
            epoch = 1 + max(name[2] for name in state.files)
            yield f"{me} claims {epoch}", to("list", epoch, files=state.files | {("claim", me, epoch)})
        elif at == "list":
            rival = any(name[2] >= epoch and name[1] != me for name in state.files)
            yield f"{me} lists", to("withdraw" if rival else "rows")
        elif at == "withdraw":
            yield f"{me} withdraws", to("left", files=state.files - {("claim", me, epoch)})
        elif at == "rows":
            looked = [row for of, (row, _) in zip(commits, state.commits, strict=True)
                      if of == "A" or (all_rows and of != app)]  # fmt: skip
            left = "withdraw" if claim_first else "left"
            yield f"{me} looks at rows", to(left if "FROZEN" in looked else "heal")
        elif at == "heal":
            decided = {i for i, (row, _) in enumerate(state.commits) if row == "COMMITTED" and commits[i] != app}
            yield f"{me} tells", to("own", told=state.told | decided)
        elif at == "own":
            epoch = epoch or 1 + max(name[2] for name in state.files)
            untold = any(
                row == "COMMITTED" and of == "A" and i not in state.told
                for i, (of, (row, _)) in enumerate(zip(commits, state.commits, strict=True))
            )
            broken = state.broken or ("not all was told" if untold else "")
            files = state.files | {("owner", app, epoch)}
            yield f"{app} owns {epoch}", to("over", files=files, adopted=state.adopted | {(app, epoch)}, broken=broken)

    def steps(state: Handed) -> Iterator[tuple[str, Handed]]:
        for i in range(len(commits)):
            yield from commit_steps(state, i)
        for j in range(len(persons)):
            yield from person_steps(state, j)

    start = Handed(
        (("", "freeze"),) * len(commits), (("claim" if claim_first else "rows", 0),) * len(persons),
        frozenset({("owner", "A", 1)}), frozenset(), frozenset(), "",
    )  # fmt: skip
    return search(start, steps, lambda state: state.broken)


def _with(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])
