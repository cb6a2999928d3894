# SPDX-License-Identifier: Apache-2.0
"""What readers see of a batch is what its last decision took, in every root, however its works and roots change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.policies import Outputs, Policies, Sink
from shardbatch.core.rows import BATCH, Key, Namespace
from shardbatch.core.start import Work
from shardbatch.errors import (
    ConfigurationError,
    NothingFinished,
    OutputTaken,
    StagingError,
    StartUnfinished,
    UnsupportedSchema,
)
from shardbatch.run import Frozen, choice
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def frozen(rig: Rig, run: str = "r1") -> Frozen:
    rig.stream.put("a", "b")
    rig.land(run, rig.claim(run))
    return rig.freeze(run)


def again(rig: Rig, batch_id: str | None, run: str = "r1") -> Frozen:
    """The run was cleared: its batch is opened once more."""
    return rig.freeze(run, batch_id)


def row(rig: Rig, batch_id: str | None) -> Batch:
    found = rig.store.get(Key(BATCH, Namespace("etl", rig.stream.name), ("", batch_id or "")))
    assert isinstance(found, Batch)
    return found


def test_a_task_that_was_renamed_does_not_count_beside_its_old_name(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, "orders.load")
    rig.commit("r1", first, works=["orders.load"])
    second = again(rig, first.batch_id)
    rig.work(second, "orders.load_v2")
    assert rig.commit("r1", second, works=["orders.load_v2"]).replayed
    assert rig.starts_read() == ["s2"]
    assert rig.sink() == rig.committed()


def test_a_group_that_adopts_a_batch_whose_spark_had_finished_counts_alone(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, "first.load")
    rig.over("r1")
    adopted = rig.freeze("r2", rig.claim("r2").batch_id)
    rig.work(adopted, "second.load")
    assert rig.commit("r2", adopted, works=["second.load"]).newly
    assert rig.sink() == rig.committed()


def test_fewer_mapped_instances_than_before_leave_nothing_of_the_others(rig: Rig) -> None:
    first = frozen(rig)
    for index in range(3):
        rig.work(first, f"load[{index}]", f"a{index}")
    rig.commit("r1", first, works=[f"load[{index}]" for index in range(3)])
    second = again(rig, first.batch_id)
    rig.work(second, "load[0]", "b0")
    rig.commit("r1", second, works=["load[0]"])
    assert rig.starts_read() == ["b0"]


def test_a_branch_that_goes_the_other_way_leaves_nothing_of_the_first(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, "left", "a", roots=["left"])
    rig.commit("r1", first, works=["left"])
    second = again(rig, first.batch_id)
    rig.work(second, "right", "b", roots=["right"])
    rig.commit("r1", second, works=["right"])
    assert (rig.starts_read("left"), rig.starts_read("right")) == ([], ["b"])


def test_two_blocks_of_one_job_count_both(rig: Rig) -> None:
    made = frozen(rig)
    rig.start(made, start_id="a", roots=["out1"])
    rig.start(made, start_id="b", roots=["out2"])
    rig.end(made)
    rig.commit("r1", made)
    assert (rig.starts_read("out1"), rig.starts_read("out2")) == (["a"], ["b"])


def test_two_tasks_whose_applications_wrote_to_different_roots_count_both(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made, "one", "a", roots=["out1"])
    rig.work(made, "two", "b", roots=["out2"])
    rig.commit("r1", made, works=["one", "two"])
    assert (rig.starts_read("out1"), rig.starts_read("out2")) == (["a"], ["b"])


def test_a_replay_that_asks_for_no_output_in_a_root_empties_it(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, start_id="a", roots=["good", "rejects"])
    rig.commit("r1", first)
    second = again(rig, first.batch_id)
    rig.work(second, start_id="b", roots=["good"])
    rig.commit("r1", second)
    assert (rig.starts_read("good"), rig.starts_read("rejects")) == (["b"], [])
    third = again(rig, first.batch_id)
    rig.work(third, start_id="c", roots=[])
    assert rig.commit("r1", third).replayed
    assert (rig.starts_read("good"), rig.starts_read("rejects")) == ([], [])
    fourth = again(rig, first.batch_id)  # and a root that was emptied once is told of every later decision
    rig.work(fourth, start_id="d", roots=["rejects"])
    rig.commit("r1", fourth)
    assert (rig.starts_read("good"), rig.starts_read("rejects")) == ([], ["d"])


def test_the_decision_of_a_replay_that_only_leaves_something_out_is_newer_than_the_one_before(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, "one", "a")
    rig.work(first, "two", "b")
    rig.commit("r1", first, works=["one", "two"])
    second = again(rig, first.batch_id)
    assert rig.commit("r1", second, works=["one"]).replayed  # "two" is not in the block any more; "one" did not run
    assert (rig.starts_read(), row(rig, first.batch_id).decided) == (["a"], 2)


def test_a_commit_that_is_cleared_alone_changes_nothing(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, start_id="a")
    rig.commit("r1", first)
    before = row(rig, first.batch_id)
    second = again(rig, first.batch_id)
    done = rig.commit("r1", second)
    assert (done.newly, done.replayed, rig.starts_read()) == (False, False, ["a"])
    assert row(rig, first.batch_id).decided == before.decided


def test_two_spellings_of_one_root_are_one(rig: Rig) -> None:
    made = frozen(rig)
    out = rig.folder.parent / "out"
    rig.start(made, start_id="a", roots=["out"])
    rig.start(made, start_id="b", roots=[f"file://{out}/"])
    rig.end(made)
    assert rig.commit("r1", made).newly
    assert rig.starts_read() == ["a", "b"]
    assert len(row(rig, made.batch_id).roots) == 1


def test_a_root_that_the_workers_do_not_reach_is_found_out_before_the_decision(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made, start_id="a", roots=["out", "local"])
    shutil.rmtree(rig.folder.parent / "local")
    with pytest.raises(StagingError, match="not seen"):
        rig.commit("r1", made)
    assert row(rig, made.batch_id).state is BatchState.FROZEN
    assert rig.starts_read() == []
    mended = again(rig, made.batch_id)
    rig.work(mended, start_id="b")
    assert rig.commit("r1", mended).newly
    rig.over("r1")
    rig.stream.put("c")
    rig.run("r2")  # no later run waits for a marker that cannot be written
    assert rig.sink() == sorted(rig.committed(), key=int)


def test_a_root_that_an_earlier_decision_named_is_looked_at_too(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first, start_id="a", roots=["gone"])
    rig.commit("r1", first)
    shutil.rmtree(rig.folder.parent / "gone")
    second = again(rig, first.batch_id)
    rig.work(second, start_id="b")
    with pytest.raises(StagingError, match="forget-root"):
        rig.commit("r1", second)
    assert row(rig, first.batch_id).decided == 1


def test_another_application_commits_nothing_to_the_root(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made)
    rig.commit("r1", made)
    rig.over("r1")
    other = Rig(rig.folder, rig.stream, app="etl-v2")
    other.options = {"namespace": Namespace("etl-v2", rig.stream.name)}
    found = other.claim("n1")
    other.land("n1", found)
    theirs = other.freeze("n1")
    other.work(theirs)
    with pytest.raises(OutputTaken, match="etl/"):
        other.commit("n1", theirs)
    assert rig.sink() == rig.committed()


def test_applications_that_share_a_root_are_read_together(rig: Rig) -> None:
    rig.options = {"outputs": Outputs(shared=True)}
    made = frozen(rig)
    rig.work(made, start_id="a")
    rig.commit("r1", made)
    other = Rig(rig.folder, rig.stream, app="etl-v2")
    other.options = {"namespace": Namespace("etl-v2", rig.stream.name), "outputs": Outputs(shared=True)}
    other.land("n1", other.claim("n1"))
    theirs = other.freeze("n1")
    other.work(theirs, start_id="b")
    assert other.commit("n1", theirs).newly
    assert rig.starts_read() == ["a", "b"]


def test_a_sink_of_the_authors_own_shows_what_was_written_to_an_output_all_the_same(rig: Rig) -> None:
    rig.options = {"policies": Policies(sink=Sink.OWN)}
    made = frozen(rig)
    rig.work(made, start_id="a")
    assert rig.commit("r1", made).newly
    assert rig.starts_read() == ["a"]


def test_an_own_sink_takes_a_persons_word_and_says_so(rig: Rig) -> None:
    rig.options = {"policies": Policies(sink=Sink.OWN)}
    made = frozen(rig)
    rig.start(made, done=False)
    assert rig.commit("r1", made).note == "committed_by_hand"
    assert rig.starts_read() == []


def test_a_work_that_a_person_marked_is_not_committed(rig: Rig) -> None:
    made = frozen(rig)
    rig.start(made)  # its application ended well, but nobody saw the task end
    with pytest.raises(NothingFinished, match="downstream"):
        rig.commit("r1", made)
    assert row(rig, made.batch_id).state is BatchState.FROZEN


def test_a_task_beside_the_work_that_a_person_marked_is_noted(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made)
    done = rig.commit("r1", made, works=["transform", Work("tell", given=False)])
    assert done.note == "not counted: tell"


def test_a_work_that_a_person_marked_before_it_began_is_told_to_be_cleared(rig: Rig) -> None:
    """Nobody saw that it is given the batch: its own code looks that up."""
    made = frozen(rig)
    with pytest.raises(NothingFinished, match=r"load is a success and has left nothing.*person marked it.*clear it"):
        rig.commit("r1", made, works=[Work("load", given=False)])
    rig.end(made, "load")  # it ran: then it is the job that has to enter a block
    with pytest.raises(NothingFinished, match="entered a block") as caught:
        rig.commit("r1", made, works=[Work("load", given=False)])
    assert "person" not in str(caught.value)


def test_a_block_that_was_not_left_well_fails_the_task(rig: Rig) -> None:
    made = frozen(rig)
    rig.start(made, token="t")
    rig.start(made, token="t", done=False)
    with pytest.raises(StartUnfinished):
        rig.end(made, token="t")
    rig.work(made, start_id="z", token="u")  # the next try
    assert rig.commit("r1", made).newly
    assert rig.starts_read() == ["z"]


def test_work_that_entered_no_block_is_not_committed_as_nothing(rig: Rig) -> None:
    made = frozen(rig)
    rig.end(made)
    with pytest.raises(NothingFinished, match="entered a block"):
        rig.commit("r1", made)
    rig.work(made, start_id="a")
    rig.commit("r1", made)
    second = again(rig, made.batch_id)
    rig.end(second)
    with pytest.raises(NothingFinished):
        rig.commit("r1", second)  # a replay neither: it would take the output away
    assert rig.starts_read() == ["a"]


def test_a_job_that_begins_after_its_task_has_ended_counts_all_the_same(rig: Rig) -> None:
    made = frozen(rig)
    rig.end(made, "submit", token="t")  # an operator that does not wait; a sensor does
    rig.end(made, "wait", token="u")
    rig.start(made, "submit", "a", token="t", incarnation="i1")
    assert rig.commit("r1", made, works=["submit", "wait"]).newly
    assert rig.starts_read() == ["a"]


def test_a_job_that_nobody_waits_for_is_not_committed_half(rig: Rig) -> None:
    made = frozen(rig)
    rig.end(made, "submit", token="t")
    rig.start(made, "submit", "a", roots=["out1"], token="t", incarnation="i1")
    rig.start(made, "submit", "b", roots=["out2"], token="t", incarnation="i1", done=False)
    with pytest.raises(StartUnfinished, match="wait for its end"):
        rig.commit("r1", made, works=["submit"])
    assert row(rig, made.batch_id).state is BatchState.FROZEN


def test_a_driver_that_lives_on_behind_its_successor_does_not_matter_after_the_end(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made, start_id="b", token="t", incarnation="i2")
    rig.start(made, start_id="c", token="t", incarnation="i1", done=False)
    assert rig.commit("r1", made).newly
    assert rig.starts_read() == ["b"]


def test_a_commit_that_names_no_work_says_so(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made)
    with pytest.raises(NothingFinished, match="names no work"):
        rig.commit("r1", made, works=[])


def test_applications_that_do_not_say_for_whom_they_work_belong_to_the_only_task_that_may_be_given_the_batch(
    rig: Rig,
) -> None:
    made = frozen(rig)
    rig.start(made, "", "a")
    with pytest.raises(ConfigurationError, match="which task"):
        rig.end(made, "one of two")
    rig.end(made, "load", only=True)
    rig.commit("r1", made, works=["load"])
    assert rig.starts_read() == ["a"]


def test_a_marker_names_all_roots_of_its_decision(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made, roots=["good", "rejects"])
    rig.commit("r1", made)
    (told,) = rig.decisions("rejects").values()
    assert [Path(root).name for root in told.roots] == ["good", "rejects"]
    assert (told.app, told.committed_ms) == (f"etl/{rig.stream.name}", row(rig, made.batch_id).committed_at_ms)
    assert told.min_arrival_ms == told.max_arrival_ms == rig.stream.now_ms


def test_more_starts_than_a_row_holds_are_refused_before_the_decision(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "MOST_START_BYTES", 300)
    made = frozen(rig)
    for index in range(6):
        rig.work(made, f"load[{index}]", f"a{index}")
    with pytest.raises(ConfigurationError, match="bytes of its row"):
        rig.commit("r1", made, works=[f"load[{index}]" for index in range(6)])
    assert row(rig, made.batch_id).state is BatchState.FROZEN


def test_an_application_of_the_version_before_is_left_to_its_workers(rig: Rig) -> None:
    made = frozen(rig)
    rig.work(made)
    old = rig.consumer().application()
    assert isinstance(old, Application)
    from dataclasses import replace

    rig.store.replace(old, replace(old, schema_version=1, row_count=old.row_count + 1))
    for step in (lambda: rig.claim("r2"), lambda: rig.freeze("r1"), lambda: rig.commit("r1", made)):
        with pytest.raises(UnsupportedSchema, match="airflow shardbatch migrate"):
            step()
