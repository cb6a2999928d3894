# SPDX-License-Identifier: Apache-2.0
"""The list of mutants: one changed line each, with what it breaks and which tests should notice."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path("provider/shardbatch")
#: From cheap to dear; a mutant is tried in this order, whatever order it lists.
TIERS = ("unit", "contract", "integration", "breaker", "airflow", "spark")


class StaleMutant(Exception):
    """The list does not fit the sources any more."""


@dataclass(frozen=True)
class Mutant:
    """``old`` and ``new`` are a whole line without its indentation; ``file`` is relative to the sources, or begins with
    ``plugins/``.

    ``tiers`` should notice it. ``first`` names files of tests below ``tests`` that are run before all others: where it
    was caught last time.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tiers: tuple[str, ...]
    first: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file, relative to the project."""
        return Path(self.file) if self.file.startswith("plugins/") else SOURCES / self.file

    def applied(self, text: str) -> str:
        """The file's text with the line changed.

        :raises StaleMutant: if the line does not stand there exactly once.
        """
        lines = text.splitlines(keepends=True)
        found = [at for at, line in enumerate(lines) if line.strip() == self.old]
        if len(found) != 1:
            raise StaleMutant(f"stale mutant {self.name}: its line stands {len(found)} times in {self.file}")
        line = lines[found[0]]
        lines[found[0]] = line.replace(self.old, self.new)
        return "".join(lines)


def listed(folder: Path) -> list[Mutant]:
    """The mutants of all lists in a folder.

    :raises StaleMutant: if a list is wrong in itself.
    """
    found: dict[str, Mutant] = {}
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            tiers, first = tuple(sorted(entry["tiers"], key=TIERS.index)), tuple(entry.get("first", ()))
            mutant = Mutant(**{**entry, "tiers": tiers, "first": first})
            if mutant.name in found or "\n" in mutant.old + mutant.new or mutant.old == mutant.new:
                raise StaleMutant(f"mutant {mutant.name} of {path.name} is no change of one line, or listed twice")
            found[mutant.name] = mutant
    return list(found.values())
