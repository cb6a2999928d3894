# SPDX-License-Identifier: Apache-2.0
"""A stream that was created again under its name: its application begins anew on the new one, once a person says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import BatchState
from shardbatch.core.ports import Verdict
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.errors import ConfigurationError, LeaseLost, StreamRecreated
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import application, batch, done, everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def recreated(rig: Rig, shards: int = 1) -> list[str]:
    """The stream under this name is another one from now on, with shards of the same names."""
    rig.stream = ScriptedStream(shards=shards)
    rig.stream.created_ms = 2
    return rig.stream.put(*"uvwxyz")


def over(owner: str) -> Verdict:
    return Verdict.OVER


def test_the_next_claim_begins_at_the_start_of_the_new_stream(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    old = rig.stream.put("a", "b")
    rig.run("r1")
    counts = {row.shard_id: row.lease_count for row in rig.consumer().leases()}
    sent = recreated(rig)
    with pytest.raises(StreamRecreated) as raised:
        rig.claim("r2")
    assert "reset --all --stream-id" in str(raised.value)
    assert rig.stream.identity() in str(raised.value)
    rig.over("r2")
    answer = done(reset, rig, every=True, stream_id=rig.stream.identity())
    assert answer[0] == ("etl/orders", "reset")
    assert {result for _, result in answer[1:]} == {"deleted"}
    assert rig.consumer().leases() == []
    found = application(rig)
    assert (found.stream_id, found.start_position) == (rig.stream.identity(), TRIM_HORIZON)
    assert "bad data" in (found.last_action or "")
    rig.run("r3")
    assert sorted(rig.committed(), key=int) == sorted(old + sent, key=int)
    (row,) = rig.consumer().leases()
    assert row.lease_count != counts[row.shard_id] + 1  # its counter does not go on where the old row's was (L1)


def test_a_preview_names_what_would_be_lost_and_changes_no_row(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    rig.over("r1")
    recreated(rig)
    before = everything(rig)
    items = told(reset, rig, every=True, stream_id="new", dry_run=True, liveness=over, reason="")
    assert [item.result for item in items] == ["would reset", "would drop", "would delete"]
    assert items[1].name == made.batch_id
    assert "LOST" in items[1].effect
    assert "set aside first" in items[1].effect
    assert everything(rig) == before


def test_a_batch_of_the_old_stream_may_be_set_aside_first_and_replayed_later(rig: Rig) -> None:
    old = rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    assert made.batch_id is not None
    rig.over("r1")
    recreated(rig)
    done(set_aside, rig, made.batch_id)
    done(reset, rig, every=True, stream_id=rig.stream.identity())
    replay = rig.freeze("r1")
    rig.work(replay)
    rig.commit("r1", replay)
    assert rig.sink() == old


def test_a_run_that_is_alive_on_the_old_stream_is_left_or_robbed(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    made = rig.freeze("r1")
    assert made.batch_id is not None
    rig.work(made)
    sent = recreated(rig)
    before = everything(rig)
    (item,) = told(reset, rig, every=True, stream_id=rig.stream.identity())
    assert item.result == "left"
    assert everything(rig) == before
    done(reset, rig, every=True, stream_id=rig.stream.identity(), force=True)
    with pytest.raises(LeaseLost):
        rig.commit("r1", made)
    assert batch(rig, made.batch_id).state is BatchState.VOID
    rig.over("r1")
    rig.run("r2")
    assert len(rig.committed()) == len(sent)


def test_a_second_call_changes_nothing(rig: Rig) -> None:
    rig.run("r1")
    recreated(rig)
    done(reset, rig, every=True, stream_id=rig.stream.identity())
    rig.run("r2")
    before = everything(rig)
    assert done(reset, rig, every=True, stream_id=rig.stream.identity()) == [("etl/orders", "already")]
    assert everything(rig) == before


def test_a_wrong_identity_is_found_by_the_next_claim(rig: Rig) -> None:
    rig.run("r1")
    recreated(rig)
    done(reset, rig, every=True, stream_id="mistyped")
    with pytest.raises(StreamRecreated, match="mistyped"):
        rig.claim("r2")
    done(reset, rig, every=True, stream_id=rig.stream.identity())
    rig.over("r2")
    assert rig.run("r3").records == 6


def test_a_new_start_may_be_given_but_no_record_of_the_old_stream(rig: Rig) -> None:
    rig.run("r1")
    recreated(rig)
    for words in ({"to": after("5"), "stream_id": "new"}, {"stream_id": " "}):
        with pytest.raises(ConfigurationError):
            told(reset, rig, every=True, **words)
