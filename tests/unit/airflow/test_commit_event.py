# SPDX-License-Identifier: Apache-2.0
"""One asset event for each newly committed batch, whichever try of which clearing makes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from shardbatch.consumer import Committed
from shardbatch.operators.commit import _Event, extra_of


class Tries:
    """Tries of one commit task over the state store that Airflow keeps for them."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def announced(self, clearing: int, batch_id: str = "b1") -> _Event:
        store = SimpleNamespace(get=self.kept.get, set=self.kept.__setitem__)
        context: Any = {"task_state_store": store, "dag_run": SimpleNamespace(clear_number=clearing)}
        event = _Event(context, batch_id)
        event.announce()
        return event


def test_the_first_try_misses_no_event() -> None:
    assert not Tries().announced(0).may_be_missing


def test_after_a_try_that_died_the_event_may_be_missing() -> None:
    tries = Tries()
    tries.announced(0)
    assert tries.announced(0).may_be_missing
    assert tries.announced(1).may_be_missing


def test_after_a_try_that_died_at_its_very_end_the_event_may_be_missing() -> None:
    tries = Tries()
    tries.announced(0).done()
    assert tries.announced(0).may_be_missing


def test_a_replay_makes_none_however_often_its_commit_fails() -> None:
    tries = Tries()
    tries.announced(0).done()
    for clearing in (1, 1, 2):
        assert not tries.announced(clearing).may_be_missing
    event = tries.announced(2)
    event.done()
    assert not tries.announced(2).may_be_missing


def test_another_batch_of_the_same_run_begins_anew() -> None:
    tries = Tries()
    tries.announced(0).done()
    assert not tries.announced(1, "b2").may_be_missing
    assert tries.announced(1, "b2").may_be_missing


def test_an_event_tells_what_is_missing_in_a_batch() -> None:
    extra = extra_of(Committed(batch_id="b1", records=7, gaps=2, dropped=3))
    assert (extra["batch_id"], extra["records"], extra["gaps"], extra["dropped"]) == ("b1", 7, 2, 3)
