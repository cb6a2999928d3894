# SPDX-License-Identifier: Apache-2.0
"""A store that has just not answered is not waited for as long again, until it answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shardbatch_plugin.web import stores
from shardbatch_plugin.web.stores import Asker, NoAnswer


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
