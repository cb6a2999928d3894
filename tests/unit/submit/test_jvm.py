# SPDX-License-Identifier: Apache-2.0
"""What is read from the command that Spark shows, and what an archive depends on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.submit.jvm import QUICK, Jvm, JvmUnknown, joined, key_of, look, parse

SHOWN = (
    "/usr/lib/jvm/17/bin/java -cp /etc/spark/:/opt/my spark/jars/* -Dmine=1 -version -Xmx1g "
    "-XX:+UseG1GC org.apache.spark.deploy.SparkSubmit --master local[2] --version"
)


@pytest.fixture
def jvm(tmp_path: Path) -> Jvm:
    (tmp_path / "conf").mkdir()
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / "jars" / name).write_text(name)
    (tmp_path / "first.jar").write_text("first")
    return Jvm("/java", "17", f"{tmp_path}/conf/:{tmp_path}/first.jar:{tmp_path}/jars/*")


def test_java_class_path_and_options_are_read_from_what_spark_shows() -> None:
    found = parse(SHOWN, "17.0.15")
    assert (found.java, found.version) == ("/usr/lib/jvm/17/bin/java", "17.0.15")
    assert found.parts == ["/etc/spark/", "/opt/my spark/jars/*"]
    assert found.options == ("-Dmine=1", "-Xmx1g", "-XX:+UseG1GC")


@pytest.mark.parametrize(
    ("class_path", "told", "found"),
    [
        ("/opt/mine/:/opt/spark/conf/:/opt/spark/jars/*", "", "/opt/spark/conf/"),
        ("/opt/spark/conf:/opt/spark/jars/*", "", "/opt/spark/conf"),
        ("/etc/spark/:/opt/spark/jars/*", "/etc/spark", "/etc/spark/"),
        ("/opt/mine/:/opt/spark/jars/*", "", ""),
        ("/opt/mine/:/opt/spark/jars/*", "/etc/spark", ""),
    ],
)
def test_the_folder_of_settings_is_told_from_folders_of_the_author(class_path: str, told: str, found: str) -> None:
    shown = f"java -cp {class_path} -Xmx1g org.apache.spark.deploy.SparkSubmit"
    assert parse(shown, "17", told).settings == found


def test_options_before_the_class_path_are_passed_over() -> None:
    assert parse("java -Dx=1 -cp a.jar -Xmx1g org.apache.spark.deploy.SparkSubmit", "17").java == "java"


def test_another_command_is_not_guessed_at() -> None:
    with pytest.raises(JvmUnknown, match="not known"):
        parse("java -jar spark.jar", "17")


@pytest.mark.parametrize(
    ("option", "left"),
    [
        ("-Dmine=1", list(QUICK)),
        ("-XX:+UseG1GC", [QUICK[0]]),
        ("-XX:+UseZGC", [QUICK[0]]),
        ("-XX:-TieredCompilation", [QUICK[1]]),
        ("-XX:TieredStopAtLevel=4", [QUICK[1]]),
        ("-XX:+UseStringDeduplication", list(QUICK)),
    ],
)
def test_an_option_of_ours_is_left_out_where_the_author_chose(jvm: Jvm, option: str, left: list[str]) -> None:
    assert replace(jvm, options=(option,)).flags() == left


def test_a_folder_of_jars_stands_for_its_jars(jvm: Jvm, tmp_path: Path) -> None:
    found = [Path(entry.path).relative_to(tmp_path).as_posix() for entry in jvm.entries()]
    assert found == ["conf", "first.jar", "jars/a.jar", "jars/b.jar"]
    assert [entry.size for entry in jvm.entries()] == [0, 5, 5, 5]


def test_the_key_changes_with_all_that_an_archive_depends_on(jvm: Jvm, tmp_path: Path) -> None:
    def key(one: Jvm) -> str:
        return key_of(one.identity())

    keys = {key(jvm), key(replace(jvm, version="21")), key(replace(jvm, java="/other"))}
    (tmp_path / "jars" / "c.jar").write_text("c")
    keys.add(key(jvm))
    (tmp_path / "first.jar").write_text("longer")
    keys.add(key(jvm))
    os.utime(tmp_path / "first.jar", (1, 1))
    keys.add(key(jvm))
    assert len(keys) == 6
    assert key(jvm) == key(replace(jvm, options=("-Dmine=1",)))


def test_a_folder_with_files_on_the_class_path_is_seen(jvm: Jvm, tmp_path: Path) -> None:
    assert jvm.full_folders == []
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert jvm.full_folders == [tmp_path / "conf"]


def test_an_option_with_a_space_stays_one_option_and_those_that_were_there_come_last() -> None:
    assert joined(["-Xshare:on", "-XX:SharedArchiveFile=/a b/c.jsa"], "-Dx='1 2'") == (
        "-Xshare:on \"-XX:SharedArchiveFile=/a b/c.jsa\" -Dx='1 2'"
    )
    assert joined(["-Xint"], "") == "-Xint"


@pytest.mark.parametrize("program", ["true", "false", "/nonexistent/spark-submit"])
def test_a_program_that_shows_no_jvm_is_not_guessed_at(program: str) -> None:
    with pytest.raises(JvmUnknown, match="did not show which JVM"):
        look([program], os.environ)
