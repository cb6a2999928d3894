# SPDX-License-Identifier: Apache-2.0
"""docker-compose.yml and the Dockerfile name nothing that is not there. (No Docker engine ran them: see the docs.)"""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.environment import spark_home

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::-([^}]*))?\}")


def examples() -> dict[str, str]:
    lines = (ROOT / "docker" / ".env.example").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return dict(line.partition(";")[0].strip().split("==") for line in lines if "==" in line)


def services() -> dict[str, dict[str, Any]]:
    filled = VARIABLE.sub(lambda found: found.group(2) or "", COMPOSE)
    found: dict[str, dict[str, Any]] = yaml.safe_load(filled)["services"]
    return found


def mounts() -> list[str]:
    return [mount for service in services().values() for mount in service.get("volumes", [])]


def test_every_variable_has_the_default_that_the_example_file_shows() -> None:
    used = dict(VARIABLE.findall(COMPOSE))
    assert used == examples()
    assert "$" not in VARIABLE.sub("", COMPOSE), "a variable that this test does not see"


def test_every_mounted_path_and_named_volume_exists() -> None:
    volumes = set(yaml.safe_load(COMPOSE)["volumes"])
    for mount in mounts():
        source = mount.split(":")[0]
        assert (ROOT / source).exists() if source.startswith(".") else source in volumes, mount


def test_every_path_that_the_image_copies_exists() -> None:
    build = services()["scheduler"]["build"]
    assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    copied = [word for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]]
    paths = [word for word in copied if not word.startswith("--")]
    assert "provider" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_image_holds_what_the_wheel_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = [project["project"]["readme"], *project["project"]["license-files"]]
    named += [path.partition("/")[0] for path in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    copied = re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
    assert {name for name in named if not any(name in line.split() for line in copied)} == set()
    extras = re.search(r'"\.\[([a-z,]+)\]"', DOCKERFILE)
    assert extras is not None
    assert set(extras.group(1).split(",")) <= set(project["project"]["optional-dependencies"])


def test_images_have_the_versions_of_the_constraints() -> None:
    example = examples()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    airflow, _, python = example["AIRFLOW_TAG"].partition("-python")
    assert airflow == pins()["apache-airflow"]
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    assert f"ARG AIRFLOW_TAG={example['AIRFLOW_TAG']}\n" in DOCKERFILE
    ours = {service["image"] for service in services().values() if "build" in service}
    assert ours == {f"shardbatch-local:{project['version']}"}
    for service in services().values():
        tag = service["image"].partition(":")[2]
        assert re.match(r"\d+(\.\d+)+", tag), f"{service['image']} has no explicit version"


def test_packages_that_the_image_adds_are_pinned() -> None:
    (line,) = re.findall(r"^RUN pip install (.+)$", DOCKERFILE, re.MULTILINE)
    added = [word for word in line.split() if re.fullmatch(r"[a-z][a-z0-9-]+", word)]
    assert added
    assert [name for name in added if name not in pins()] == []


def test_ports_are_bound_to_loopback() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_that_another_waits_for_exists_and_can_be_waited_for() -> None:
    found = services()
    for service in found.values():
        for name, wait in service.get("depends_on", {}).items():
            assert name in found
            assert wait["condition"] != "service_healthy" or "healthcheck" in found[name], name
        mode = service.get("network_mode", "service:scheduler")
        assert mode.partition(":")[2] in found


def test_every_module_and_script_that_a_service_runs_exists() -> None:
    for name, service in services().items():
        command = service.get("command", [])
        if "-m" in command:
            assert importlib.util.find_spec(command[command.index("-m") + 1]) is not None, name
        for word in command:
            if word.startswith("/opt/shardbatch/"):
                assert (ROOT / word.removeprefix("/opt/shardbatch/")).is_file(), name


def test_the_example_dag_finds_its_connections_and_its_folder() -> None:
    environment = services()["scheduler"]["environment"]
    dag = (ROOT / "dags" / "flights.py").read_text("utf-8")
    wanted = set(re.findall(r'conn_id="(\w+)"', dag)) | {"spark_default"}
    for conn_id in wanted:
        assert json.loads(environment[f"AIRFLOW_CONN_{conn_id.upper()}"])["conn_type"]
    assert {name for name in re.findall(r'environ\.get\("(\w+)"', dag) if name not in environment} == set()
    folder = environment["FLIGHTS_FOLDER"]
    assert f"{folder}/staging" in DOCKERFILE, "a staging folder has to be there before the first run"
    shared = [name for name, each in services().items() if any(m.endswith(":/data") for m in each.get("volumes", []))]
    assert {"scheduler", "spark-worker"} <= set(shared)


def test_a_dag_on_spark_connect_finds_its_server_and_the_server_its_files() -> None:
    connection = json.loads(services()["scheduler"]["environment"]["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"])
    assert connection["conn_type"] == "spark_connect"
    server = services()[connection["host"]]
    assert f"spark.connect.grpc.binding.port={connection['port']}" in server["command"]
    assert "ports" not in server
    assert any(mount.endswith(":/data") for mount in server["volumes"])
    main_class = server["command"][server["command"].index("--class") + 1]
    (jar,) = (spark_home() / "jars").glob("spark-connect_*.jar")
    assert f"{main_class.replace('.', '/')}.class" in zipfile.ZipFile(jar).namelist()


@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "JWT_SECRET"])
def test_secrets_can_be_set_and_are_named_once_in_the_example(name: str) -> None:
    assert name in examples()
    assert f"${{{name}:-" in COMPOSE
