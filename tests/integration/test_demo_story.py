# SPDX-License-Identifier: Apache-2.0
"""How the demo ends: by itself, with Airflow stopped before the check, or left up; and what its exit code says."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.demo import __main__ as program
from scripts.demo import story
from scripts.demo.console import Console, DemoError


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is done at the end, in order; the runs themselves are left out."""
    done: list[str] = []

    def step(name: str, answer: bool | None = None) -> object:
        def note(*_: object) -> bool | None:
            done.append(name)
            return answer

        return note

    for name in ("_start", "_drain", "_watch_until"):
        monkeypatch.setattr(story._Story, name, lambda *_: None)
    monkeypatch.setattr(story._Story, "_pause", step("pause"))
    monkeypatch.setattr(story._Story, "_stay", step("stay"))
    monkeypatch.setattr(story.Report, "show", step("report", True))
    airflow = SimpleNamespace(client=None, stop=step("stop"))
    stream = SimpleNamespace(endpoint_url="", stop=SimpleNamespace(set=step("stop the stream")))
    spark = SimpleNamespace(url="")
    folder = SimpleNamespace(path=tmp_path, leases=tmp_path / "leases.db")
    monkeypatch.setattr(story, "DemoFolder", lambda: context(folder, done, "remove"))
    monkeypatch.setattr(story, "DemoStream", lambda *_: context(stream, done, "close"))
    monkeypatch.setattr(story.deployment, "spark", lambda *_: context(spark, done, "end Spark"))
    monkeypatch.setattr(story.deployment, "airflow", lambda *_: airflow)
    return done


class context:
    def __init__(self, made: object, done: list[str], word: str) -> None:
        self.made, self.done, self.word = made, done, word

    def __enter__(self) -> object:
        return self.made

    def __exit__(self, *_: object) -> None:
        self.done.append(self.word)


def test_airflow_is_stopped_before_the_check_and_everything_at_the_end(ended: list[str]) -> None:
    assert story.tell(story.Wishes(60, ui=False, port=None), Console())
    assert ended == ["stop", "report", "stop the stream", "stop", "end Spark", "close", "remove"]


def test_what_stays_up_is_paused_before_the_check_and_stopped_at_the_end(ended: list[str]) -> None:
    assert story.tell(story.Wishes(60, ui=True, port=None), Console())
    assert ended == ["pause", "report", "stay", "stop the stream", "stop", "end Spark", "close", "remove"]


@pytest.mark.parametrize(("equal", "code"), [(True, 0), (False, 1), (None, 1)])
def test_exit_code_says_whether_the_output_equals_the_source(
    monkeypatch: pytest.MonkeyPatch, equal: bool | None, code: int
) -> None:
    def tell(*_: object) -> bool:
        if equal is None:
            raise DemoError("it cannot be run")
        return equal

    monkeypatch.setattr(program, "SIGNALS", ())  # those of the test process stay as they are
    monkeypatch.setattr(program, "tell", tell)
    monkeypatch.setattr(sys, "argv", ["demo", "--flights", "60"])
    assert program.main() == code
