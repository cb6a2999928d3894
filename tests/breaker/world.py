# SPDX-License-Identifier: Apache-2.0
"""Airflow as the breaker plays it: runs of two deployments, tasks, tries that look dead and live on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.manifest import Manifest
from shardbatch.core.policies import ClaimOptions, Outputs
from shardbatch.core.ports import LeaseStore, Source, Verdict
from shardbatch.core.position import TRIM_HORIZON, Position
from shardbatch.core.rows import BATCH, INTERVAL, Key, Namespace, Row, Table
from shardbatch.core.start import Work
from shardbatch.errors import LeaseLost, ProtocolError, ShardbatchError, WorkFailed
from shardbatch.run import Claim, Consumer, Frozen, Outcome, claim, commit, freeze, land
from tests.breaker.applications import Cluster
from tests.breaker.events import Events
from tests.breaker.faults import SteppedLanding, SteppedSource, SteppedStore, asked
from tests.breaker.memory_landing import MemoryLanding
from tests.breaker.plans import Kind, Plans, runs
from tests.breaker.process import Fate, Process
from tests.breaker.run import Run, State
from tests.breaker.stream import ExpiringStream
from tests.breaker.table import Habits, TableStream
from tests.breaker.table_client import Broken, table_source
from tests.breaker.work import left_over, work
from tests.support.rig import FakeTime

TASKS = ("claim", "read", "freeze", "work", "commit")
TRIES = 2
#: How an error of a shard reads that is none of ours.
FOREIGN = re.compile(r"[A-Za-z_]+: ")
LEASE_DURATION = timedelta(seconds=60)
ATTEMPT_GRACE = timedelta(seconds=30)
Seen = tuple["Claim | None", "Frozen | None", "str | None", str]


@dataclass
class Written:
    """One write that the store made."""

    process: Process
    old: Row | None
    new: Row | None

    @property
    def key(self) -> Key:
        row = self.new or self.old
        assert row is not None
        return row.key

    def __str__(self) -> str:
        before = self.old.columns() if self.old else {}
        now = self.new.columns() if self.new else {}
        changed = ", ".join(f"{name}={value}" for name, value in now.items() if before.get(name) != value)
        return f"{self.process}: WROTE {self.key.table.name} {self.key.values[-1:]}: {changed[:600] or 'gone'}"


class World:
    """The stream, the store, the runs, the processes and the applications.

    ``rows`` are the store's rows as the writes have made them, ``journal`` the writes in their order; ``late`` are
    writes that their callers gave up and that may still arrive. ``reachable``: a freeze can end older applications.
    ``sharing``: runs of several groups share the application. ``ahead_ms`` is how much the clock of the next read is
    ahead of all others.
    """

    def __init__(
        self,
        store: LeaseStore,
        namespace: Namespace,
        start: Position = TRIM_HORIZON,
        shards: int = 2,
        plans: Plans | None = None,
        habits: Habits | None = None,
    ) -> None:
        self.store, self.namespace, self.start = store, namespace, start
        self.plans = plans or Plans()
        self.outputs = Outputs()
        self.sink = "starts"
        self.sharing = False
        self.ahead_ms = 0
        self.time = FakeTime()
        named: dict[str, Any] = {"name": namespace.stream_name, "shards": shards, "page_size": 2}
        if habits is None:
            self.stream = ExpiringStream(self.time, **named)
        else:
            self.stream = TableStream(self.time, habits, **named)
        self.landing = MemoryLanding()
        self.runs: list[Run] = []
        self.processes: list[Process] = []
        self.cluster = Cluster(self)
        self.events = Events()
        self.rows: dict[Key, Row] = {}
        self.journal: list[Written] = []
        self.reachable = True
        self.late: list[tuple[Process, str, Row | None, Row | None]] = []
        self.said: list[Any] = []
        self.tries: dict[tuple[str, int], set[str]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._records: dict[str, list[str]] = {}
        self._count = 0

    def say(self, line: str) -> None:
        self.said.append(line)

    # the store

    def wrote(self, process: Process, old: Row | None, new: Row | None) -> None:
        """Called right after every write that was made."""
        written = Written(process, old, new)
        if written.key.values and written.key.table is not INTERVAL:
            here = process.scope in (None, written.key.values[0])
            assert here, f"{process} wrote in another scope: {written.key}"
        self.journal.append(written)
        self.said.append(written)
        if new is None:
            del self.rows[written.key]
        else:
            self.rows[written.key] = new

    def as_it_was(self, table: Table, scope: str, fate: Fate) -> dict[Key, Row]:
        """Rows without the last ``back`` writes to them: all of those, or only the writes of one row of them."""
        fitting = [w for w in self.journal if w.key.table is table and (not w.key.values or w.key.values[0] == scope)]
        last = fitting[-fate.back :]
        keys = list(dict.fromkeys(written.key for written in last))
        chosen = set(keys) if fate.which == 0 or not keys else {keys[fate.which % len(keys)]}
        rows = {k: row for k, row in self.rows.items() if k.table is table and (not k.values or k.values[0] == scope)}
        for written in reversed(last):
            if written.key in chosen:
                if written.old is None:
                    rows.pop(written.key, None)
                else:
                    rows[written.key] = written.old
        return rows

    def deliver(self, number: int) -> None:
        """A write arrives that its caller gave up."""
        process, verb, old, new = self.late.pop(number)
        if getattr(self.store, verb)(*(row for row in (old, new) if row is not None)):
            self.wrote(process, old, new)

    # Airflow

    def new_run(self, **options: Any) -> Run:
        self._count += 1
        run = Run(f"r{self._count}", began_ms=self.time.ms, **options)
        self._block(run, set())
        self.runs.append(run)
        return run

    def verdict(self, deployment: str, owner: str) -> Verdict:
        """What the Airflow of a deployment knows of an owner."""
        known = [run for run in self.runs if str(run.owner) == owner and run.deployment == deployment]
        if not known:
            return Verdict.FOREIGN
        if known[0].state == "deleted":
            return Verdict.GONE
        return Verdict.ACTIVE if known[0].state == "running" else Verdict.OVER

    def live(self, run: Run) -> list[Process]:
        """The processes that Airflow believes to be the run's current tasks."""
        return [p for p in self.processes if p.run == run.name and not p.abandoned and not p.finished]

    def due(self, run: Run) -> list[str | None]:
        """What the scheduler may start now: the read groups that are not read, the works that have not ended, or the
        run's next task."""
        if run.state != "running":
            return []
        live = [process.group or process.work for process in self.live(run)]
        if run.task == "read":
            return [group for group in run.groups if group not in live]
        if run.task == "work":
            return [work for work in run.to_do if work not in live]
        return [] if live else [None]

    def start_task(self, run: Run, which: str | None = None) -> Process:
        """Start a task, as the scheduler does, a read's group or a work by its name; every process has a clock of its
        own, up to ten minutes wrong."""
        number, task = len(self.processes), run.task
        if task == "work" and which is not None:
            run.begun[which] = run.begun.get(which, 0) + 1
            if self.plans.kind(which) is Kind.BARE:
                self._end_tries(run, which)
        try_number = run.begun.get(which, 0) if which else 0
        seen = (run.claimed, run.frozen, which, run.claim_id)
        skew_ms = (number * 7 % 21 - 10) * 60_000
        if task == "read":
            skew_ms, self.ahead_ms = skew_ms + self.ahead_ms, 0
        body: Callable[[Process], Any] = partial(self._body, run, task, seen, skew_ms, try_number)
        process = Process(f"{run.name}.{task}.{number}", run.name, task, body, run.owner)
        process.number = number
        process.group, process.work = (which, None) if task == "read" else (None, which)
        self.processes.append(process)
        return process

    def start_commit(self, run: Run, batch: Batch) -> Process:
        """The commit of what a batch's owner has decided already is cleared."""

        def body(process: Process) -> Any:
            consumer = self.consumer(run, process, 0)
            done = commit(consumer, run.owner, batch.batch_id, batch.decided)
            return self.events.come_to_send(process, consumer, run, done)

        process = Process(f"{run.name}.commit.{len(self.processes)}", run.name, "commit", body, run.owner)
        process.number, process.abandoned = len(self.processes), True
        self.processes.append(process)
        return process

    def _end_tries(self, run: Run, work: str) -> None:
        """No older try of a work lives on whose tries cannot be told apart by a token."""
        for process in self.processes:
            if process.run == run.name and process.work == work and not process.finished:
                process.kill()

    def consumer(self, run: Run, process: Process, skew_ms: int) -> Consumer:
        return Consumer(
            namespace=self.namespace,
            source=self._source(process, skew_ms),
            store=SteppedStore(self, process),
            landing=SteppedLanding(self, process),  # type: ignore[arg-type]
            liveness=partial(asked, self, process, run.deployment),
            deployment=run.deployment,
            scope=run.owner.scope,
            interval=run.interval,
            start=self.start,
            replay=run.replay,
            limits=run.limits,
            options=ClaimOptions(
                max_shards=run.max_shards,
                read_tasks=run.read_tasks,
                drain_lineage=run.drain,
                lease_duration=LEASE_DURATION,
                attempt_grace=ATTEMPT_GRACE,
                shared=self.sharing,
            ),
            policies=replace(run.policies, sink=self.sink),
            outputs=self.outputs,
            clock=process.clock(self.time, skew_ms),
            say=lambda line: self.say(f"{process}: {line}"),
            warn=lambda line: self.say(f"{process}: {line}"),
        )

    def _source(self, process: Process, skew_ms: int) -> Source:
        if isinstance(self.stream, TableStream):
            return table_source(self.stream, process, process.clock(self.time, skew_ms, naps=False))
        return SteppedSource(self, process)

    def _body(self, run: Run, task: str, seen: Seen, skew_ms: int, try_number: int, process: Process) -> Any:
        consumer, owner = self.consumer(run, process, skew_ms), run.owner
        claimed, frozen, group, claim_id = seen
        if task == "claim":
            return claim(consumer, owner)
        if task == "read":
            assert group is not None
            return land(consumer, owner, group, run.began_ms + 1)
        if task == "freeze":
            handed, ended = claimed.batch_id if claimed else None, partial(left_over, self, process)
            return freeze(consumer, owner, handed, ended, claim=claim_id)
        assert frozen is not None
        if task == "work":
            return work(self, process, consumer, owner, frozen, try_number)
        done = commit(consumer, owner, frozen.batch_id, frozen.attempt, works=self._works(process, run, frozen))
        return self.events.come_to_send(process, consumer, run, done)

    def _works(self, process: Process, run: Run, frozen: Frozen) -> list[Work]:
        """The works that have ended as a success, as commit asks Airflow for them; all of the block must have ended."""
        process.pause("states")
        if frozen.batch_id is None or not frozen.record_count:
            return []
        process.bound, process.states = (frozen.batch_id, frozen.attempt), dict(run.states)
        self.say(f"{process}: STATES {process.states}")
        if run.to_do:
            raise WorkFailed(f"{run.to_do} has not ended.")
        done = [work for work, (state, _) in run.states.items() if state == "success"]
        if not done:
            raise WorkFailed("No work succeeded.")
        return [Work(work, self.plans.given(work), runs(work)) for work in done]

    def settle(self, process: Process) -> None:
        """Airflow takes note of a task that has ended, and goes on with the run."""
        if not process.finished:
            return
        expect_known(process)
        if process.abandoned:
            return
        run = next(r for r in self.runs if r.name == process.run)
        if run.state != "running":
            return
        process.abandoned = True
        if process.error is not None:
            self._failed(run, process, process.error)
        else:
            self._follow(run, process)

    def _failed(self, run: Run, process: Process, error: BaseException) -> None:
        task = f"{process.task}.{process.group or process.work}"
        run.tries[task] = run.tries.get(task, 0) + 1
        if not getattr(error, "retryable", True) or run.tries[task] >= TRIES:
            self.stop(run, "failed")

    def begin_ms(self) -> int:
        """Where the live application began, if that is an instant; else 0."""
        application = next((row for row in self.rows.values() if isinstance(row, Application)), None)
        begins = application.start_position if application else None
        return begins.timestamp_ms or 0 if begins is not None else 0

    def stop(self, run: Run, state: str) -> None:
        """The run is over for Airflow; its processes may live on."""
        for process in self.live(run):
            process.abandoned = True
        run.state = state

    def _follow(self, run: Run, process: Process) -> None:
        if process.task == "claim":
            found: Claim = process.result
            run.known, run.claim_id = None, process.name
            run.claimed, run.groups = found, [group.group for group in found.groups]
            run.task = "read" if run.groups else "freeze"
            if found.outcome in (Outcome.NOTHING, Outcome.HELD):
                run.state = "success"
        elif process.task == "read":
            assert process.group is not None
            run.groups.remove(process.group)
            for text in process.result.errors.values():
                assert text.startswith("Broken: ") or not FOREIGN.match(text), f"{process}: {text}"
            run.red = run.red or bool(process.result.errors)
            run.task = "read" if run.groups else "freeze"
        elif process.task == "freeze":
            # D2e goes by a list. A stale one may lack the row that names the claim: then the run does nothing.
            seen = process.result.batch_id or process.misled
            assert seen or not run.known, f"{process}: {run.known} is not its own any more"
            run.frozen, run.known = process.result, process.result.batch_id
            run.red = run.red or bool(process.result.waiting)
            run.task = "work" if process.result.record_count and run.to_do else "commit"
        elif process.task == "work":
            assert process.work is not None
            ended = (run.frozen.batch_id, process.result) if run.frozen and process.result else None
            self._ended(run, process.work, "success", ended)  # type: ignore[arg-type]
        else:
            done = process.result.batch_id
            batch = self.rows.get(Key(BATCH, self.namespace, (process.scope, done))) if done is not None else None
            self.events.ended_well(process, batch)  # type: ignore[arg-type]
            run.committed, run.state = process.result, "failed" if run.red else "success"

    def _ended(self, run: Run, work: str, state: str, ended: tuple[str, int] | None = None) -> None:
        if work in run.states:
            run.states[work] = (state, ended)
        if not run.to_do:
            run.task = "commit"

    def mark_work(self, run: Run, work: str, state: str) -> None:
        """A person marks a work that has not ended."""
        assert run.task == "work"
        for process in self.live(run):
            if process.work == work:
                process.abandoned = True
        run.state = "running"
        self._ended(run, work, state)
        self.say(f"{run.name}: {work} is marked {state} by hand")

    def _block(self, run: Run, kept: set[str]) -> None:
        """The works of the block as the DAG has them now; those that are ``kept`` stand as they ended."""
        states: dict[str, State] = {}
        for name in self.plans.block(run.group):
            if name in kept:
                states[name] = run.states[name]
            elif not runs(name):
                states[name] = ("success", None)
            else:
                states[name] = ("skipped" if self.plans.skips() else "none", None)
        run.states = states

    def clear(self, run: Run, task: str) -> None:
        """Clear a run from a task on, of the works all or some; a live process is killed by its supervisor, sooner or
        later."""
        self.stop(run, "running")
        if run.claimed is None:
            task = "claim"
        if task == "read" and not (run.claimed and run.claimed.groups):
            task = "freeze"
        if task == "commit" and (run.frozen is None or run.to_do):
            task = "work"
        if task != "commit":
            ended = [work for work in run.states if work not in run.to_do]
            self._block(run, {work for work in ended if task == "work" and not self.plans.clears()})
        if task == "work":
            task = "freeze"  # freeze is the setup of the block: clearing work clears it too
        run.task, run.red, run.tries, run.began_ms = task, False, {}, self.time.ms
        run.groups = [group.group for group in run.claimed.groups] if run.claimed else []
        run.clears += 1
        self.say(f"{run.name}: cleared from {task} on, {run.states}")

    # what the batches hold

    def manifest(self, batch_id: str) -> Manifest:
        if batch_id not in self._manifests:
            self._manifests[batch_id] = Manifest.loads(self.landing.manifests[batch_id])
        return self._manifests[batch_id]

    def records(self, batch_id: str) -> list[str]:
        """What was landed for a batch, wherever it is by now."""
        if batch_id not in self._records:
            self._records[batch_id] = [
                row for file in self.manifest(batch_id).files for row in self.landing.files[file.path]
            ]
        return self._records[batch_id]

    def readable(self, batch_id: str) -> list[str]:
        """What an application reads that passes over files that are missing."""
        files = self.landing.files
        return [row for file in self.manifest(batch_id).files for row in files.get(file.path, ())]


def expect_known(process: Process) -> None:
    """A process may end by an error of ours; a broken precondition, or any other exception, is a fault."""
    error = process.error
    if error is None or type(error).__name__ == "Killed":
        return
    told = f"{process} ended with {type(error).__name__}: {error}"
    if isinstance(error, Broken):
        return
    if not isinstance(error, ShardbatchError) or type(error) is ProtocolError:
        raise AssertionError(told) from error
    if isinstance(error, LeaseLost) and "all the while" in str(error):
        raise AssertionError(told) from error
