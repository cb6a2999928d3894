# SPDX-License-Identifier: Apache-2.0
"""When a spark-submit starts its JVM quickly; tests/integration/test_spark_quick.py has a real one."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from shardbatch.core.choices import SparkJvm
from shardbatch.errors import ConfigurationError
from shardbatch.submit import quick


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="shardbatch")


def hook(monkeypatch: pytest.MonkeyPatch, host: str, mode: str | None = None, **arguments: Any) -> SparkSubmitHook:
    extra = {"deploy-mode": mode} if mode else {}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host, "extra": extra}))
    return SparkSubmitHook(**arguments)


@pytest.mark.parametrize(
    ("given", "setting", "quickly"),
    [
        (SparkJvm.DEFAULT, "", False),
        (SparkJvm.DEFAULT, "default", False),
        (SparkJvm.DEFAULT, "quick", True),
        (SparkJvm.PLAIN, "quick", False),
        (SparkJvm.QUICK, "plain", True),
    ],
)
def test_the_author_wins_over_the_setting(
    monkeypatch: pytest.MonkeyPatch, given: SparkJvm, setting: str, quickly: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__SPARK_JVM", setting)
    assert quick.wanted(given) is quickly


def test_another_word_of_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__SPARK_JVM", "fast")
    with pytest.raises(ConfigurationError, match=r"\[shardbatch\] spark_jvm = 'fast' is not known"):
        quick.wanted(SparkJvm.DEFAULT)


@pytest.mark.parametrize(
    ("host", "mode"), [("spark://master:7077", "cluster"), ("yarn", "cluster"), ("k8s://https://cluster", "client")]
)
def test_where_a_cluster_starts_the_driver_nothing_is_changed_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, host: str, mode: str
) -> None:
    made = hook(monkeypatch, host, mode, conf={"spark.kubernetes.namespace": "default"})
    before = (made._env_vars, made._properties_file, dict(made._conf))
    quick.quicken(made, tmp_path)
    assert (made._env_vars, made._properties_file, made._conf) == before
    assert "jvm='quick' changes nothing here" in caplog.text


def test_a_spark_submit_that_shows_no_jvm_is_left_alone_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no spark-submit
    made = hook(monkeypatch, "local[2]", env_vars={"MINE": "1"})
    quick.quicken(made, tmp_path)
    assert made._env_vars == {"MINE": "1"}
    assert "starts as ever, not quickly: spark-submit did not show which JVM it starts" in caplog.text
