# SPDX-License-Identifier: Apache-2.0
"""The wheel as a user gets it: what is inside, what it declares, and that Airflow finds it."""

from __future__ import annotations

import configparser
import email
import email.message
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("airflow_provider_shardbatch-*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def test_the_wheel_has_both_entry_points_and_they_load(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/entry_points.txt")]
    parser = configparser.ConfigParser()
    parser.read_string(wheel.read(name).decode())
    found = {group: dict(parser[group]) for group in parser.sections()}
    assert found == {
        "apache_airflow_provider": {"provider_info": "shardbatch.get_provider_info:get_provider_info"},
        "airflow.plugins": {"shardbatch": "shardbatch_plugin:ShardbatchPlugin"},
    }
    wheel.extractall(tmp_path)
    program = (
        "import importlib, sys; from pathlib import Path\n"
        "for each in sys.argv[2:]:\n"
        "    module, name = each.split(':'); loaded = importlib.import_module(module)\n"
        "    assert Path(loaded.__file__).is_relative_to(sys.argv[1]), loaded.__file__\n"
        "    assert callable(getattr(loaded, name))\n"
    )
    targets = [target for group in found.values() for target in group.values()]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "AIRFLOW_HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", program, str(tmp_path), *targets], env=env, check=True)


def test_the_wheel_has_the_extras(metadata: email.message.Message) -> None:
    assert {"aws", "spark", "local", "postgres", "mysql", "sqlite"} <= set(metadata.get_all("Provides-Extra", []))


def test_spark_and_its_client_have_one_version(metadata: email.message.Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    pins = {each.partition(";")[0].strip() for each in required if each.startswith("pyspark")}
    assert {each.partition("==")[0] for each in pins} == {"pyspark", "pyspark-client"}
    # They own the same files: unequal versions break each other.
    assert len({each.partition("==")[2] for each in pins}) == 1, pins


def test_a_cluster_of_python_3_9_gets_no_airflow(metadata: email.message.Message) -> None:
    assert metadata["Requires-Python"] == ">=3.9"
    (airflow,) = [each for each in metadata.get_all("Requires-Dist", []) if each.startswith("apache-airflow>")]
    assert "python_version >= '3.11'" in airflow


def test_the_wheel_is_typed_and_licensed_and_has_no_tests(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "shardbatch/py.typed" in names
    assert any(each.endswith("licenses/LICENSE") for each in names)
    assert any(each.endswith("licenses/NOTICE") for each in names)
    tops = {each.partition("/")[0] for each in names}
    assert {each for each in tops if not each.endswith(".dist-info")} == {"shardbatch", "shardbatch_plugin"}


def test_the_wheel_has_every_file_of_the_streams_page(wheel: zipfile.ZipFile) -> None:
    folder = ROOT / "plugins" / "shardbatch_plugin"
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.suffix for path in files} == {".py", ".js", ".css"}
    assert {str(path.relative_to(folder.parent)) for path in files} <= set(wheel.namelist())


@pytest.mark.airflow
@pytest.mark.parametrize("command", ["providers list", "plugins"])
def test_airflow_lists_the_provider_and_its_plugin(command: str, tmp_path: Path) -> None:
    airflow = Path(sys.executable).with_name("airflow")
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    words = [airflow, *command.split(), "-o", "plain"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "shardbatch" in done.stdout
