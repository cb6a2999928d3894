# SPDX-License-Identifier: Apache-2.0
"""The end of every schedule: faults stop, healthy runs take over, and everything has come through (liveness)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from shardbatch.core.application import Application
from shardbatch.core.batch import DROPPED, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.rows import BATCH, SHARD_LEASE, TABLES
from shardbatch.core.slice import Gap
from shardbatch.errors import ConfigurationError, GapFound, ReplayRefused, SlicesGone, StreamNotFound
from tests.breaker.cleaning import clean
from tests.breaker.laws import Laws
from tests.breaker.losses import belongs, must_be_told, replaced
from tests.breaker.persons import start
from tests.breaker.process import Process
from tests.breaker.world import Run, World, expect_known

RECORD = Policies(gap=GapPolicy.RECORD)
#: Time between two runs at the end: whatever a dead owner of another deployment holds looks old then.
PAUSE_MS = 15 * 60_000


def drain(world: World, laws: Laws) -> None:
    """Let what is late arrive, end all that ran, and let healthy runs finish the stream."""
    for process in world.processes:
        process.kill()
    world.plans.end()
    world.landing.outputs.away.clear()
    world.stream.calm()
    while world.late:
        world.deliver(0)
        laws.look()
    for run in world.runs:
        if run.state == "running":
            world.stop(run, "failed")
    _free(world, laws)
    if (other := replaced(world)) is not None:
        _act(world, laws, "restart", other)
    for run in [run for run in world.runs if run.interval and run.state == "failed"]:
        _finish_interval(world, laws, run)
    for _ in range(0 if world.stream.gone else 12 + len(world.stream.sent) // 2):
        world.time.ms += PAUSE_MS
        run = world.new_run(policies=RECORD)
        play(world, laws, run)
        assert run.state == "success", f"a healthy run failed: {world.processes[-1].error!r}"
        if run.committed is None or run.committed.batch_id is None:
            break
    _told(world, laws)
    _stored(world)
    _complete(world, laws)
    if any(isinstance(row, Application) for row in world.rows.values()):  # a stream that is no more may have none
        _clean(world, laws)


def play(world: World, laws: Laws, run: Run) -> None:
    """A run from where it stands to its end, without a fault."""
    while run.state == "running":
        for group in world.due(run):
            process = world.start_task(run, group)
            _run(world, laws, process)
            world.settle(process)
            laws.answered(process)


def _run(world: World, laws: Laws, process: Process) -> None:
    while not process.finished:
        world.say(f"{process}: {process.at}")
        process.step()
        laws.look()
    expect_known(process)


def _free(world: World, laws: Laws) -> None:
    """What a person does: batches that wait are resumed or released, and a reset that died is called again."""
    for row in [row for row in world.rows.values() if isinstance(row, Batch) and not row.scope]:
        if row.state is BatchState.PARKED:
            _act(world, laws, "unpark", row.batch_id)
        if row.state in (BatchState.FROZEN, BatchState.PARKED):
            _act(world, laws, "release", row.batch_id)
    while held := [r for r in world.rows.values() if isinstance(r, Lease) and ResetHolder.parse(r.lease_owner)]:
        _act(world, laws, "reset", held[0].shard_id)


def _act(world: World, laws: Laws, verb: str, name: str) -> None:
    process = start(world, verb, name, force=True)
    _run(world, laws, process)
    assert process.error is None, f"{process} failed: {process.error!r}"


def _finish_interval(world: World, laws: Laws, run: Run) -> None:
    """Only the same run, cleared, goes on with an interval; the retention may have passed it by."""
    run.policies = RECORD
    world.clear(run, "claim")
    play(world, laws, run)
    if run.state == "failed":
        error = world.processes[-1].error
        known = ConfigurationError | GapFound | ReplayRefused | SlicesGone | StreamNotFound
        assert isinstance(error, known), error
        return
    left = [key for key in world.rows if key.table is SHARD_LEASE and key.values[0] == run.owner.scope]
    assert not left, f"side leases are left behind: {left}"


def _told(world: World, laws: Laws) -> None:
    """A commit that died between its decision and its markers is cleared; then every root shows its row's decision."""
    for batch in list(laws.books.decided.values()):
        if batch.scope and batch.set_aside == DROPPED:
            _act(world, laws, "drop", batch.batch_id)
        run = next((run for run in world.runs if str(run.owner) == batch.owner), None)
        if run is not None and batch.set_aside is None:
            process = world.start_commit(run, batch)
            _run(world, laws, process)
            assert process.error is None, f"{process} failed: {process.error!r}"
            laws.answered(process)
        laws.readers.green(batch)


def _clean(world: World, laws: Laws) -> None:
    """Clean-ups leave nothing that no row names."""
    for _ in range(2):
        process = clean(world, timedelta(0))
        _run(world, laws, process)
        assert process.error is None, f"{process} failed: {process.error!r}"
    laws.cleaning.nothing_is_left()


def _stored(world: World) -> None:
    """The store holds what the writes have made."""
    for table in TABLES:
        stored = {row.key: row for row in world.store.list(table, world.namespace)}
        kept = {
            key: row for key, row in world.rows.items() if key.table is table and (not key.values or not key.values[0])
        }
        assert stored == kept, f"the store does not hold what was written to {table.name}"


def _complete(world: World, laws: Laws) -> None:
    """Every record is in one committed batch, or expired and in a recorded gap."""
    books = laws.books
    begin_ms = world.begin_ms()
    live = {row for scope, row in books.records if not scope}
    rows = [row for row in world.rows.values() if isinstance(row, Lease) and not row.scope]
    waiting: dict[str, Sequence[Gap]] = {row.shard_id: row.skipped for row in rows}
    for name in books.skipped - live:
        sent = world.stream.sent[name]
        if not belongs(world, sent):
            continue
        told = books.wanted(sent) or books.covered(sent, waiting.get(sent.shard_id, ()))
        assert told, f"record {name} was passed over in silence"
    for name, sent in world.stream.sent.items():
        if not belongs(world, sent):
            continue
        if sent.arrival_ms < begin_ms and sent.shard_id not in books.targets:
            # What the first listing hid has its row made later, and begins at its oldest record like a younger child.
            hidden = sent.shard_id in world.stream.hidden or sent.late  # it stands behind others of after the start
            same = sent.arrival_ms >= begin_ms - begin_ms % world.stream.shown_ms
            assert hidden or same or name not in live, f"record {name} arrived before the start"
        elif name not in live and books.wanted(sent):
            assert sent.expired, f"record {name} is missing"
            known = sent.arrival_ms >= books.enrolled_ms.get(
                sent.shard_id, world.time.ms
            )  # else it may be older than us
            known = must_be_told(world, sent) if sent.early else known
            assert not known or name in books.before or books.covered(sent), f"record {name} expired in silence"
        elif name not in live | books.before and sent.shard_id not in books.targets and not sent.expired:
            told = books.covered(sent, waiting.get(sent.shard_id, ()))
            assert told, f"record {name}, from before its shard began, was passed over in silence"
    for run in world.runs:
        if run.interval is not None:
            _interval(world, laws, run)


def has_gaps(world: World, scope: str) -> bool:
    """Whether a batch of an interval run says that something is lacking; a person may have accepted that."""
    rows = [row for key, row in world.rows.items() if key.table is BATCH and key.values[0] == scope]
    return any(row.gaps for row in rows)


def _interval(world: World, laws: Laws, run: Run) -> None:
    assert run.interval is not None
    scope = run.owner.scope
    held = {row for where, row in laws.books.records if where == scope}

    inside = {n for n, sent in world.stream.sent.items() if sent.arrival_ms in run.interval}
    assert held <= inside, "an interval has records from outside"
    if run.state == "success":
        lacking = [sent for n in inside - held if belongs(world, sent := world.stream.sent[n])]
        assert all(sent.expired for sent in lacking), "an interval lacks records"
        if run.policies.gap is GapPolicy.FAIL and not has_gaps(world, scope):  # W9: what expired in its time is told
            assert all(sent.early for sent in lacking), "an interval lacks what has expired, and does not say so"
