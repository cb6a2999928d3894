# SPDX-License-Identifier: Apache-2.0
"""The copy of the watermark in an asset's event and state store."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.core.watermark import Watermark
from shardbatch.tasks.mirror import KEY, copy, told

T0 = 1_800_000_000_000


class Kept(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


def copied(before: Any, mark: Watermark) -> Any:
    kept = Kept() if before is None else Kept({KEY: before})
    copy(kept, mark)
    return kept[KEY]


def test_an_event_tells_the_instant_as_text_and_as_a_number() -> None:
    assert told(Watermark(T0 + 5)) == {
        "committed_up_to": "2027-01-15T08:00:00.005+00:00",
        "committed_up_to_ms": T0 + 5,
    }
    for unknown in (None, Watermark(None)):
        assert told(unknown) == {"committed_up_to": None, "committed_up_to_ms": None}


def test_within_one_history_the_highest_stays() -> None:
    assert copied(None, Watermark(T0, resets=1)) == [1, T0]
    assert copied([1, T0], Watermark(T0 + 1, resets=1)) == [1, T0 + 1]
    assert copied([1, T0], Watermark(T0 - 1, resets=1)) == [1, T0]
    assert copied([1, T0], Watermark(None, resets=1)) == [1, T0]
    assert copied([1, None], Watermark(T0, resets=1)) == [1, T0]


@pytest.mark.parametrize("resets", [0, 2])
def test_another_history_begins_anew_however_far_the_last_one_was(resets: int) -> None:
    """After a reset, and where the application was removed and made again."""
    assert copied([1, T0], Watermark(T0 - 9, resets=resets)) == [resets, T0 - 9]
    assert copied([1, T0], Watermark(None, resets=resets)) == [resets, None]


@pytest.mark.parametrize("strange", ["text", [1], [1, "text"], {"ms": 1}, [1, T0, 3]])
def test_what_somebody_else_wrote_there_is_written_over(strange: Any) -> None:
    assert copied(strange, Watermark(T0, resets=1)) == [1, T0]
