# SPDX-License-Identifier: Apache-2.0
"""Children of an interval's shard that the listing of its claim lacked: none is forgotten, for none comes later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.owner import Owner
from shardbatch.core.shard import Shard
from shardbatch.errors import InvalidAnswer, SourceError, Throttled
from shardbatch.run import Consumer, claim, freeze, land
from shardbatch.run.children import Children
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Late(ScriptedStream):
    """Its next ``old`` listings are as they were before the split, and the one after those fails if it ``refuses``."""

    old = 0
    refuses = False

    def list_shards(self) -> list[Shard]:
        if self.old:
            self.old -= 1
            return [replace(shard, closed=False) for shard in super().list_shards() if not shard.parent_shard_ids]
        if self.refuses:
            self.refuses = False
            raise Throttled("The stream does not list its shards now.")
        return super().list_shards()


class Backfill:
    """An interval that a shard and its two children lie in, claimed while the listing had the shard only."""

    def __init__(self, folder: Path, *, named: bool) -> None:
        self.rig = Rig(folder / "staging")
        self.stream = self.rig.stream = Late(shards=1)
        self.stream.names_children = named
        self.sent = self.stream.put(*"abcdef")
        self.stream.split(next(iter(self.stream.shards)))
        self.sent += self.stream.put(*"ghijkl")
        self.owner: Owner = replace(self.rig.owner("backfill"), mode="interval")
        span = Interval(self.stream.now_ms, self.stream.now_ms + 1)
        self.consumer: Consumer = self.rig.consumer(scope=self.owner.scope, interval=span)
        self.stream.old = 1
        self.groups = [group.group for group in claim(self.consumer, self.owner).groups]

    def read(self) -> None:
        for group in self.groups:
            land(self.consumer, self.owner, group, self.stream.now_ms)

    def frozen(self) -> list[str]:
        return sorted(self.rig.records(freeze(self.consumer, self.owner).batch_id or ""), key=int)


@pytest.mark.parametrize("named", [True, False])
def test_children_that_the_claim_did_not_see_are_read(tmp_path: Path, named: bool) -> None:
    backfill = Backfill(tmp_path, named=named)
    backfill.read()
    assert backfill.frozen() == backfill.sent


@pytest.mark.parametrize("refuses", [True, False])
def test_an_end_of_which_nobody_names_a_child_is_not_landed_as_one(tmp_path: Path, refuses: bool) -> None:
    backfill = Backfill(tmp_path, named=False)
    backfill.stream.old, backfill.stream.refuses = int(not refuses), refuses
    with pytest.raises(Throttled if refuses else InvalidAnswer):
        backfill.read()
    with pytest.raises(SourceError, match="not to its end"):  # a person marks the read as a success
        backfill.frozen()
    backfill.read()
    assert backfill.frozen() == backfill.sent


@pytest.mark.parametrize("named", [True, False])
def test_a_freeze_waits_for_children_whose_read_died_once_their_parent_was_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    backfill = Backfill(tmp_path, named=named)

    def dies(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Children, "take", dies)
        with pytest.raises(KeyboardInterrupt):
            backfill.read()
    with pytest.raises(SourceError, match=r"2 shards of the interval were not read.*001, .*002"):
        backfill.frozen()
    backfill.stream.old = 9  # their rows are enough
    backfill.read()
    assert backfill.frozen() == backfill.sent


def test_a_shard_that_has_left_the_stream_need_not_name_children(tmp_path: Path) -> None:
    backfill = Backfill(tmp_path, named=False)
    backfill.stream.forget(next(iter(backfill.stream.shards)))
    backfill.read()
    assert [row.shard_id for row in backfill.consumer.leases() if row.landed] == list(backfill.stream.shards)


class Torn(ScriptedStream):
    """Of its next listings each lacks an open shard if its word is true; all after those are whole."""

    tears: list[bool]

    def list_shards(self) -> list[Shard]:
        torn = self.tears and self.tears.pop(0)
        return super().list_shards()[: -1 if torn else None]


def test_an_interval_of_which_nothing_can_be_taken_is_not_taken_for_read(tmp_path: Path) -> None:
    """A claim died that had made rows; at the next one nobody knows whether the parent of all shards is gone."""
    rig = Rig(tmp_path / "staging")
    stream = rig.stream = Torn(shards=1)
    stream.tears = []
    first = next(iter(stream.shards))
    stream.split(first)
    stream.forget(first)
    sent = stream.put(*"abcdef")
    owner = replace(rig.owner("backfill"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=Interval(stream.now_ms, stream.now_ms + 1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(consumer.store, "replace_many", lambda changes: [False] * len(changes))
        with pytest.raises(SourceError, match="none can be taken"):
            claim(consumer, owner)
    stream.tears = [False, True]
    with pytest.raises(SourceError, match=r"2 open shards .*001 waits for its parents"):
        claim(consumer, owner)
    for group in claim(consumer, owner).groups:
        land(consumer, owner, group.group, stream.now_ms)
    assert sorted(rig.records(freeze(consumer, owner).batch_id or ""), key=int) == sent
