# SPDX-License-Identifier: Apache-2.0
"""The first hour: the shell blocks of ``docs/quick-start.md`` are run as they stand, from the wheel, in a fresh folder.

No checkout, no environment of ours and no Java is in reach: pip installs the wheel that was built just now beside what
``constraints.txt`` pins. Only the ports that Airflow listens on are other ones than its usual.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.airflow_instance import free_port
from scripts.sessions import end_sessions, members
from tests.support.pages import DOCS, ROOT, blocks
from tests.support.waiting import wait_until

PAGE = DOCS / "quick-start.md"
#: What stands behind it is for a cluster and for AWS.
END = "## In your own Airflow, on AWS"
SECONDS = 2400
#: What belongs to the caller's Python or Airflow, and must not reach the walk.
FOREIGN = ("AIRFLOW", "PYTHON", "PYSPARK", "SPARK", "SHARDBATCH", "VIRTUAL_ENV", "JAVA_HOME", "COVERAGE", "AWS_", "UV_")

pytestmark = [pytest.mark.long, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(SECONDS + 120)]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def environment(folder: Path, wheels: Path) -> dict[str, str]:
    """That of a person with Python and pip alone."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    tools = folder / "tools"
    tools.mkdir()
    no_java = tools / "java"
    no_java.write_text("#!/bin/sh\necho 'java: not found' >&2\nexit 127\n")
    no_java.chmod(0o755)
    python = Path(sys.base_prefix) / "bin" / "python{}.{}".format(*sys.version_info[:2])
    (tools / "python3").symlink_to(python)
    env["PATH"] = os.pathsep.join([str(tools), env.get("PATH", os.defpath)])
    port = free_port()
    return env | {
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PIP_FIND_LINKS": " ".join(filter(None, [env.get("PIP_FIND_LINKS"), str(wheels)])),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def test_the_quick_start_leads_to_a_committed_batch_that_is_read(tmp_path: Path, wheels: Path) -> None:
    shell, shown = blocks(PAGE, "sh", until=END), blocks(PAGE, "", until=END)
    steps = [f'{block.text}echo "== line {block.line}: done after $SECONDS s"\n' for block in shell]
    walk = subprocess.Popen(
        ["bash", "-c", "set -e\n" + "\n".join(steps)],
        cwd=tmp_path,
        env=environment(tmp_path, wheels),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = walk.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        end_sessions([walk.pid])
        said = walk.communicate()[0]
        pytest.fail(f"the walk did not end in {SECONDS} s:\n{said[-6000:]}{logs(tmp_path)}")
    finally:
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not members([walk.pid]), 30, "all parts to end")
        left = members([walk.pid])
        end_sessions([walk.pid])
    print(said)
    assert walk.returncode == 0, f"{said[-6000:]}{logs(tmp_path)}"
    for block in shown:
        assert block.text in said, f"{said[-6000:]}\n{block.name} shows something else"
    assert "success" in said
    assert left == [], "the last block did not stop all parts"


def logs(folder: Path) -> str:
    """The ends of all logs that the walk has left."""
    found = [*folder.glob("first-batch/*.log"), *folder.glob("first-batch/airflow/logs/**/*.log")]
    return "".join(f"\n--- {path}\n{path.read_text('utf-8', 'replace')[-3000:]}" for path in sorted(found))
