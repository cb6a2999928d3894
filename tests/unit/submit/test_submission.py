# SPDX-License-Identifier: Apache-2.0
"""What an application is told, and what must be there to start one: the Spark provider's real hook, no Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection

from shardbatch.core.handover import WorkOrder
from shardbatch.errors import ConfigurationError, ConnectionUnknown
from shardbatch.submit import applications

ORDER = WorkOrder(
    "s3://lake/staging/etl/orders/batches/b1/manifest.json", 3, "sha256:00", "orders.transform", "try-1", "b1"
)
MASTERS: dict[str, dict[str, Any]] = {
    "local": {"host": "local[2]"},
    "client": {"host": "spark://master", "port": 7077},
    "standalone": {"host": "spark://master", "port": 7077, "extra": {"deploy-mode": "cluster"}},
    "yarn": {"host": "yarn", "extra": {"deploy-mode": "cluster"}},
}


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(mode: str, **arguments: Any) -> SparkSubmitHook:
        connection = json.dumps({"conn_type": "spark", **MASTERS[mode]})
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
        return SparkSubmitHook(**{"name": "orders", **arguments})

    return make


def words(hook: SparkSubmitHook) -> list[str]:
    applications.equip(hook, ORDER)
    return hook._build_spark_submit_command("job.py")


@pytest.mark.parametrize("mode", MASTERS)
def test_the_configuration_names_the_batch_in_every_mode(hook: Any, mode: str) -> None:
    told = words(hook(mode, conf={"spark.ui.enabled": "false"}))
    for value in (
        "spark.ui.enabled=false",
        f"spark.shardbatch.manifest={ORDER.manifest}",
        "spark.shardbatch.attempt=3",
        "spark.shardbatch.digest=sha256:00",
        "spark.shardbatch.work=orders.transform",
        "spark.shardbatch.token=try-1",
        "spark.shardbatch.batch=b1",
    ):
        assert told[told.index(value) - 1] == "--conf"


@pytest.mark.parametrize("mode", MASTERS)
def test_the_name_carries_the_batch_behind_the_authors_own(hook: Any, mode: str) -> None:
    told = words(hook(mode))
    assert told[told.index("--name") + 1] == "orders shardbatch-b1"


@pytest.mark.parametrize("mode", ["local", "client"])
def test_the_environment_names_the_batch_where_the_process_has_one(hook: Any, mode: str) -> None:
    made = hook(mode, env_vars={"MINE": "1"})
    words(made)
    assert made._env["SHARDBATCH_MANIFEST"] == ORDER.manifest
    assert (made._env["SHARDBATCH_ATTEMPT"], made._env["SHARDBATCH_WORK"]) == ("3", "orders.transform")
    assert (made._env["SHARDBATCH_TOKEN"], made._env["MINE"]) == ("try-1", "1")


def test_standalone_cluster_mode_has_no_environment_and_is_not_refused_for_it(hook: Any) -> None:
    assert not any("SHARDBATCH_" in word for word in words(hook("standalone")))


def test_yarn_gets_a_tag_beside_the_authors_own_and_the_environment_as_configuration(hook: Any) -> None:
    told = words(hook("yarn", conf={"spark.yarn.tags": "mine"}))
    assert "spark.yarn.tags=mine,shardbatch-b1" in told
    assert "spark.yarn.appMasterEnv.SHARDBATCH_ATTEMPT=3" in told


def test_the_authors_own_configuration_is_not_changed(hook: Any) -> None:
    conf = {"spark.ui.enabled": "false"}
    words(hook("local", conf=conf))
    assert conf == {"spark.ui.enabled": "false"}


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({}, None),
        ({"_driver_id": "driver-1"}, "standalone:driver-1"),
        ({"_yarn_application_id": "application_1_2"}, "yarn:application_1_2"),
    ],
)
def test_an_application_is_called_what_its_cluster_calls_it(hook: Any, attributes: dict[str, str], name: str) -> None:
    made = hook("local")
    for key, value in attributes.items():
        setattr(made, key, value)
    assert applications.application_reference(made) == name


def test_a_spark_connection_that_is_missing_is_named_and_never_becomes_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_MISSING", raising=False)
    with pytest.raises(ConfigurationError, match="no Spark connection 'spark_missing'") as caught:
        applications.require_connection("spark_missing")
    assert "conn_id=" in caught.value.remedy
    assert caught.value.retryable  # what keeps connections may be away for a moment


def test_a_connection_whose_type_was_not_known_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", '{"conn_type": "generic", "host": "yarn"}')
    with pytest.raises(ConfigurationError, match=r"'cluster' is of type 'generic'.*\[spark\]"):
        applications.require_connection("cluster")


def test_a_connection_that_the_stock_hook_does_not_find_again_never_becomes_yarn(hook: Any) -> None:
    there, yarn = (Connection(conn_id="c", conn_type="spark", host=host) for host in ("local", "yarn"))
    lost = hook("yarn")
    applications.require_master(lost, yarn)
    applications.require_master(hook("local"), there)
    with pytest.raises(ConnectionUnknown, match="'c' was there"):
        applications.require_master(lost, there)


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with nothing on it."""
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_a_missing_spark_submit_is_named_before_anything_is_submitted(hook: Any, bare: Path) -> None:
    program(bare, "java")
    with pytest.raises(ConfigurationError, match="spark-submit was not found"):
        applications.require_programs(hook("local"))


def test_a_missing_java_is_named_before_anything_is_submitted(hook: Any, bare: Path) -> None:
    program(bare, "spark-submit")
    with pytest.raises(ConfigurationError, match="needs Java") as caught:
        applications.require_programs(hook("local"))
    assert "JAVA_HOME" in caught.value.remedy


def test_a_java_home_without_java_is_no_java_as_it_is_for_spark(hook: Any, bare: Path, tmp_path: Path) -> None:
    program(bare, "spark-submit")
    program(bare, "java")
    with pytest.raises(ConfigurationError, match="needs Java"):
        applications.require_programs(hook("local", env_vars={"JAVA_HOME": str(tmp_path / "nothing")}))


def test_programs_are_looked_for_as_the_process_would(hook: Any, bare: Path, tmp_path: Path) -> None:
    program(tmp_path / "spark", "spark-submit")
    program(tmp_path / "jdk" / "bin", "java")
    env_vars = {"PATH": f"{tmp_path / 'spark'}{os.pathsep}{bare}", "JAVA_HOME": str(tmp_path / "jdk")}
    applications.require_programs(hook("local", env_vars=env_vars))


def test_a_java_that_only_sparks_own_script_knows_is_believed(hook: Any, bare: Path, tmp_path: Path) -> None:
    program(bare, "spark-submit")
    program(tmp_path / "conf", "spark-env.sh")
    applications.require_programs(hook("local", env_vars={"SPARK_CONF_DIR": str(tmp_path / "conf")}))


def test_an_application_that_cannot_be_reached_is_left_and_said_to_be_fenced(hook: Any) -> None:
    for name in ("yarn:application_1_2", "standalone:driver-1", "k8s:ns:pod", "client:elsewhere:1", "task:here:1"):
        for reach in (hook("local"), None):
            ending = applications.end_application(name, "b1", reach)
            assert "never read" in ending.said
            assert not ending.over
