# SPDX-License-Identifier: Apache-2.0
"""Why no archive is used, as far as it is seen without Java; tests/integration/test_spark_archive.py has a Java."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.errors import ConfigurationError
from shardbatch.submit import archive
from shardbatch.submit.archive import NoArchive
from shardbatch.submit.jvm import Jvm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archives"
    (made / "empty").mkdir(parents=True)
    made.chmod(0o755)
    return made


@pytest.fixture
def jvm(tmp_path: Path) -> Jvm:
    (tmp_path / "conf").mkdir()
    (tmp_path / "spark.jar").write_text("jar")
    return Jvm("/nonexistent/java", "17", f"{tmp_path}/conf/:{tmp_path}/spark.jar", settings=f"{tmp_path}/conf/")


def made(jvm: Jvm, folder: Path) -> Path:
    """A file with its note, as a maker leaves them."""
    path = archive.path_of(jvm, folder)
    path.write_bytes(b"classes")
    path.chmod(0o444)
    archive.write_note(path, jvm.identity(), 7)
    return path


def why(jvm: Jvm, folder: Path) -> str:
    with pytest.raises(NoArchive) as raised:
        archive.fitting(jvm, folder)
    return str(raised.value)


def test_none_was_made(jvm: Jvm, folder: Path) -> None:
    assert why(jvm, folder).startswith(f"no archive was made in {folder}; make one on this worker: airflow shardbatch")


def test_one_that_stands_there_is_shown_to_java_at_last(jvm: Jvm, folder: Path) -> None:
    made(jvm, folder)
    assert "Java did not say whether it takes" in why(jvm, folder)


def test_it_was_made_by_another_java(jvm: Jvm, folder: Path) -> None:
    made(jvm, folder)
    assert "made by another Java (/nonexistent/java: 17); this is /nonexistent/java: 21" in why(
        replace(jvm, version="21"), folder
    )


def test_a_file_of_the_class_path_changed(jvm: Jvm, folder: Path, tmp_path: Path) -> None:
    made(jvm, folder)
    (tmp_path / "spark.jar").write_text("another")
    assert f"the class path changed since the archive was made ({tmp_path / 'spark.jar'})" in why(jvm, folder)


def test_it_was_made_with_other_options(jvm: Jvm, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(jvm, folder)
    monkeypatch.setattr("shardbatch.submit.jvm.QUICK", ("-XX:+UseParallelGC",))
    assert "made by another version of shardbatch" in why(jvm, folder)


def test_it_was_cut_short(jvm: Jvm, folder: Path) -> None:
    path = made(jvm, folder)
    path.chmod(0o644)
    path.write_bytes(b"cla")
    assert f"the archive {path} was cut short" in why(jvm, folder)


def test_its_note_is_gone_or_cut_short(jvm: Jvm, folder: Path) -> None:
    path = made(jvm, folder)
    for text in ('{"size": 7', '{"size": 7}', "[]"):
        path.with_suffix(".json").write_text(text)
        assert "no archive was made" in why(jvm, folder)


@pytest.mark.parametrize("what", ["folder", "archive"])
def test_others_may_write_to_it(jvm: Jvm, folder: Path, what: str) -> None:
    path = made(jvm, folder)
    (folder if what == "folder" else path).chmod(0o777)
    assert "others may write to" in why(jvm, folder)


@pytest.mark.parametrize(
    "option",
    ["-javaagent:/a.jar=x", "-agentpath:/a.so", "-Xshare:off", "--patch-module=a=b", "-XX:SharedArchiveFile=/x"],
)
def test_an_option_of_the_application_stands_against_it(jvm: Jvm, folder: Path, option: str) -> None:
    made(jvm, folder)
    assert "of the application stands against it" in why(replace(jvm, options=(option,)), folder)


def test_a_folder_of_the_class_path_holds_files(jvm: Jvm, folder: Path, tmp_path: Path) -> None:
    made(jvm, folder)
    (tmp_path / "conf" / "hive-site.xml").touch()
    assert f"the folder {tmp_path / 'conf'} stands on the class path and holds files (hive-site.xml)" in why(
        jvm, folder
    )


@pytest.mark.parametrize(
    ("names", "missed"),
    [
        ((), ""),
        (("spark-env.sh.template",), ""),
        (("spark-defaults.conf",), "spark-defaults.conf"),
        (("spark-defaults.conf", "log4j2.properties.template"), "spark-defaults.conf"),
    ],
)
def test_sparks_folder_of_settings_is_replaced_by_an_empty_one(
    jvm: Jvm, folder: Path, tmp_path: Path, names: tuple[str, ...], missed: str
) -> None:
    for name in names:
        (tmp_path / "conf" / name).touch()
    moved, found = archive.without_settings(jvm, folder)
    assert moved.parts == [f"{folder}/empty/", f"{tmp_path}/spark.jar"]
    assert found == (str(tmp_path / "conf" / missed) if missed else "")


def test_all_folders_of_settings_share_an_archive(jvm: Jvm, folder: Path, tmp_path: Path) -> None:
    settings = f"{tmp_path}/absent"
    absent = replace(jvm, class_path=f"{settings}:{tmp_path}/spark.jar", settings=settings)
    assert archive.without_settings(absent, folder)[0] == archive.without_settings(jvm, folder)[0]


def test_a_folder_of_the_author_stays_on_the_class_path(jvm: Jvm, folder: Path) -> None:
    mine = replace(jvm, class_path=f"/opt/mine/:{jvm.class_path}")
    assert archive.without_settings(mine, folder)[0].parts[:2] == ["/opt/mine/", f"{folder}/empty/"]
    unknown = replace(mine, settings="")
    assert archive.without_settings(unknown, folder) == (unknown, None)


@pytest.mark.parametrize("name", ["spark-env.sh", "log4j2.properties", "hive-site.xml"])
def test_a_folder_of_settings_with_other_files_stays(jvm: Jvm, folder: Path, tmp_path: Path, name: str) -> None:
    for each in ("spark-defaults.conf", name):
        (tmp_path / "conf" / each).touch()
    assert archive.without_settings(jvm, folder) == (jvm, None)


def test_archives_stand_in_airflows_home_or_where_the_setting_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", "/srv/airflow")
    assert archive.folder_of("") == Path("/srv/airflow/shardbatch/spark")
    assert archive.folder_of("/var/archives") == Path("/var/archives")
    with pytest.raises(ConfigurationError, match="not an absolute path"):
        archive.folder_of("archives")
