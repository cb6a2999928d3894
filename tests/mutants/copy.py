# SPDX-License-Identifier: Apache-2.0
"""A copy of the project to change and to test, with the original's environment and test servers."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.stages import Stage

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that one test, and one stage, may take: a mutant may make either run for ever.
TEST_TIMEOUT = {"unit": 60, "airflow": 300, "spark": 300}
STAGE_TIMEOUT = {"unit": 240, "airflow": 1500}


class Unfit(Exception):
    """A run says nothing about a mutant: pytest itself failed, or the wrong package was imported."""


@dataclass(frozen=True)
class Result:
    """``failed`` is the id of the test that failed, if one did."""

    failed: str | None
    seconds: float
    output: str


class Copy:
    """One copy; used by one thread at a time."""

    def __init__(self, folder: Path, commit: str | None = None) -> None:
        self.folder = folder.resolve()
        _fill(self.folder, commit)
        for shared in (".venv", ".cache"):
            if (ROOT / shared).exists():
                (self.folder / shared).symlink_to(ROOT / shared)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """With a mutant's line changed inside the block."""
        path = self.folder / mutant.path
        original = path.read_text(encoding="utf-8")
        self._write(path, mutant.applied(original))
        try:
            yield
        finally:
            self._write(path, original)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        Path(cache_from_source(str(path))).unlink(missing_ok=True)  # its time stamp is only as fine as a second

    def run(self, stage: Stage) -> Result:
        """Run a stage until its first failure.

        :raises Unfit: if no test can be blamed.
        """
        witness = self.folder / ".witness"
        witness.unlink(missing_ok=True)
        roots = [self.folder / "provider", self.folder / "plugins", self.folder]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
            "MUTANTS_COPY": str(self.folder),
            "MUTANTS_WITNESS": str(witness),
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-p", "tests.mutants.witness", f"--timeout={TEST_TIMEOUT.get(stage.tier, 180)}", *stage.arguments]
        began = time.monotonic()
        code, output = _run(command, self.folder, environment, STAGE_TIMEOUT.get(stage.tier, 600))
        lines = witness.read_text(encoding="utf-8").splitlines() if witness.exists() else []
        failed = [line.removeprefix("failed ") for line in lines if line.startswith("failed ")]
        if code not in (0, 70) and not failed:  # a time-out ends the whole process
            failed = [f"{line.removeprefix('run ')} (did not end)" for line in lines[-1:]]
        if code == 0 or failed:
            return Result(failed[0] if failed else None, time.monotonic() - began, output)
        raise Unfit(f"pytest {' '.join(stage.arguments)} ended with {code}:\n{output[-2000:]}")


def _run(command: list[str], folder: Path, environment: dict[str, str], timeout: float) -> tuple[int, str]:
    """Exit code and output; after the time-out the command is ended as if interrupted, then for certain."""
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                output, _ = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            return -1, output
        return process.returncode, output


def _fill(folder: Path, commit: str | None) -> None:
    git = ["git", "-C", str(ROOT)]
    if commit is not None:
        packed = subprocess.run([*git, "archive", commit], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(folder, filter="data")
        return
    names = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True
    ).stdout
    for name in filter(None, names.decode().split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():  # not what was removed and is still in the index
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
