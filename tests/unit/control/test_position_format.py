# SPDX-License-Identifier: Apache-2.0
"""The text of positions is read whatever way it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardbatch.control.position_format import loaded
from shardbatch.errors import InvalidToken

VALUE: dict[str, Any] = {"active": ["A"], "shards": [{"shard_id": "A", "parent": None}]}


@pytest.mark.parametrize("positions", [VALUE, json.dumps(VALUE), json.dumps(VALUE, indent=2), str(VALUE), f" {VALUE}"])
def test_a_dictionary_its_json_and_what_a_template_makes_of_it_are_the_same(positions: Any) -> None:
    assert loaded(positions) == VALUE


@pytest.mark.parametrize("text", ["", "{", "A>10", "{'a': open('x')}", "[" * 9999])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken, match="not JSON"):
        loaded(text)
