# SPDX-License-Identifier: Apache-2.0
"""Which tests look at a mutant, in which order: where it was caught last, those beside its file, all of a tier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant

#: By the beginning of the changed file's path: where the tests of it stand, by tier. The first that fits counts.
NEAREST: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    ("stores/", {"unit": ("stores",), "contract": ("stores",), "integration": ("stores",)}),
    (
        "sources/",
        {"unit": ("sources",), "contract": ("test_sources.py", "test_kinesis.py"), "integration": ("sources",)},
    ),
    ("core/manifest.py", {"unit": ("core/test_manifest.py", "landing")}),
    ("core/", {"unit": ("core", "run"), "integration": ("run",)}),
    ("run/", {"unit": ("run",), "integration": ("run",)}),
    ("control/", {"unit": ("control",), "integration": ("control",)}),
    ("kcl/", {"unit": ("kcl",), "integration": ("kcl",)}),
    ("bloop/", {"unit": ("bloop",), "integration": ("sources/test_dynamodb_tokens.py",)}),
    ("landing/", {"unit": ("landing",), "contract": ("test_landing.py",), "integration": ("landing",)}),
    ("spark/", {"unit": ("landing",), "spark": ("spark",)}),
    ("submit/attempt.py", {"unit": ("submit/test_heartbeat.py",)}),
    ("submit/", {"unit": ("submit",)}),
    ("operators/spark.py", {"unit": ("operators/test_spark.py", "submit")}),
    ("operators/", {"unit": ("operators", "tasks/test_steps.py")}),
    ("task_group.py", {"unit": ("test_task_group.py",)}),
    ("assets.py", {"unit": ("test_assets.py",)}),
    ("stream_watcher.py", {"unit": ("test_stream_watcher.py",)}),
    ("tasks/liveness.py", {"unit": ("tasks/test_liveness.py", "tasks/test_instances.py")}),
    ("tasks/", {"unit": ("tasks",)}),
    ("hooks/", {"unit": ("hooks",)}),
    ("", {"unit": ("tasks/test_steps.py",)}),
)
FOLDERS = {
    "unit": "tests/unit",
    "contract": "tests/contract",
    "integration": "tests/integration",
    "breaker": "tests/breaker",
    "airflow": "tests/system/airflow",
    "spark": "tests/system/spark",
}
#: Unit tests that look at no mutant: at the embedded stream server, at files beside the sources, and at the list.
NOT_OURS = ("tests/unit/local", "tests/unit/test_setup.py", "tests/unit/test_compose.py", "tests/unit/test_mutants.py")


@dataclass(frozen=True)
class Stage:
    """One run of pytest: paths, and what is left out of them."""

    tier: str
    paths: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """For pytest."""
        return [*self.paths, *(f"--ignore={path}" for path in self.ignored)]


def stages_of(mutant: Mutant, root: Path) -> Iterator[Stage]:
    """The stages of a mutant, cheapest first. Beyond unit and breaker only the nearest tests of a tier are run."""
    if mutant.first:
        paths = tuple(f"tests/{name}" for name in mutant.first)
        yield Stage(next(tier for tier, folder in FOLDERS.items() if paths[0].startswith(folder)), paths)
    nearest = next(tests for prefix, tests in NEAREST if mutant.file.startswith(prefix))
    for tier in mutant.tiers:
        folder = FOLDERS[tier]
        near = tuple(f"{folder}/{name}" for name in nearest.get(tier, ()) if (root / folder / name).exists())
        if tier == "spark":
            yield Stage(tier, (folder,))
            continue
        if near:
            yield Stage(tier, near)
        if tier == "unit":
            yield Stage(tier, (folder,), (*near, *NOT_OURS))
        elif not near:
            yield Stage(tier, (folder,))
