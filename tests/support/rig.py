# SPDX-License-Identifier: Apache-2.0
"""Runs of an application without Airflow: each takes the steps itself, over real landing and any store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.decision import Decision
from shardbatch.core.owner import Owner
from shardbatch.core.ports import Clock, LeaseStore, Verdict
from shardbatch.core.position import Position, after
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.core.start import Begun, EndRecord, Start, Work
from shardbatch.landing.area import StagingArea
from shardbatch.landing.layout import BEGUN, DONE, MARKERS, start_name, work_folder, works_folder
from shardbatch.run import Claim, Committed, Consumer, Frozen, Outcome, claim, commit, freeze, land
from shardbatch.run.end_record import Ended, leave_end_record
from shardbatch.stores.memory import MemoryStore
from tests.support.scripted import ScriptedStream


@dataclass
class FakeTime:
    """A clock that sleeping moves, and each look by a millisecond."""

    ms: int = 1_800_000_000_000

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)

    def clock(self) -> Clock:
        return Clock(now_ms=self.now_ms, monotonic=lambda: self.ms / 1000, sleep=self.sleep)


@dataclass
class Rig:
    """An application on a scripted stream, with the verdicts that a test sets for its owners."""

    folder: Path
    stream: ScriptedStream = field(default_factory=ScriptedStream)
    store: LeaseStore = field(default_factory=MemoryStore)
    time: FakeTime = field(default_factory=FakeTime)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    starts: list[tuple[str, str]] = field(default_factory=list)
    tries: int = 0
    app: str = "etl"

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.app, self.stream.name)

    def consumer(self, **changes: Any) -> Consumer:
        self.folder.mkdir(exist_ok=True)
        consumer = Consumer(
            namespace=self.namespace,
            source=self.stream,
            store=self.store,
            landing=StagingArea(str(self.folder)),
            liveness=self.verdict,
            deployment="here",
            clock=self.time.clock(),
            say=self.said.append,
            warn=self.said.append,
        )
        return replace(consumer, **{**self.options, **changes})

    def verdict(self, owner: str) -> Verdict:
        """As Airflow answers: a text that is no run's is nobody that it knows."""
        return self.verdicts.get(owner, Verdict.ACTIVE if Owner.parse(owner) else Verdict.FOREIGN)

    def owner(self, run: str) -> Owner:
        return Owner("here", "dag", run, "orders")

    def over(self, run: str) -> None:
        """Airflow reports this run finished from now on."""
        self.verdicts[str(self.owner(run))] = Verdict.OVER

    def claim(self, run: str, **changes: Any) -> Claim:
        return claim(self.consumer(**changes), self.owner(run))

    def land(self, run: str, found: Claim, **changes: Any) -> list[Any]:
        consumer = self.consumer(**changes)
        return [land(consumer, self.owner(run), g.group, self.stream.now_ms + 1) for g in found.groups]

    def freeze(self, run: str, handed: str | None = None, **changes: Any) -> Frozen:
        return freeze(self.consumer(**changes), self.owner(run), handed)

    def work(self, frozen: Frozen, name: str = "transform", start_id: str | None = None, **said: Any) -> str:
        """What a task does that ends well: an application with one start, then its end record."""
        chosen = self.start(frozen, name, start_id, **said)
        self.end(frozen, name, token=said.get("token", ""))
        return chosen

    def start(
        self,
        frozen: Frozen,
        name: str = "transform",
        start_id: str | None = None,
        *,
        roots: Sequence[str] = ("out",),
        token: str = "",
        incarnation: str = "",
        done: bool = True,
    ) -> str:
        """One start of an application: its begun marker, its output below each root, then its done marker."""
        assert frozen.batch_id is not None
        first = f"s{frozen.attempt}"
        chosen = start_id or (
            first if (frozen.batch_id, first) not in self.starts else f"{first}-{len(self.starts):04d}"
        )
        self.starts.append((frozen.batch_id, chosen))
        self._leave(frozen, BEGUN, Begun(chosen, frozen.attempt, name, token, incarnation or token))
        outputs = [root if ":" in root else str(self.folder.parent / root) for root in roots]
        for out in outputs:
            place = Path(out.removeprefix("file://")) / f"batch_id={frozen.batch_id}" / f"start={chosen}"
            place.mkdir(parents=True, exist_ok=True)
            (place / "records.json").write_text(json.dumps(self.records(frozen.batch_id)))
        if done:
            self._leave(frozen, DONE, Start(chosen, frozen.attempt, name, tuple(outputs)))
        return chosen

    def _leave(self, frozen: Frozen, kind: str, mark: Begun | Start) -> None:
        assert frozen.batch_id is not None
        works = self.folder / works_folder(self.namespace, frozen.batch_id)
        marker = works / work_folder(mark.work) / kind / start_name(mark.attempt, mark.start_id) / "mark.json"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(json.dumps(mark.to_json()))

    def end(self, frozen: Frozen, name: str = "transform", *, token: str = "", only: bool = False) -> EndRecord:
        """The last act of a task that ends well."""
        assert frozen.batch_id is not None
        self.tries += 1
        ended = Ended(frozen.batch_id, frozen.attempt, name, self.tries, token, f"try-{self.tries}", only)
        return leave_end_record(StagingArea(str(self.folder)), self.namespace, ended)

    def commit(
        self, run: str, frozen: Frozen, *, works: Sequence[str | Work] = ("transform",), **changes: Any
    ) -> Committed:
        """A commit in whose block these tasks ended as a success."""
        ended = [work if isinstance(work, Work) else Work(work) for work in works]
        return commit(self.consumer(**changes), self.owner(run), frozen.batch_id, frozen.attempt, works=ended)

    def run(self, run: str, **changes: Any) -> Committed:
        """One whole healthy run, over when it returns."""
        found = self.claim(run, **changes)
        committed = Committed()
        if found.outcome not in (Outcome.NOTHING, Outcome.HELD):
            self.land(run, found, **changes)
            frozen = self.freeze(run, found.batch_id, **changes)
            if frozen.record_count:
                self.work(frozen)
            committed = self.commit(run, frozen, **changes)
        self.over(run)
        return committed

    def manifest(self, batch_id: str) -> dict[str, Any]:
        folder = self.folder / self.app / self.stream.name / "batches" / batch_id
        return dict(json.loads((folder / "manifest.json").read_bytes()))

    def records(self, batch_id: str) -> list[str]:
        """The records of a batch by their places, in the order that its manifest gives: a sequence number, and inside
        of an aggregate ``number/sub-sequence number``."""
        found: list[str] = []
        for entry in self.manifest(batch_id)["slices"]:
            for file in entry["files"]:
                landed = pq.read_table(self.folder / file["path"]).to_pydict()
                found += map(str, map(after, landed["sequence_number"], landed["sub_sequence_number"]))
        return found

    def batches(self, state: BatchState | None = None) -> list[Batch]:
        rows: list[Any] = list(self.store.list(BATCH, self.namespace))
        return [row for row in rows if state is None or row.state is state]

    def committed(self) -> list[str]:
        """The records of all committed batches, batch after batch."""
        done = sorted(self.batches(BatchState.COMMITTED), key=lambda b: b.batch_id)
        return [number for batch in done for number in self.records(batch.batch_id)]

    def decisions(self, root: str = "out") -> dict[str, Decision]:
        """Of each batch that a root is told of, the highest decision."""
        highest: dict[str, Decision] = {}
        for marker in sorted((self.folder.parent / root / MARKERS).glob("*.json")):
            told = Decision.from_json(json.loads(marker.read_text()))
            if told.batch_id not in highest or told.decided > highest[told.batch_id].decided:
                highest[told.batch_id] = told
        return highest

    def starts_read(self, root: str = "out") -> list[str]:
        """The starts that a live reader of a root reads."""
        told = self.decisions(root).values()
        return sorted(start_id for one in told if one.interval is None or one.joins for start_id, _ in one.starts)

    def sink(self, root: str = "out") -> list[str]:
        """What a live reader of a root sees."""
        seen: list[str] = []
        for told in self.decisions(root).values():
            for start_id, _ in told.starts if told.interval is None or told.joins else ():
                place = self.folder.parent / root / f"batch_id={told.batch_id}" / f"start={start_id}"
                seen.extend(json.loads((place / "records.json").read_text()))
        return sorted(seen, key=Position.parse)
