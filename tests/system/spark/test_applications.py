# SPDX-License-Identifier: Apache-2.0
"""Applications in processes of their own, where only pyspark is installed."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shardbatch
from scripts.environment import QUICK_JAVA
from tests.support.batches import NAMESPACE, freeze
from tests.support.outputs import commit

if TYPE_CHECKING:
    from shardbatch.landing.area import StagingArea

pytestmark = [pytest.mark.slow, pytest.mark.spark]

JOB = Path(__file__).with_name("copy_job.py")
AIRFLOW_SIDE = "airflow,msgspec,boto3,botocore,sqlalchemy,fsspec,moto"


def run(area: StagingArea, out: str, **more: str) -> str:
    frozen = freeze(area, {"s-0": 20, "s-1": 5}, generations={"s-1": 1})
    frozen.open_attempt(2)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "PYTHONPATH": str(Path(shardbatch.__file__).parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": QUICK_JAVA,
        "SHARDBATCH_MANIFEST": frozen.uri,
        "SHARDBATCH_ATTEMPT": "2",
        "SHARDBATCH_DIGEST": frozen.digest,
        "SHARDBATCH_WORK": "copy",
        "OUT": out,
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
        **more,
    }
    done = subprocess.run([sys.executable, JOB], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    (start,) = area.finished_starts(NAMESPACE, "batch-1")
    assert (start.attempt, start.work) == (2, "copy")
    assert [Path(o.removeprefix("file:")) for o in start.outputs] == [Path(out)]
    assert [found.start_id for found in frozen.end(2, "copy").starts] == [start.start_id]
    frozen.commit(2, "copy")
    return done.stdout


def test_an_application_needs_pyspark_and_nothing_else(area: StagingArea, out: str) -> None:
    printed = run(area, out, BARRED=f"pyarrow,pandas,numpy,{AIRFLOW_SIDE}")

    assert "files=GatewayFiles\ncopied=25 of=25\ncommitted=0\n" in printed


def test_an_application_and_a_reader_work_through_spark_connect(
    area: StagingArea, out: str, tmp_path: Path, connect_url: str
) -> None:
    root = str(tmp_path / "o[ut] {pr,od} *?")
    rows = commit_two(root)

    printed = run(area, out, BARRED=AIRFLOW_SIDE, REMOTE=connect_url, READ=root)

    assert "files=FrameFiles\ncopied=25 of=25\ncommitted=0\n" in printed
    assert rows in printed


@pytest.mark.long
def test_a_reader_needs_pyspark_and_nothing_else(tmp_path: Path) -> None:
    out = str(tmp_path / "o[ut] {pr,od} *?")
    rows = commit_two(out)
    environment = {
        **{name: os.environ[name] for name in ("PATH", "JAVA_HOME", "PYTHONPATH") if name in os.environ},
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
        "TZ": "UTC",
        "BARRED": f"pyarrow,pandas,numpy,{AIRFLOW_SIDE}",
        "OUT": out,
    }
    job = JOB.with_name("read_job.py")
    done = subprocess.run([sys.executable, job], env=environment, capture_output=True, text=True, timeout=280)

    assert done.returncode == 0, done.stdout + done.stderr
    assert rows in done.stdout


def commit_two(out: str) -> str:
    """Commit two batches with partitions; what a reader is to print of them."""
    commit(out, "a", {"day=2026-01-01": {"n": [1]}, "day=2026-01-02": {"n": [2]}})
    commit(out, "b", {"day=2026-01-01": {"n": [3]}}, decided=2)
    day = datetime.date(2026, 1, 1)
    rows = [(1, day, "a", 1), (2, datetime.date(2026, 1, 2), "a", 1), (3, day, "b", 2)]
    return f"rows={rows}\ncolumns=['n', 'day']\nnew=3 a,b, then ()\n"
