# SPDX-License-Identifier: Apache-2.0
"""Several processes claim one output root at once, in many orders of their steps: never two applications have it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from shardbatch.errors import OutputTaken
from shardbatch.landing.files import Files
from shardbatch.landing.roots import OutputRoots

OUT = "/out"


class Stage:
    """Lets threads take one step at a time, in an order that is given beforehand."""

    def __init__(self, count: int) -> None:
        self.may = [threading.Semaphore(0) for _ in range(count)]
        self.stands = [threading.Semaphore(0) for _ in range(count)]
        self.over = [False] * count
        self.here = threading.local()

    def step(self) -> None:
        me = self.here.number
        self.stands[me].release()
        self.may[me].acquire()

    def play(self, works: Sequence[Callable[[], Any]], order: Iterator[int]) -> list[Any]:
        """Run all; once ``order`` ends, each to its end, one after another. What each returned, or its error."""
        ends: list[Any] = [None] * len(works)

        def act(number: int) -> None:
            self.here.number = number
            self.step()
            try:
                ends[number] = works[number]()
            except Exception as error:  # noqa: BLE001 - a test looks at it
                ends[number] = error
            self.over[number] = True
            self.stands[number].release()

        threads = [threading.Thread(target=act, args=(number,), daemon=True) for number in range(len(works))]
        for thread in threads:
            thread.start()
        for stands in self.stands:
            stands.acquire()
        for number in order:
            self._go(number)
        for number in range(len(works)):
            while not self.over[number]:
                self._go(number)
        for thread in threads:
            thread.join()
        return ends

    def _go(self, number: int) -> None:
        if not self.over[number]:
            self.may[number].release()
            self.stands[number].acquire()


class SteppedFiles(Files):
    """Files in memory. What is done to the owners folder is a step of its own; names are listed one after another."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(pafs.LocalFileSystem())
        self.stage = stage
        self.kept: dict[str, bytes] = {}

    def write(self, path: str, content: bytes) -> None:
        self._at(path)
        self.kept[path] = content

    def create(self, path: str, content: bytes) -> bool:
        self._at(path)
        return self.kept.setdefault(path, content) is content

    def contents(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        paths = {name: f"{folder}/{name}" for name in names}
        return {name: self.kept[path] for name, path in paths.items() if path in self.kept}

    def read(self, path: str) -> bytes:
        return self.kept[path]

    def exists(self, path: str) -> bool:
        return path == OUT or path in self.kept

    def names(self, folder: str) -> list[str]:
        self._at(folder)
        return sorted(path.rpartition("/")[2] for path in self.kept if path.rpartition("/")[0] == folder)

    def delete(self, path: str) -> None:
        self._at(path)
        self.kept.pop(path, None)

    def _at(self, path: str) -> None:
        if "/owners" in path:
            self.stage.step()


def played(apps: Sequence[str], order: Iterator[int], *, shared: Sequence[str] = ()) -> tuple[list[str], OutputRoots]:
    """The applications that may decide after their looks, and the roots as they are then."""
    stage = Stage(len(apps))
    files = SteppedFiles(stage)
    roots = OutputRoots(files, "file", {}, "/staging")

    def look(app: str) -> Callable[[], str]:
        def work() -> str:
            roots.look(OUT, (), app, shared=app in shared)
            return app

        return work

    ends = stage.play([look(app) for app in apps], order)
    assert all(isinstance(end, (str, OutputTaken)) for end in ends), ends
    stage.step = lambda: None  # type: ignore[method-assign]
    return [end for end in ends if isinstance(end, str)], roots


def test_of_two_applications_at_most_one_has_the_root_in_every_order() -> None:
    outcomes = set()
    for first in combinations(range(8), 4):
        order = iter([0 if at in first else 1 for at in range(8)])
        have, roots = played(["a/s", "b/s"], order)
        outcomes.add(tuple(have))
        assert len(have) <= 1
        for app in ("a/s", "b/s"):  # whoever has it keeps it, and nobody is stuck
            if not have or app == have[0]:
                roots.look(OUT, (), app, shared=False)
                have = [app]
    assert outcomes == {("a/s",), ("b/s",), ()}


@pytest.mark.parametrize("seed", range(20))
def test_two_processes_of_an_application_do_not_open_the_door_to_another(seed: int) -> None:
    rnd = random.Random(seed)
    apps = ["a/s", "a/s", "b/s"]
    for _ in range(40):
        order = [number for number in range(3) for _ in range(5)]
        rnd.shuffle(order)
        have, _ = played(apps, iter(order))
        assert len(set(have)) <= 1


def test_a_try_that_withdraws_leaves_the_claim_of_its_applications_other_try() -> None:
    first, second, other = range(3)
    order = [first, second, other]  # up to their first steps
    order += [other]  # looks: nobody
    order += [first, first, first]  # looks, claims, lists: alone
    order += [second, second, other]  # looks, claims; the other claims
    order += [second, second]  # lists, withdraws
    order += [other, other, first]  # lists, and withdraws; the first has the root
    have, _ = played(["a/s", "a/s", "b/s"], iter(order))
    assert have == ["a/s"]


def test_those_that_share_a_root_never_hinder_each_other() -> None:
    for first in combinations(range(8), 4):
        order = iter([0 if at in first else 1 for at in range(8)])
        assert played(["a/s", "b/s"], order, shared=("a/s", "b/s"))[0] == ["a/s", "b/s"]


def test_one_that_shares_and_one_that_does_not_never_both_have_the_root() -> None:
    for first in combinations(range(8), 4):
        order = iter([0 if at in first else 1 for at in range(8)])
        assert len(played(["a/s", "b/s"], order, shared=("b/s",))[0]) <= 1


def test_an_application_of_a_long_name_has_its_root(tmp_path: Path) -> None:
    roots = OutputRoots(Files(pafs.LocalFileSystem()), "file", {}, str(tmp_path))
    app = "ü" * 90 + "/" + "s" * 120
    for _ in range(2):
        roots.look(str(tmp_path), [], app, shared=False)
    with pytest.raises(OutputTaken):
        roots.look(str(tmp_path), [], app + "s", shared=False)
