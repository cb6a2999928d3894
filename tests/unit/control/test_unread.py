# SPDX-License-Identifier: Apache-2.0
"""Whether a shard has something to read: what answers show, and what refusals do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.unread import MOST_PAGES, MOST_SECONDS, first_unread
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position, after
from shardbatch.core.slice import Oddities
from shardbatch.errors import SourceError
from tests.support.scripted import ScriptedStream, of_lag

PLACE = after("5")


class Pages(ScriptedStream):
    """Each shard gives out pages of its own; each takes a second."""

    def __init__(self, **pages: list[dict[str, Any]]) -> None:
        super().__init__()
        self.pages, self.seconds, self.closed = pages, 0.0, 0

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        try:
            for page in self.pages[shard_id]:
                self.seconds += page.get("seconds", 0.0)
                told = {name: value for name, value in page.items() if name != "seconds"}
                yield replace(of_lag(Page(self._batch([]), position), page.get("lag_ms")), **told)
        finally:
            self.closed += 1


def first(stream: Pages) -> str | None:
    clock = Clock(now_ms=lambda: 0, monotonic=lambda: stream.seconds, sleep=lambda seconds: None)
    return first_unread(stream, dict.fromkeys(stream.pages, PLACE), clock)


BEHIND, TIP, REFUSED = {"lag_ms": 9}, {"lag_ms": 0}, {"silent": True}


@pytest.mark.parametrize(
    ("pages", "unread"),
    [
        ([TIP], False),
        ([{**TIP, "checkpoint_gone": True}], False),
        ([{"ended": True}], True),
        ([{"next": after("6"), "oddities": Oddities(dropped=1)}], True),
        ([{**BEHIND, "next": after("6", instant_ms=9)}, TIP], False),
        ([*[BEHIND] * (MOST_PAGES - 1), TIP], False),
        ([BEHIND] * (MOST_PAGES + 1), True),
        ([{**BEHIND, "seconds": MOST_SECONDS + 1}, TIP], True),
        ([REFUSED, TIP], False),
        ([BEHIND, *[REFUSED] * MOST_PAGES], True),
    ],
    ids=[
        "at its tip", "its last record has expired", "ended", "records were dropped", "older than the instant",
        "a tip behind many answers", "many answers", "slow answers", "one refusal", "refused after an answer",
    ],
)  # fmt: skip
def test_what_answers_show(pages: list[dict[str, Any]], unread: bool) -> None:
    stream = Pages(s=pages)
    assert first(stream) == ("s" if unread else None)
    assert stream.closed == 1


@pytest.mark.parametrize("pages", [[REFUSED] * (MOST_PAGES + 5), []], ids=["refused", "no answer"])
def test_refusals_do_not_show_that_there_is_nothing_and_hide_no_other_shard(pages: list[dict[str, Any]]) -> None:
    with pytest.raises(SourceError, match="s could not be looked at") as caught:
        first(Pages(s=pages, other=[TIP]))
    assert caught.value.retryable
    assert first(Pages(s=pages, other=[{"ended": True}])) == "other"


def test_of_no_shard_nothing_is_unread() -> None:
    assert first(Pages()) is None
