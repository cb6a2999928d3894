# SPDX-License-Identifier: Apache-2.0
"""What a maker of archives refuses and removes without Java; tests/integration/test_spark_archive.py has one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.errors import ConfigurationError
from shardbatch.submit import archive, warm
from shardbatch.submit.jvm import Jvm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archives"
    made.mkdir()
    return made


@pytest.fixture
def jvm(tmp_path: Path) -> Jvm:
    (tmp_path / "spark.jar").write_text("jar")
    return Jvm("/nonexistent/java", "17", f"{tmp_path}/spark.jar")


def made(jvm: Jvm, folder: Path) -> Path:
    path = archive.path_of(jvm, folder)
    path.write_bytes(b"classes")
    archive.write_note(path, jvm.identity(), 7)
    return path


def test_only_what_no_run_can_use_any_more_is_removed(jvm: Jvm, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.jar").write_text("mine")
    current = made(jvm, folder)
    of_another_class_path = made(replace(jvm, class_path=f"{jvm.class_path}:{tmp_path}/mine.jar"), folder)
    java = tmp_path / "java"
    java.touch()
    of_another_java = made(replace(jvm, java=str(java)), folder)
    assert warm.remove_older(jvm, folder) == 0
    (tmp_path / "mine.jar").write_text("changed")
    assert warm.remove_older(jvm, folder) == 1
    assert {path.stem for path in folder.iterdir()} == {current.stem, of_another_java.stem}
    assert not of_another_class_path.exists()
    java.unlink()
    assert warm.remove_older(jvm, folder) == 1
    assert warm.remove_older(replace(jvm, version="17.0.1"), folder) == 1  # upgraded in its place
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", ["exit 3", "echo made nothing"])
def test_a_job_that_fails_or_archives_nothing_leaves_nothing_and_its_last_line_is_told(
    jvm: Jvm, folder: Path, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"ended with code [03]: (it said nothing|made nothing)"):
        warm.make(jvm, ["sh", "-c", words], {"PATH": "/usr/bin:/bin"}, folder)
    assert list(folder.iterdir()) == []


def test_an_archive_that_java_does_not_take_is_not_put_into_its_place(jvm: Jvm, folder: Path) -> None:
    writes = (
        "for word in $SPARK_SUBMIT_OPTS; do case $word in *ArchiveClassesAtExit=*) echo x > ${word#*=};; esac; done"
    )
    with pytest.raises(ConfigurationError, match="could not be made: Java did not say whether it takes"):
        warm.make(jvm, ["sh", "-c", writes], {"PATH": "/usr/bin:/bin"}, folder)
    assert list(folder.iterdir()) == []


def test_a_worker_without_spark_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did not show which JVM it starts"):
        warm.warm("spark-submit", {}, tmp_path / "archives", env={"PATH": str(tmp_path)})


def test_others_lose_the_right_to_write_to_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError):
        warm.warm("spark-submit", {}, folder, env={"PATH": str(tmp_path)})
    assert folder.stat().st_mode & 0o022 == 0
