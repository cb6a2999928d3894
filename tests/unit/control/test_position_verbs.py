# SPDX-License-Identifier: Apache-2.0
"""What a person says to import positions is read before anything is asked."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.position_verbs import IMPORT_POSITIONS, content_of
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.position_formats import PositionsFormat
from shardbatch.errors import ConfigurationError


def chosen(**given: Any) -> dict[str, Any]:
    return IMPORT_POSITIONS.chosen(lambda argument: given.get(argument.parameter))


def test_the_file_is_read_or_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token.json"
    file.write_text('{"ä": 1}', "utf-8")
    assert content_of(str(file)) == '{"ä": 1}'
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}"))
    assert content_of("-") == "{}"
    file.write_bytes(b"\xff\xfe")
    for path in (file, tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            content_of(str(path))


def test_what_was_chosen_becomes_what_the_use_case_takes() -> None:
    found = chosen(format="bloop", positions="{}", start="trim_horizon")
    assert found == {"form": PositionsFormat.BLOOP, "positions": "{}", "start": TRIM_HORIZON}
    assert chosen(format=PositionsFormat.BLOOP, positions={})["start"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"format": "xml"}, "Choose 'bloop' or 'json'"),
        ({"format": "bloop", "start": "latest"}, "not a fixed place"),
        ({"format": "bloop", "start": "2026-11-28T00:00:00"}, "no time zone"),
    ],
)
def test_what_cannot_be_read_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        chosen(positions="{}", **given)
