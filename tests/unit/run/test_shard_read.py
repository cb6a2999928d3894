# SPDX-License-Identifier: Apache-2.0
"""The read of one shard: from its checkpoint into one slice on its lease."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.limits import ReadLimits
from shardbatch.core.ports import SliceWriter
from shardbatch.core.position import SHARD_END, Position
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import Slice
from shardbatch.errors import SourceError, StagingError
from shardbatch.hooks.lazy_source import LazySource
from shardbatch.landing.area import StagingArea
from shardbatch.run.expiry import ask_kept
from shardbatch.run.hold import Held
from shardbatch.run.shard_errors import Stopped
from shardbatch.run.shard_read import ShardRead, read_shard
from tests.support.passing import only
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.claim("r1")
    return made


def begun(rig: Rig, **changes: Any) -> ShardRead:
    """A read of the one shard that this run has."""
    consumer, owner = rig.consumer(**changes), str(rig.owner("r1"))
    held = Held(consumer, owner, only(rig))
    return ShardRead(
        consumer, held, owner, rig.stream.now_ms + 1, math.inf, threading.Event(), lambda: ask_kept(consumer)
    )


def whole(read: ShardRead) -> tuple[Slice | None, int]:
    """What the read answers, and how often others could have had their turn."""
    pages, turns = read_shard(read), 0
    while True:
        try:
            next(pages)
        except StopIteration as end:
            return end.value, turns
        turns += 1


def files(rig: Rig) -> list[Path]:
    return list(rig.folder.rglob("*.parquet"))


def test_what_follows_the_checkpoint_becomes_a_slice_and_others_have_their_turn_after_each_page(rig: Rig) -> None:
    rig.stream.put(*"abcdefg")
    landed, turns = whole(begun(rig))
    assert landed is not None
    assert (landed.records, landed.ended, landed.last) == (7, False, "106")
    assert only(rig).pending == landed
    assert turns >= 2  # three records a page


def test_the_end_of_a_shard_is_told_with_its_children(rig: Rig) -> None:
    rig.stream.put("a")
    shard_id = only(rig).shard_id
    children = rig.stream.split(shard_id)
    read = begun(rig)
    landed, _ = whole(read)
    assert landed is not None
    assert (landed.until, landed.ended, landed.children) == (SHARD_END, True, children)
    assert [child.shard_id for child in read.held.children] == list(children)


def test_where_nothing_is_new_the_lease_is_given_back_and_no_file_is_left(rig: Rig) -> None:
    assert whole(begun(rig))[0] is None
    row = only(rig)
    assert (row.lease_owner, row.pending) == (None, None)
    assert row.caught_up_ms is not None
    assert files(rig) == []


def test_a_limit_ends_the_slice_and_the_rest_is_for_the_next(rig: Rig) -> None:
    rig.stream.put(*"abcdefg")
    landed, _ = whole(begun(rig, limits=ReadLimits(records=3)))
    assert landed is not None
    assert (landed.records, landed.last) == (3, "102")


def test_an_error_behind_what_was_read_is_left_on_the_lease_in_hand(rig: Rig) -> None:
    rig.stream.put(*"abcdef")
    read = begun(rig)
    pages = read_shard(read)
    next(pages)
    rig.stream.failing[only(rig).shard_id] = SourceError("refused")
    with pytest.raises(StopIteration) as end:
        next(pages)
    assert end.value.value.records == 3
    assert str(read.held.cut).startswith("refused")
    assert only(rig).pending == end.value.value


def test_an_error_before_anything_was_read_is_raised(rig: Rig) -> None:
    rig.stream.failing[only(rig).shard_id] = SourceError("refused")
    with pytest.raises(SourceError, match="refused"):
        whole(begun(rig))
    assert only(rig).lease_owner == str(rig.owner("r1"))


def test_a_task_that_is_told_to_stop_leaves_nothing(rig: Rig) -> None:
    rig.stream.put(*"abcdef")
    read = begun(rig)
    pages = read_shard(read)
    next(pages)
    read.stop.set()
    with pytest.raises(Stopped):
        next(pages)
    assert only(rig).pending is None
    assert files(rig) == []


def test_a_lease_that_another_took_has_no_slice_of_ours(rig: Rig) -> None:
    rig.stream.put(*"abc")
    read = begun(rig)
    row = only(rig)
    taken = leases.take(row, str(rig.owner("r2")), "000", 1)
    assert rig.store.replace(row, taken)
    assert whole(read)[0] is None
    assert read.held.lost
    assert only(rig) == taken


class Landing(StagingArea):
    """A staging area that counts the writers that are given up, and whose files cannot be completed if ``full``."""

    def __init__(self, folder: Path, *, full: bool = False) -> None:
        super().__init__(str(folder))
        self.full = full
        self.abandoned = 0

    def slice(self, namespace: Namespace, shard_id: str, after: Position, tenure: int) -> SliceWriter:
        writer: Any = super().slice(namespace, shard_id, after, tenure)
        drop, finish = writer.abandon, writer.finish

        def abandon() -> None:
            self.abandoned += 1
            drop()

        def finished() -> Any:
            if self.full:
                raise StagingError("No space is left.")
            return finish()

        writer.abandon, writer.finish = abandon, finished
        return writer


def test_files_that_cannot_be_completed_are_given_up(rig: Rig) -> None:
    rig.stream.put("a")
    landing = Landing(rig.folder, full=True)
    with pytest.raises(StagingError, match="No space"):
        whole(begun(rig, landing=landing))
    assert landing.abandoned == 1
    assert only(rig).pending is None
    assert not [path for path in rig.folder.rglob("*") if path.is_file()]


def test_the_folder_of_a_slice_tells_the_tenure_in_which_it_was_read(rig: Rig) -> None:
    rig.stream.put("a")
    before = only(rig).tenure
    whole(begun(rig))
    (path,) = files(rig)
    assert before > 0
    assert f"-t{before}-" in path.parent.name


def test_a_stream_that_cannot_be_opened_leaves_no_open_file(rig: Rig) -> None:
    def away() -> Any:
        raise SourceError("The stream cannot be opened.")

    landing = Landing(rig.folder)
    with pytest.raises(SourceError, match="cannot be opened"):
        whole(begun(rig, landing=landing, source=LazySource("orders", away)))
    assert landing.abandoned == 1
