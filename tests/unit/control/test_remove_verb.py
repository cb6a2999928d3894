# SPDX-License-Identifier: Apache-2.0
"""The verb that removes an application has its switches as text or as such, and never acts by itself."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.control.remove import remove
from shardbatch.control.remove_verb import REMOVE
from shardbatch.errors import ConfigurationError


def chosen(**given: Any) -> dict[str, Any]:
    return REMOVE.chosen(lambda argument: given.get(argument.name, argument.default))


def test_its_switches_are_off_unless_they_are_given() -> None:
    assert chosen() == {"discard": False, "free_name": False}
    assert chosen(discard="true", free_name="True") == {"discard": True, "free_name": True}
    with pytest.raises(ConfigurationError):
        chosen(discard="perhaps")


def test_it_asks_for_owners_and_nothing_forces_it() -> None:
    assert REMOVE.removes
    assert REMOVE.staging
    assert not REMOVE.asks
    assert REMOVE.use_case is not None
    assert REMOVE.use_case() is remove
