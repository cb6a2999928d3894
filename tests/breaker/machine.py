# SPDX-License-Identifier: Apache-2.0
"""The rules that hypothesis plays: who goes on, what goes wrong, what people and the stream do meanwhile."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.ports import LeaseStore
from shardbatch.core.position import LATEST, TRIM_HORIZON, at_timestamp
from tests.breaker.ends import drain
from tests.breaker.faults import FATES, HandRenewal
from tests.breaker.laws import Laws
from tests.breaker.outputs import MOST_CALLS, OUTPUTS
from tests.breaker.persons import ASKING, VERBS, apt, choices, start
from tests.breaker.plans import Plans
from tests.breaker.process import ANSWERS, GO, Fate, Process
from tests.breaker.stores import namespace
from tests.breaker.table import Habits
from tests.breaker.tables import TIME, Tables
from tests.breaker.world import TASKS, World

#: A schedule keeps to a theme, so that what belongs together comes close together; ``all`` has everything. What works
#: make of a batch does not depend on its source.
THEMES = {
    "stream": "tries stream people people beside outputs outputs clean clean all",
    "table": "stream stream stream beside beside people tries clean all",
}
PEOPLE, BESIDE = ("people", "clean", "all"), ("beside", "all")
REPLAYS = ("people", "outputs", "clean", "all")
STREAM = ("stream", "people", "beside", "all")
MOST_RUNS = 6
MOST_RECORDS = 40
MOST_SHARDS = 7
MOST_INTERVALS = 2
MOST_VERBS = 3
MOST_RAINS = 2
#: How far a person gets with a verb before others come between, most often to the end.
CALLS_OF_PEOPLE = (80, 80, 0, 4)
HOUR_MS = 3_600_000
SHORT, LONG = timedelta(hours=24), timedelta(hours=168)
#: How a run reads: as most do, one shard only, one generation only, for a few minutes from its start, or for so short a
#: time that shards take turns.
READING: list[dict[str, Any]] = [
    {},
    {},
    {"max_shards": 1},
    {"drain": False},
    {"limits": ReadLimits(run_duration=timedelta(minutes=5), concurrency=1)},
    {"limits": ReadLimits(duration=timedelta(milliseconds=6), concurrency=1), "read_tasks": 1},
]
KEYS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6)


class Breaker(Tables):
    """A few runs of two deployments on one application, whose every call may meet another's."""

    store: ClassVar[LeaseStore]
    #: What is read: a ``stream`` of Kinesis' kind, scripted, or that of a ``table``, by the real source of it.
    kind: ClassVar[str] = "stream"

    @initialize(
        theme=st.integers(0, 7),
        keys=KEYS,
        shards=st.sampled_from([1, 2, 2]),
        reading=st.sampled_from(READING),
        reshards=st.lists(st.booleans(), max_size=2),
        start=st.sampled_from(["oldest", "oldest", "latest", "instant"]),
        ages=st.sampled_from([0, 0, 1, 50, 70, 3600]),
        reach=st.booleans(),
        lag=st.sampled_from([True, True, False]),
        word=st.sampled_from(["", "", "trimmed", "counted"]),
        habits=st.binary(min_size=16, max_size=16),
        trims=st.sampled_from([0, 0, 1, 2]),
        switches=st.sampled_from([0, 0, 0, 0, 1, 2]),
        tape=st.binary(min_size=80, max_size=80),
    )
    def begin(
        self,
        theme: int,
        keys: list[str],
        shards: int,
        reading: dict[str, Any],
        reshards: list[bool],
        start: str,
        ages: int,
        reach: bool,
        lag: bool,
        word: str,
        habits: bytes,
        trims: int,
        switches: int,
        tape: bytes,
    ) -> None:
        """A stream that may have been resharded already, with so many seconds between its generations, and a run that
        is about to begin, perhaps at an instant between the last two.

        Its service tells a ``lag``, or says of an answer only whether it is at the tip, and of a trimmed place what the
        ``word`` is. That of a table has ``habits``, may trim records before their time, and may be switched off and on.
        """
        themes = os.environ.get("BREAKER_THEMES", THEMES[self.kind]).split()
        self.theme, self.trims, self.switches = themes[theme % len(themes)], trims, switches
        self._renewal = patch("shardbatch.run.land.Renewal", HandRenewal)
        self._renewal.start()
        self._grace = patch("shardbatch.control.clean_outputs.READER_GRACE", timedelta(0))
        self._grace.start()
        plans = Plans(tape if self.theme in OUTPUTS else b"")
        of_table = Habits.of(Plans(habits)) if self.kind == "table" else None
        begins = LATEST if start == "latest" else TRIM_HORIZON
        self.world = World(self.store, namespace(), begins, shards, plans, of_table)
        self.world.reachable = reach
        self.world.stream.tells_lag, self.world.stream.word = lag, word
        self.author(plans)
        self.laws = Laws(self.world)
        self.spent = Counter()
        self.world.stream.put(*keys)
        for merge in reshards:
            self.world.time.ms += ages * 1000
            self.world.stream.reshard(1, merge=merge)
            self.world.stream.put(*keys)
        if start == "latest":
            self.world.time.ms += ages * 1000
        if start == "instant":
            self.world.start = at_timestamp(self.world.time.ms - ages * 700)
        self.world.say(f"A {self.kind} with {of_table}")
        self.world.new_run(**reading)

    # who goes on

    @rule(data=st.data())
    def go_on(self, data: Any) -> None:
        """Somebody goes on for some calls, the last of which may meet a fault, then somebody else; so rules end."""
        for _ in range(data.draw(st.integers(1, 4))):
            chosen = self._somebody(data)
            for number in reversed(range(data.draw(st.integers(1, MOST_CALLS)))):
                if chosen is None or chosen.finished:
                    break
                self._step(chosen, GO if number else self._fate(data, chosen))

    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        """Somebody goes on to the end of the task, and nobody comes between."""
        chosen = self._somebody(data)
        while chosen is not None and not chosen.finished:
            self._step(chosen, GO)

    @rule(data=st.data())
    @precondition(lambda self: self.spent["healthy"] < 1 and any(r.state == "running" for r in self.world.runs))
    def healthy(self, data: Any) -> None:
        """A run goes on to its end, as most do."""
        self.spent["healthy"] += 1
        run = data.draw(st.sampled_from([r for r in self.world.runs if r.state == "running"]))
        for _ in range(12):
            for chosen in self.world.live(run) + [self.world.start_task(run, group) for group in self.world.due(run)]:
                while not chosen.finished:
                    self._step(chosen, GO)

    def _somebody(self, data: Any) -> Process | None:
        due = [(run, group) for run in self.world.runs for group in self.world.due(run)]
        alive = [process for process in self.world.processes if not process.finished]
        if not due and not alive:
            return None
        chosen = data.draw(st.sampled_from([*due, *alive]))
        return chosen if isinstance(chosen, Process) else self.world.start_task(*chosen)

    def _fate(self, data: Any, process: Process) -> Fate:
        words = FATES.get(process.at)
        if words is None or not data.draw(st.booleans()):
            return GO
        word = data.draw(st.sampled_from(words))
        return Fate(word, data.draw(st.integers(1, 6)), data.draw(st.integers(0, 3))) if word == "stale" else Fate(word)

    def _step(self, process: Process, fate: Fate) -> None:
        self.world.say(f"{process}: {process.at} {fate}")
        process.step(fate)
        self.laws.look()
        if process.finished:
            self.world.settle(process)
            self.laws.answered(process)

    # what goes wrong

    @rule(data=st.data(), application_too=st.booleans())
    @precondition(lambda self: any(not p.finished for p in self.world.processes))
    def kill(self, data: Any, application_too: bool) -> None:
        """A worker is lost; Airflow tries the task again. In client mode its application goes with it."""
        process = data.draw(st.sampled_from([p for p in self.world.processes if not p.finished]))
        process.kill()
        if application_too:
            self.world.cluster.end(process.name)
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: any(self.world.live(run) for run in self.world.runs))
    def give_up(self, data: Any) -> None:
        """A try only looks dead: Airflow starts another, and it lives on."""
        live = [process for run in self.world.runs for process in self.world.live(run)]
        data.draw(st.sampled_from(live)).abandoned = True
        self.go_on(data)

    @rule(data=st.data(), state=st.sampled_from(["failed", "failed", "failed", "deleted"]))
    @precondition(lambda self: any(r.state == "running" for r in self.world.runs))
    def stop(self, data: Any, state: str) -> None:
        """A run is marked failed, or deleted; its processes may live on."""
        running = [run for run in self.world.runs if run.state == "running"]
        self.world.stop(data.draw(st.sampled_from(running)), state if self.theme in BESIDE else "failed")
        self.go_on(data)

    @rule(data=st.data(), task=st.sampled_from(TASKS))
    @precondition(lambda self: self._clearable())
    def clear(self, data: Any, task: str) -> None:
        """Somebody clears a run, whatever its state."""
        self.world.clear(data.draw(st.sampled_from(self._clearable())), task)
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: self.world.late)
    def arrive(self, data: Any) -> None:
        """A write that its caller gave up reaches the store after all."""
        self.world.deliver(data.draw(st.integers(0, len(self.world.late) - 1)))
        self.laws.look()
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: self.world.cluster.drivers())
    def compute(self, data: Any) -> None:
        """An application goes on, also when nobody looks after it any more, or when its cluster took it for dead."""
        application, driver = data.draw(st.sampled_from(self.world.cluster.drivers()))
        for _ in range(data.draw(st.integers(1, 4))):
            application.step(self.world.landing, driver)
        self.laws.look()
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: any(p.renewal and not p.finished for p in self.world.processes))
    def renew(self, data: Any) -> None:
        """A read's other thread shows that it is alive."""
        reading = [p for p in self.world.processes if p.renewal and not p.finished]
        data.draw(st.sampled_from(reading)).renewal.renew()
        self.laws.look()
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: self.spent["rain"] < MOST_RAINS)
    @precondition(lambda self: self._may_read() or any(not p.finished for p in self.world.processes))
    def rain(self, data: Any) -> None:
        """A task meets one trouble after the other, most often one that reads."""
        self.spent["rain"] += 1
        process = self._reader(data) or data.draw(st.sampled_from([p for p in self.world.processes if not p.finished]))
        for _ in range(data.draw(st.integers(2, 2 * MOST_CALLS))):
            if not process.finished:
                self._step(process, GO if data.draw(st.booleans()) else self._fate(data, process))

    # what Airflow, people and the stream do

    @rule(
        data=st.data(),
        deployment=st.sampled_from(["here", "there"]),
        gap=st.sampled_from(GapPolicy),
        most=st.sampled_from([None, None, 1, 2]),
        reading=st.sampled_from(READING),
    )
    @precondition(lambda self: len(self.world.runs) < MOST_RUNS)
    def schedule(self, data: Any, deployment: str, gap: GapPolicy, most: int | None, reading: dict[str, Any]) -> None:
        """The next run begins, whether or not the last has ended."""
        policies = Policies(gap=gap, max_attempts=most)
        deployment = deployment if self.theme in BESIDE else "here"
        self.world.new_run(deployment=deployment, policies=policies, group=self._group(), **reading)
        self.go_on(data)

    def _group(self) -> str:
        return self.world.plans.choose(("orders", "second")) if self.world.sharing else "orders"

    @rule(data=st.data(), hours=st.integers(1, 26), gap=st.sampled_from(GapPolicy))
    @precondition(
        lambda self: (
            self.theme in OUTPUTS
            and len(self.world.runs) < MOST_RUNS
            and sum(r.interval is not None for r in self.world.runs) < MOST_INTERVALS
        )
    )
    def backfill(self, data: Any, hours: int, gap: GapPolicy) -> None:
        """An interval run begins, beside the live ones; its interval was over a while ago, or just now, or is that of
        one before."""
        ago = data.draw(st.sampled_from([0, HOUR_MS // 3])) if self.theme != "outputs" else 0
        end = self.world.time.ms - ago
        spans = [Interval(end - hours * HOUR_MS, end), *(r.interval for r in self.world.runs if r.interval)]
        span = data.draw(st.sampled_from(spans[::-1]))
        self.world.new_run(interval=span, policies=Policies(gap=gap))
        self.go_on(data)

    @rule(data=st.data(), verb=st.sampled_from(VERBS), force=st.booleans(), kind=st.integers(0, 2))
    @precondition(lambda self: self.theme in PEOPLE or self.theme in OUTPUTS)
    @precondition(lambda self: self.spent["verbs"] < MOST_VERBS and self.world.rows)
    def act(self, data: Any, verb: str, force: bool, kind: int) -> None:
        """A person begins one of the verbs, most often one that has something to do, and is quick; where people are not
        the theme, one that ends a batch."""
        fit = apt(self.world)
        if self.theme not in PEOPLE:
            verb, fit = ASKING[kind % len(ASKING)], {name: fit[name] for name in ASKING if name in fit}
        if fit and data.draw(st.integers(0, 3)):
            verb = data.draw(st.sampled_from(sorted(fit)))
        names = fit.get(verb) or choices(self.world, verb)
        if names:
            self.spent["verbs"] += 1
            person = start(self.world, verb, data.draw(st.sampled_from(names)), force=force, kind=kind)
            for _ in range(data.draw(st.sampled_from(CALLS_OF_PEOPLE))):
                if not person.finished:
                    self._step(person, GO)
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: self.theme in REPLAYS and self.laws.books.decided and len(self.world.runs) < MOST_RUNS)
    def replay(self, data: Any) -> None:
        """A run begins that was told to replay a batch, whoever committed it."""
        live = sorted(batch_id for batch_id, batch in self.laws.books.decided.items() if not batch.scope)
        if live:
            self.world.new_run(replay=data.draw(st.sampled_from(live)), group=self._group())
        self.go_on(data)

    @rule(data=st.data(), keys=KEYS, packed=st.booleans())
    @precondition(lambda self: self.theme in STREAM and len(self.world.stream.sent) < MOST_RECORDS)
    def put(self, data: Any, keys: list[str], packed: bool) -> None:
        """Records come, or one aggregate of them, in which a limit may end a slice."""
        put = self.world.stream.pack if packed else self.world.stream.put
        put(*keys)
        self.go_on(data)

    @rule(data=st.data(), keys=KEYS, seconds=st.sampled_from([1, 30, 59]))
    @precondition(lambda self: self.theme in STREAM and len(self.world.stream.sent) < MOST_RECORDS)
    def put_late(self, data: Any, keys: list[str], seconds: int) -> None:
        """Records come whose arrival is stamped a little in the past; it may be that of an interval which is over."""
        self.world.stream.late(seconds * 1000, *keys)
        self.go_on(data)

    @rule(data=st.data(), at=st.integers(0, 5), merge=st.booleans(), late=st.sampled_from([None, None, 0, 30, 59]))
    @precondition(lambda self: self.theme in STREAM and len(self.world.stream.shards) < MOST_SHARDS)
    def reshard(self, data: Any, at: int, merge: bool, late: int | None) -> None:
        """Shards close in favour of others, which may have records at once, even from a clock that is behind."""
        self.world.stream.reshard(at, merge=merge)
        if late is not None and len(self.world.stream.sent) < MOST_RECORDS:
            self.world.stream.late(late * 1000, *"aceg")
        self.go_on(data)

    @rule(data=st.data(), hours=st.sampled_from([0.05, 0.5, 2, 13, 25, 50]))
    @precondition(lambda self: self.theme in TIME and self.spent["wait"] < 5)
    def time_passes(self, data: Any, hours: float) -> None:
        """Leases and attempts look old, after a day records expire, and after two rows of old shards may go."""
        self.spent["wait"] += 1
        self.world.time.ms += int(timedelta(hours=hours).total_seconds() * 1000)
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: self.theme in TIME and self.spent["still"] < 2 and self._may_read())
    def stand_still(self, data: Any) -> None:
        """A machine sleeps for a day between two answers of a read; records come, and expire before it wakes up."""
        process = self._reader(data)
        assert process is not None
        self._read_some(process)
        if process.at in ANSWERS and not process.finished:
            self.spent["still"] += 1
            still = [shard.shard_id for shard in self.world.stream.shards.values() if not shard.closed]
            for hours in (25, 0):  # what comes first expires, what comes last is what the next answer has
                for shard_id in still:
                    self.world.stream.put("a", shard_id=shard_id)
                self.world.time.ms += hours * HOUR_MS
        while not process.finished:
            self._step(process, GO)

    @rule(data=st.data())
    @precondition(
        lambda self: self.theme in TIME and self.spent["retention"] < 2 and self.world.rows and self.kind == "stream"
    )
    def keep(self, data: Any) -> None:
        """Somebody raises the stream's retention, or lowers it again; what has expired does not come back."""
        self.spent["retention"] += 1
        stream = self.world.stream
        stream.expire()
        stream.retention = LONG if stream.retention == SHORT else SHORT
        self.go_on(data)

    @rule(data=st.data())
    @precondition(lambda self: self.theme in TIME and self.spent["ahead"] < 1)
    def run_ahead(self, data: Any) -> None:
        """The clock of a worker is ahead by days, once."""
        self.spent["ahead"] += 1
        self.world.ahead_ms = 300 * HOUR_MS
        self.go_on(data)

    def _tell(self) -> None:
        """The whole story, of a schedule that failed."""
        for line in self.world.said:
            note(str(line))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if not self.laws.broken:
                drain(self.world, self.laws)
            else:
                self._tell()
        except BaseException:
            self._tell()
            raise
        finally:
            for process in self.world.processes:
                process.kill()
            self._renewal.stop()
            self._grace.stop()
