# SPDX-License-Identifier: Apache-2.0
"""The set-up mends what an interruption, a move or a removed Python left, and sees when pins change."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scripts import install


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of its own for `install`, made without installing anything."""
    venv = tmp_path / ".venv"
    monkeypatch.setattr(install, "VENV", venv)
    monkeypatch.setattr(install, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(install, "STAMP", venv / ".stamp")
    monkeypatch.setattr(install, "UNFINISHED", venv / ".unfinished")
    return venv


def test_an_environment_is_finished_only_with_its_stamp_and_only_where_it_was_made(folder: Path) -> None:
    install.make()
    assert install.read_stamp() == {}
    assert install.python_of_venv() == "{}.{}".format(*sys.version_info[:2])
    install.write_stamp(install.stamp())
    assert install.read_stamp() == install.stamp()
    install.start_anew_if_broken()
    assert folder.exists()
    install.STAMP.write_text(json.dumps({**install.stamp(), "folder": "/where/it/was"}), "utf-8")
    install.start_anew_if_broken()
    assert not folder.exists()


def test_a_half_made_environment_is_made_anew(folder: Path) -> None:
    folder.mkdir()
    (folder / ".unfinished").touch()
    (folder / "half").touch()
    install.start_anew_if_broken()
    assert not folder.exists()


def test_an_environment_whose_python_is_gone_is_made_anew(folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to("/no/such/python")
    install.start_anew_if_broken()
    assert not folder.exists()


def test_a_change_of_the_pins_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = install.stamp()
    changed = tmp_path / "constraints.txt"
    changed.write_bytes(install.CONSTRAINTS.read_bytes() + b"another==1.0\n")
    monkeypatch.setattr(install, "CONSTRAINTS", changed)
    assert install.stamp()["inputs"] != before["inputs"]


def test_a_damaged_stamp_counts_as_none(folder: Path) -> None:
    folder.mkdir()
    (folder / ".stamp").write_text("{", "utf-8")
    assert install.read_stamp() == {}
    (folder / ".stamp").write_text(json.dumps([1]), "utf-8")
    assert install.read_stamp() == {}
