# SPDX-License-Identifier: Apache-2.0
"""Benchmarks still run: mypy checks their modules, and here are their DAGs and a claim."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / place) for place in ("provider", "plugins", ""))}


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=ENVIRON, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("dag", sorted((ROOT / "benchmarks" / "dags").glob("*.py")), ids=lambda path: path.stem)
def test_a_dag_of_a_benchmark_uses_no_old_name(dag: Path) -> None:
    code = "import runpy, sys, warnings; from airflow.exceptions import AirflowProviderDeprecationWarning as old; "
    code += "warnings.simplefilter('error', old); runpy.run_path(sys.argv[1])"
    run("-c", code, str(dag))


def test_a_claim_of_the_planning_benchmark_takes_the_whole_listing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'leases.db'}"
    answer = json.loads(run("-m", "benchmarks.claims", url, "1000", "first").splitlines()[-1])
    assert answer["shards"] == 1000
