# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: changes one line of our own code at a time and sees that a test notices.

The mutants stand in the `*.toml` files beside this one. They were chosen from the sources and the protocol, before the
tests were looked at, so one that survives is a hole in the tests. Every stage is first run on the unchanged copy, and
counts only if it is green there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.copy import ROOT, Copy, Unfit
from tests.mutants.mutant import TIERS, Mutant, StaleMutant, listed
from tests.mutants.stages import Stage, stages_of


class Hunt:
    """Tries mutants on copies; a copy is used by one thread at a time."""

    def __init__(self, copies: Sequence[Copy], tiers: Sequence[str]) -> None:
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            self._copies.put(copy)
        self._tiers = tiers
        self._green: dict[Stage, threading.Lock] = {}
        self._proved: set[Stage] = set()
        self._lock = threading.Lock()

    def try_out(self, mutant: Mutant) -> str | None:
        """The id of the test that caught it and the seconds that it took, as text; ``None`` if it survived."""
        copy = self._copies.get()
        try:
            spent = 0.0
            for stage in stages_of(mutant, copy.folder):
                if stage.tier not in self._tiers:
                    continue
                self._prove(copy, stage)
                with copy.mutated(mutant):
                    result = copy.run(stage)
                spent += result.seconds
                if result.failed is not None:
                    return f"{result.failed}  ({spent:.0f} s)"
            return None
        finally:
            self._copies.put(copy)

    def _prove(self, copy: Copy, stage: Stage) -> None:
        """See that a stage is green on the unchanged copy, once.

        :raises Unfit: if it is not.
        """
        with self._lock:
            turn = self._green.setdefault(stage, threading.Lock())
        with turn:
            if stage in self._proved:
                return
            result = copy.run(stage)
            if result.failed is not None:
                raise Unfit(f"without any mutant, {result.failed} fails:\n{result.output[-3000:]}")
            _print(f"green     {' '.join(stage.paths)} without any mutant  ({result.seconds:.0f} s)")
            self._proved.add(stage)


def _print(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all were caught, 1 if one survived, 2 if something else is wrong."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="shardbatch-mutants-") as folder:
        try:
            copies = [Copy(_made(Path(folder) / str(n)), options.commit) for n in range(options.jobs)]
            mutants = [m for m in listed(ROOT / "tests" / "mutants") if _chosen(m, options.names)]
            for mutant in mutants:
                mutant.applied((copies[0].folder / mutant.path).read_text(encoding="utf-8"))
            if not mutants:
                raise StaleMutant("no mutant has such a name")
            if options.list:
                for mutant in mutants:
                    _print(f"{mutant.name}: {mutant.breaks} [{mutant.file}; {', '.join(mutant.tiers)}]")
                return 0
            return _hunted(mutants, Hunt(copies, options.tiers), options.jobs)
        except (StaleMutant, Unfit) as error:
            _print(f"ERROR     {error}")
            return 2


def _hunted(mutants: Sequence[Mutant], hunt: Hunt, jobs: int) -> int:
    began, survived, failures = time.monotonic(), [], []

    def one(mutant: Mutant) -> None:
        try:
            caught = hunt.try_out(mutant)
        except Unfit as error:
            failures.append(mutant.name)
            _print(f"ERROR     {mutant.name}: {error}")
            return
        if caught is None:
            survived.append(mutant.name)
            _print(f"SURVIVED  {mutant.name}: {mutant.breaks} [{mutant.file}; {', '.join(mutant.tiers)}]")
        else:
            _print(f"caught    {mutant.name}  by {caught}")

    _at_once(one, mutants, jobs)
    caught = len(mutants) - len(survived) - len(failures)
    _print(f"{caught} of {len(mutants)} mutants caught in {time.monotonic() - began:.0f} s.")
    return 2 if failures else 1 if survived else 0


def _at_once(one: Callable[[Mutant], None], mutants: Sequence[Mutant], jobs: int) -> None:
    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(one, mutants):
            pass


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants ARGS='…'", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names or files; default: all mutants")
    parser.add_argument("-j", dest="jobs", type=int, choices=(1, 2), default=1, help="how many at a time (1 or 2)")
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=TIERS, help="only these tiers of tests")
    parser.add_argument("--commit", help="test this commit, not the files as they stand now")
    parser.add_argument("--list", action="store_true", help="only say what the mutants are")
    return parser.parse_args(arguments)


def _chosen(mutant: Mutant, names: Sequence[str]) -> bool:
    return not names or any(name in mutant.name or name in mutant.file for name in names)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
