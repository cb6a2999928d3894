# SPDX-License-Identifier: Apache-2.0
"""An archive that a real Java makes and takes, of the classes of a small program: the code is that of warm-spark."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.environment import spark_home
from shardbatch.errors import ConfigurationError
from shardbatch.submit import archive, warm
from shardbatch.submit.archive import NoArchive
from shardbatch.submit.jvm import Jvm
from tests.support.javas import archiving_java, other_java, small_command, small_jvm, version_of

ENV = {**os.environ, "SPARK_HOME": str(spark_home()), "SPARK_SCALA_VERSION": "2.13"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archives"
    made.mkdir(mode=0o755)
    return made


@pytest.fixture
def jvm(tmp_path: Path) -> Jvm:
    return small_jvm(archiving_java(), tmp_path)


def shared_classes(jvm: Jvm, options: str) -> int:
    """How many classes of the class path a start takes from an archive of ours."""
    env = {**ENV, "SPARK_SUBMIT_OPTS": f"{options} -Xlog:class+load"}
    done = subprocess.run(small_command(jvm), env=env, capture_output=True, text=True, check=True)
    return sum("spark.launcher" in line and "shared objects file (top)" in line for line in done.stdout.splitlines())


def test_it_is_made_under_a_name_of_its_own_and_java_takes_it(jvm: Jvm, folder: Path) -> None:
    path = warm.make(jvm, small_command(jvm), ENV, folder)
    assert sorted(held.suffix for held in folder.iterdir()) == [".jsa", ".json"]
    assert archive.fitting(jvm, folder) == path
    assert shared_classes(jvm, f"-XX:SharedArchiveFile={path}") > 0
    assert shared_classes(jvm, "") == 0


def test_java_is_asked_about_memory_and_collector_of_the_application(jvm: Jvm, folder: Path) -> None:
    warm.make(jvm, small_command(jvm), ENV, folder)
    assert archive.fitting(replace(jvm, options=("-XX:+UseG1GC", "-Xmx2g")), folder)
    assert archive.fitting(replace(jvm, options=("-XX:TieredStopAtLevel=4",)), folder)  # a long job keeps the archive
    with pytest.raises(NoArchive, match="Java does not take"):
        archive.fitting(replace(jvm, options=("-Xmx64g",)), folder)


def test_one_that_was_cut_short_is_noticed_before_java_ends_with_a_fatal_error(jvm: Jvm, folder: Path) -> None:
    path = warm.make(jvm, small_command(jvm), ENV, folder)
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(NoArchive, match="cut short"):
        archive.fitting(jvm, folder)


def test_one_of_another_java_is_noticed_by_its_name_and_by_java(jvm: Jvm, folder: Path) -> None:
    path = warm.make(jvm, small_command(jvm), ENV, folder)
    java = other_java(jvm.java)
    other = replace(jvm, java=java, version=version_of(java))
    with pytest.raises(NoArchive, match="made by another Java"):
        archive.fitting(other, folder)
    with pytest.raises(NoArchive, match="Java does not take"):
        archive.require_java_takes(other, path)


def test_a_changed_class_path_is_noticed_and_its_archive_removed_by_the_next_maker(jvm: Jvm, folder: Path) -> None:
    old = warm.make(jvm, small_command(jvm), ENV, folder)
    jar = Path(jvm.parts[1])
    os.utime(jar, (1_700_000_000, 1_700_000_000))
    with pytest.raises(NoArchive, match="class path changed"):
        archive.fitting(jvm, folder)
    with pytest.raises(NoArchive, match="Java does not take"):
        archive.require_java_takes(jvm, old)
    (folder / "killed.unfinished").touch()
    new = warm.make(jvm, small_command(jvm), ENV, folder)
    assert warm.remove_older(jvm, folder) == 1
    assert [path for path in folder.iterdir() if path.suffix != ".json"] == [new]
    assert archive.fitting(jvm, folder) == new


def test_a_folder_that_is_not_empty_fails_the_maker_and_leaves_nothing(jvm: Jvm, folder: Path) -> None:
    (Path(jvm.parts[0]) / "hive-site.xml").touch()
    with pytest.raises(ConfigurationError, match="ended with code 1"):
        warm.make(jvm, small_command(jvm), ENV, folder)
    assert list(folder.iterdir()) == []
