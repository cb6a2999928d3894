# SPDX-License-Identifier: Apache-2.0
"""The set-up finds a fitting Python, or says what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Checkout = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Runs `setup.sh` with these commands on the PATH; its `install.py` only tells which Python it got."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", scripts)
    (scripts / "install.py").write_text("import sys\nprint('chosen', sys.executable)\n", "utf-8")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("dirname", "head", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))

    def run(PYTHON: str = "", **commands: str) -> subprocess.CompletedProcess[str]:
        for name, body in commands.items():
            program = folder / name.replace("_", ".")
            program.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
            program.chmod(0o755)
        env = {"PATH": str(folder), "HOME": str(tmp_path), "PYTHON": PYTHON}
        return subprocess.run(
            ["sh", "scripts/setup.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    return run


FITTING = f'exec {sys.executable} "$@"'
SHIM_THAT_CANNOT_RUN = 'echo "pyenv: python3: command not found" >&2; exit 127'
TOO_NEW = "exit 1"


def test_python3_is_taken_when_it_fits(checkout: Checkout) -> None:
    done = checkout(python3=FITTING)
    assert (done.returncode, done.stdout.split()[0]) == (0, "chosen")


@pytest.mark.parametrize("python3", [SHIM_THAT_CANNOT_RUN, TOO_NEW])
def test_another_python_is_looked_for_when_python3_does_not_fit(checkout: Checkout, python3: str) -> None:
    done = checkout(python3=python3, python3_12=FITTING)
    assert (done.returncode, done.stdout.split()[0]) == (0, "chosen")


def test_the_one_asked_for_is_taken_or_refused_by_name(checkout: Checkout) -> None:
    assert checkout(PYTHON=sys.executable, python3=TOO_NEW).returncode == 0
    refused = checkout(PYTHON="/no/such/python", python3=FITTING)
    assert refused.returncode == 1
    assert "/no/such/python" in refused.stderr
    assert refused.stdout == ""


def test_the_script_is_one_for_a_plain_shell() -> None:
    done = subprocess.run(["sh", "-n", str(ROOT / "scripts" / "setup.sh")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
