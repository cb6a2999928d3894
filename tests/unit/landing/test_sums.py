# SPDX-License-Identifier: Apache-2.0
"""Sums and sweeping on a local folder, where the store's times can be set."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from shardbatch.core.decision import Decision
from shardbatch.core.sums import GUARD
from shardbatch.landing import layout
from shardbatch.landing.files import Files
from shardbatch.landing.markers import told
from shardbatch.landing.sums import sum_markers
from tests.support.roots import decision

FILES = Files(pafs.LocalFileSystem())


def mark(root: Path, one: Decision) -> None:
    path = root / layout.MARKERS / layout.marker_name(one.batch_id, one.decided)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(one.to_json()))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / layout.MARKERS).iterdir() if path.is_file())


def sums(root: Path) -> list[Path]:
    return sorted((root / layout.MARKERS / layout.SUMS).iterdir())


def age(path: Path, days: float) -> None:
    at = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))


def test_only_what_a_sum_older_than_the_grace_covers_goes(tmp_path: Path) -> None:
    root = str(tmp_path)
    mark(tmp_path, decision("a"))
    sum_markers(FILES, root, least=1)
    mark(tmp_path, decision("b"))
    sum_markers(FILES, root, least=1)
    first, second = sums(tmp_path)
    age(first, 7.1)
    age(second, 6.9)
    mark(tmp_path, decision("a", 2))

    sum_markers(FILES, root, least=1)

    assert names(tmp_path) == [GUARD, "a.2.json", "b.1.json"]
    assert len(sums(tmp_path)) == 3, "no sum older than the grace names the first as read"

    age(second, 8)
    mark(tmp_path, decision("c"))
    sum_markers(FILES, root, least=1)
    assert names(tmp_path) == [GUARD, "a.2.json", "c.1.json"]
    assert first not in sums(tmp_path)
    assert {b: e.decision.decided for b, e in told(FILES, root).entries.items()} == {"a": 2, "b": 1, "c": 1}


def test_the_guard_is_put_back_before_anything_more_goes(tmp_path: Path) -> None:
    root = str(tmp_path)
    for n in range(3):
        mark(tmp_path, decision(f"b-{n}"))
        sum_markers(FILES, root, least=1)
        age(sums(tmp_path)[-1], 8)
        (tmp_path / layout.MARKERS / GUARD).unlink(missing_ok=True)
    mark(tmp_path, decision("last"))

    sum_markers(FILES, root, least=1)

    assert names(tmp_path) == [GUARD, "last.1.json"]


def test_old_covered_markers_are_told_apart_without_reading_the_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(70):
        mark(tmp_path, decision(f"b-{n}"))
    for path in (tmp_path / layout.MARKERS).iterdir():
        age(path, 1)
    assert sum_markers(FILES, str(tmp_path)) == 70
    for n in range(63):
        mark(tmp_path, decision(f"c-{n}"))
    monkeypatch.setattr(Files, "contents", lambda *_: pytest.fail("the sum was read"))

    assert sum_markers(FILES, str(tmp_path)) is None

    monkeypatch.undo()
    mark(tmp_path, decision("c-63"))
    assert sum_markers(FILES, str(tmp_path)) == 64


def test_a_sum_of_a_later_version_fails_no_commit(tmp_path: Path) -> None:
    mark(tmp_path, decision("a"))
    sum_markers(FILES, str(tmp_path), least=1)
    (one,) = sums(tmp_path)
    one.write_text(one.read_text().replace('"version":2', '"version":3'))
    mark(tmp_path, decision("b"))
    assert sum_markers(FILES, str(tmp_path), least=1) is None
