# SPDX-License-Identifier: Apache-2.0
"""Benchmarks still run: mypy checks their modules, and here are their DAGs, a claim, and ways to take changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.dynamodb import BESIDE
from benchmarks.dynamodb_way import WAYS
from shardbatch.local import StreamServer

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


@pytest.mark.parametrize("way", ["landed", "lines"])
def test_a_way_of_the_benchmark_of_tables_takes_all_changes(way: str) -> None:
    with StreamServer() as server:
        server.tables.create("orders", shards=2)
        server.tables.fill("orders", ({"id": {"S": str(number)}, "v": {"S": "é"}} for number in range(500)))
        answer = json.loads(run("-m", "benchmarks.dynamodb_way", way, server.endpoint_url, "orders", "500"))
    assert answer["cpu_s"] > 0


def test_each_way_of_the_benchmark_of_tables_is_compared_once() -> None:
    assert sorted([*BESIDE, *(other for others in BESIDE.values() for other in others)]) == sorted(WAYS)
