# SPDX-License-Identifier: Apache-2.0
"""Batches over a rig that have output roots: undecided, committed, or decided by a run that died."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.landing.roots import OutputRoots
from shardbatch.run import Frozen
from tests.support.rig import Rig


class Killed(BaseException):
    """The process died."""


def killed(*_: Any, **__: Any) -> None:
    raise Killed


def root(rig: Rig, name: str = "out") -> str:
    return str(rig.folder.parent / name)


def frozen(rig: Rig, run: str = "r1", *records: str) -> Frozen:
    rig.stream.put(*(records or ("a",)))
    rig.land(run, rig.claim(run))
    return rig.freeze(run)


def undecided(rig: Rig, run: str = "r1", roots: tuple[str, ...] = ("out",)) -> Frozen:
    """A batch whose work has ended."""
    made = frozen(rig, run)
    rig.work(made, roots=roots)
    return made


def committed(rig: Rig, run: str = "r1", roots: tuple[str, ...] = ("out",)) -> str:
    made = undecided(rig, run, roots)
    rig.commit(run, made)
    rig.over(run)
    assert made.batch_id is not None
    return made.batch_id


def decided_and_died(rig: Rig, run: str = "r1", roots: tuple[str, ...] = ("out",)) -> str:
    """A batch that was decided and of which no marker was written."""
    made = undecided(rig, run, roots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, "mark", killed)
        with pytest.raises(Killed):
            rig.commit(run, made)
    rig.over(run)
    assert made.batch_id is not None
    return made.batch_id
