# SPDX-License-Identifier: Apache-2.0
"""A sign of life that comes between the look at an attempt and the opening of the next."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.batch import Batch
from shardbatch.core.policies import ClaimOptions
from shardbatch.run import beat
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig

GRACE = timedelta(seconds=30)


class Beaten(OneByOne):
    """Lets the work of the first attempt show life just before the second is opened, once."""

    def __init__(self, rig: Rig, batch_id: str) -> None:
        self._rig, self._batch_id, self.beats = rig, batch_id, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rig.store, name)

    def replace(self, seen: Any, new: Any) -> bool:
        if isinstance(new, Batch) and new.attempt > seen.attempt and not self.beats:
            self.beats += 1
            beat(self._rig.consumer(), self._rig.owner("r1"), self._batch_id, 1, "app-1", "transform")
        return bool(self._rig.store.replace(seen, new))


@pytest.mark.parametrize("recorded", [True, False], ids=["silent for its grace", "not recorded before"])
def test_an_attempt_that_shows_life_when_the_next_is_opened_is_waited_for(tmp_path: Path, recorded: bool) -> None:
    rig = Rig(tmp_path / "staging", options={"options": ClaimOptions(attempt_grace=GRACE)})
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    assert frozen.batch_id is not None
    if recorded:
        beat(rig.consumer(), rig.owner("r1"), frozen.batch_id, 1, "app-1", "transform")
    store = Beaten(rig, frozen.batch_id)
    began = rig.time.ms
    assert rig.freeze("r1", store=store).attempt == 2
    assert store.beats == 1
    graces = 2 if recorded else 1
    assert rig.time.ms - began >= graces * GRACE.total_seconds() * 1000
