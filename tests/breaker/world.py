# SPDX-License-Identifier: Apache-2.0
"""Airflow as the breaker plays it: runs, tasks, attempts that look dead and live on; and what must stay true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from shardbatch.consumer import Claim, Committed, Consumer, Frozen, Outcome, Turn, begin, claim, commit, freeze, land
from shardbatch.core.batch import Batch, BatchState, Start
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.manifest import Manifest
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import LeaseStore, Verdict
from shardbatch.core.rows import BATCH, SHARD_LEASE, Namespace
from tests.breaker.memory_landing import MemoryLanding
from tests.breaker.process import Process, SteppedLanding, SteppedSource, SteppedStore
from tests.support.rig import FakeTime
from tests.support.scripted import ScriptedStream

NAMESPACE = Namespace("etl", "orders")
TASKS = ("claim", "read", "freeze", "work", "commit")


@dataclass
class Run:
    """A DAG run: its state, its next task, and what its tasks answered."""

    name: str
    state: str = "running"
    task: str = "claim"
    clears: int = 0
    claimed: Claim | None = None
    frozen: Frozen | None = None
    committed: Committed | None = None
    group: int = 0

    @property
    def owner(self) -> Owner:
        return Owner("here", "dag", self.name, "orders")


@dataclass
class World:
    """The stream, the store, the runs and the processes; every process writes through it."""

    store: LeaseStore
    stream: ScriptedStream = field(default_factory=lambda: ScriptedStream(shards=2, page_size=2))
    landing: MemoryLanding = field(default_factory=MemoryLanding)
    time: FakeTime = field(default_factory=FakeTime)
    runs: list[Run] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    highest: dict[str, Any] = field(default_factory=dict)
    unsure: bool = False
    said: list[str] = field(default_factory=list)
    _count: int = 0

    def consumer(self, process: Process | None = None, **changes: Any) -> Consumer:
        base = Consumer(
            namespace=NAMESPACE,
            source=SteppedSource(self.stream, process) if process else self.stream,
            store=SteppedStore(self.store, process) if process else self.store,
            landing=SteppedLanding(self.landing, process) if process else self.landing,  # type: ignore[arg-type]
            liveness=self.verdict,
            deployment="here",
            limits=ReadLimits(records=4, concurrency=1),
            options=ClaimOptions(read_tasks=2),
            clock=self.time.clock(),
            say=self.said.append,
            warn=self.said.append,
        )
        return replace(base, **changes)

    def verdict(self, owner: str) -> Verdict:
        run = next(r for r in self.runs if str(r.owner) == owner)
        return Verdict.ACTIVE if run.state == "running" else Verdict.OVER

    def put(self, *keys: str) -> None:
        self.sent.extend(self.stream.put(*keys))

    # Airflow

    def new_run(self) -> Run:
        self._count += 1
        run = Run(f"r{self._count}")
        self.runs.append(run)
        return run

    def live(self, run: Run) -> Process | None:
        """The process that Airflow believes to be the run's current task."""
        return next((p for p in self.processes if p.run == run.name and not p.abandoned and not p.finished), None)

    def start_task(self, run: Run) -> Process:
        """Start the run's next task, as the scheduler does."""
        body = {
            "claim": self._claim,
            "read": self._read,
            "freeze": self._freeze,
            "work": self._work,
            "commit": self._commit,
        }
        number = sum(p.run == run.name for p in self.processes)
        process = Process(f"{run.name}.{run.task}.{number}", run.name, run.task, self._bound(run, body[run.task]))
        self.processes.append(process)
        return process

    def _bound(self, run: Run, body: Callable[[Run, Process, Any], Any]) -> Callable[[Process], Any]:
        seen = (run.claimed, run.frozen, run.group)
        return lambda process: body(run, process, seen)

    def _claim(self, run: Run, process: Process, seen: Any) -> Claim:
        return claim(self.consumer(process), run.owner)

    def _read(self, run: Run, process: Process, seen: Any) -> Any:
        claimed, _, group = seen
        return land(self.consumer(process), run.owner, claimed.groups[group].group, self.stream.now_ms + 1)

    def _freeze(self, run: Run, process: Process, seen: Any) -> Frozen:
        return freeze(self.consumer(process), run.owner, seen[0].batch_id)

    def _work(self, run: Run, process: Process, seen: Any) -> None:
        frozen: Frozen = seen[1]
        assert frozen.batch_id is not None
        if begin(self.consumer(process), run.owner, frozen.batch_id, frozen.attempt) is Turn.ALREADY_COMMITTED:
            return
        process.pause()
        rows = self.records(frozen.batch_id)
        start = Start(process.name, frozen.attempt, "work", ("out",))
        for number in range(0, len(rows), 2):
            process.pause()
            self.landing.outputs.setdefault((frozen.batch_id, start.start_id), []).extend(rows[number : number + 2])
        process.pause()
        self.landing.starts.setdefault(frozen.batch_id, []).append(start)

    def _commit(self, run: Run, process: Process, seen: Any) -> Committed:
        frozen: Frozen = seen[1]
        return commit(self.consumer(process), run.owner, frozen.batch_id, frozen.attempt)

    def settle(self, process: Process) -> None:
        """Airflow takes note of a task that has ended, and goes on with the run."""
        run = next(r for r in self.runs if r.name == process.run)
        if process.abandoned or not process.finished or run.state != "running":
            return
        process.abandoned = True
        if process.error is not None:
            run.state = "failed"
            return
        self._follow(run, process)

    def _follow(self, run: Run, process: Process) -> None:
        if process.task == "claim":
            run.claimed, run.group = process.result, 0
            if run.claimed is not None and run.claimed.outcome in (Outcome.NOTHING, Outcome.HELD):
                run.state = "success"
            run.task = "read" if run.claimed and run.claimed.groups else "freeze"
        elif process.task == "read":
            run.group += 1
            assert run.claimed is not None
            run.task = "read" if run.group < len(run.claimed.groups) else "freeze"
        elif process.task == "freeze":
            run.frozen = process.result
            run.task = "work" if run.frozen is not None and run.frozen.record_count else "commit"
        elif process.task == "work":
            run.task = "commit"
        else:
            run.committed, run.state = process.result, "success"

    def clear(self, run: Run, task: str) -> None:
        """Clear a run from a task on; a live process is killed by its supervisor, sooner or later."""
        process = self.live(run)
        if process is not None:
            process.abandoned = True
        if TASKS.index(task) > TASKS.index("claim") and run.claimed is None:
            task = "claim"
        if task == "read" and not (run.claimed and run.claimed.groups):
            task = "freeze"
        if task in ("work", "commit") and run.frozen is None:
            task = "freeze"
        if task == "work":
            task = "freeze"  # freeze is the setup of the block: clearing work clears it too
        run.state, run.task, run.group = "running", task, 0
        run.clears += 1

    # What must stay true

    def leases(self) -> list[Lease]:
        return list(self.store.list(SHARD_LEASE, NAMESPACE))  # type: ignore[arg-type]

    def batches(self, state: BatchState | None = None) -> list[Batch]:
        rows: list[Batch] = list(self.store.list(BATCH, NAMESPACE))  # type: ignore[arg-type]
        return [row for row in rows if state is None or row.state is state]

    def records(self, batch_id: str) -> list[str]:
        manifest = Manifest.loads(self.landing.manifests[batch_id])
        return [row for file in manifest.files for row in self.landing.files[file.path]]

    def check(self) -> None:
        """DESIGN section 7, after every step."""
        committed = self.batches(BatchState.COMMITTED)
        rows = [row for batch in committed for row in self.records(batch.batch_id)]
        assert len(rows) == len(set(rows)), "a record is in two committed batches"
        self._check_slices(committed)
        for lease in self.leases():
            before = self.highest.get(lease.shard_id)
            assert before is None or before <= lease.checkpoint, "a checkpoint moved back"
            self.highest[lease.shard_id] = lease.checkpoint
            assert lease.pending is None or lease.pending.after == lease.checkpoint
        for batch in committed:
            if batch.records:
                assert batch.start, "committed without a finished start"
                out = [r for s in batch.start for r in self.landing.outputs[batch.batch_id, s.start_id]]
                assert out == self.records(batch.batch_id), "the recorded start is not the batch"
        done = {batch.batch_id for batch in committed}
        for batch_id, published in self.landing.published().items():
            assert batch_id in done, "published before the decision"
            assert published == self.records(batch_id), "readers see something else than the batch"

    def _check_slices(self, committed: list[Batch]) -> None:
        slices: dict[str, list[Any]] = {}
        member: dict[str, dict[str, bool]] = {}
        for batch in committed:
            for entry in Manifest.loads(self.landing.manifests[batch.batch_id]).slices:
                slices.setdefault(entry.slice.shard_id, []).append(entry.slice)
                member.setdefault(batch.batch_id, {})[entry.slice.shard_id] = entry.slice.ended
        ended = {shard for shard, parts in slices.items() if any(part.ended for part in parts)}
        for shard, parts in slices.items():
            ordered = sorted(parts, key=lambda part: part.after)
            for one, two in pairwise(ordered):
                assert one.until == two.after, f"slices of {shard} do not meet"
            for parent in self.stream.shards[shard].parents:
                assert parent in ended, f"{shard} was committed before its parent {parent} ended"
        for shard, parts in slices.items():
            lease = next(row for row in self.leases() if row.shard_id == shard)
            assert lease.checkpoint <= max(part.until for part in parts), "a checkpoint passed what is committed"

    def drain(self) -> None:
        """Faults stop: all that ran is over, and healthy runs take the stream to its end (liveness)."""
        for process in self.processes:
            process.kill()
        for run in self.runs:
            run.state = "failed" if run.state == "running" else run.state
        for _ in range(12 + len(self.sent)):
            run = self.new_run()
            while run.state == "running":
                process = self.start_task(run)
                process.end()
                self.settle(process)
                self.check()
            assert run.state == "success", f"a healthy run failed: {self.processes[-1].error!r}"
            if run.committed is not None and run.committed.batch_id is None:
                break
        committed = [row for batch in self.batches(BatchState.COMMITTED) for row in self.records(batch.batch_id)]
        assert sorted(committed, key=int) == self.sent, "records are missing"
        seen = [row for rows in self.landing.published().values() for row in rows]
        assert sorted(seen, key=int) == self.sent, "readers miss records"
