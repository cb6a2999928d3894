# SPDX-License-Identifier: Apache-2.0
"""A store that has just not answered is not waited for as long again, until it answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from shardbatch_plugin.web import stores
from shardbatch_plugin.web.stores import Asker, NoAnswer
from tests.support.waiting import wait_until


def test_a_silent_store_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SILENT_S", 0.01)
    spoken = threading.Event()

    @contextmanager
    def opened() -> Iterator[str]:
        spoken.wait(60)
        yield "store"

    asker = Asker("it", opened)
    begun = asker.begin("how", str.upper)
    with pytest.raises(NoAnswer):
        asker.answer(begun, 0.05)
    began = time.monotonic()
    with pytest.raises(NoAnswer):
        asker.answer(begun, 50)
    assert time.monotonic() - began < 25
    spoken.set()
    assert begun.result(50) == "STORE"
    monkeypatch.setattr(stores, "SILENT_S", 0.0)  # whoever is waited for so long gets no answer
    assert asker.ask("again", lambda store: (time.sleep(0.05), store)[1]) == "store"


def test_those_who_wait_for_silent_stores_leave_threads_for_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SILENT_S", 0.01)
    monkeypatch.setattr(stores, "LONG_WAITS", threading.BoundedSemaphore(1))
    spoken = threading.Event()
    first, second = Asker("one", _never(spoken)), Asker("two", _never(spoken))
    begun = first.begin("how", str.upper)
    held = threading.Thread(target=first.answer, args=(begun, 60))
    held.start()
    wait_until(lambda: stores.LONG_WAITS._value == 0, 60, "the first to wait long")
    began = time.monotonic()
    with pytest.raises(NoAnswer):
        second.ask("how", str.upper)
    assert time.monotonic() - began < stores.LIMIT_S / 2
    spoken.set()
    held.join(60)
    assert second.ask("more", str.upper) == "STORE"  # it was not silent itself


def test_a_silent_store_is_not_given_ever_more_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_OPEN", 3)
    spoken = threading.Event()
    asker = Asker("it", _never(spoken))
    begun = [asker.begin(number, str.upper) for number in range(9)]
    refused = [one for one in begun if one.done()]
    assert len(refused) == 6
    with pytest.raises(NoAnswer):
        asker.answer(refused[0], 50)
    spoken.set()
    assert asker.answer(begun[0], 50) == "STORE"
    assert asker.ask("again", str.upper) == "STORE"


def _never(spoken: threading.Event) -> Callable[[], AbstractContextManager[str]]:
    """A store that opens only once it may."""

    @contextmanager
    def opened() -> Iterator[str]:
        assert spoken.wait(60)
        yield "store"

    return opened
