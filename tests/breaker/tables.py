# SPDX-License-Identifier: Apache-2.0
"""The rules that only the stream of a table has, and those who read while others come between."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.breaker.cleanings import Cleanings
from tests.breaker.losses import trim
from tests.breaker.process import ANSWERS, GO, Process
from tests.breaker.run import Run

#: The themes in which time passes, and records expire.
TIME = ("stream", "beside", "all")


class Tables(Cleanings):
    """A fifth of the breaker. ``trims`` and ``switches`` are how often these rules may be played."""

    kind = ""
    trims = switches = 0

    @rule(data=st.data(), keep=st.integers(0, 2), reads=st.booleans(), fresh=st.booleans())
    @precondition(lambda self: self.kind == "table" and self.theme in TIME and self.spent["trimmed"] < self.trims)
    def trim(self, data: Any, keep: int, reads: bool, fresh: bool) -> None:
        """The service drops records before their time, maybe such as came just now, or between two answers of a
        read."""
        stream = self.world.stream
        for shard in [shard for shard in stream.shards.values() if fresh and not shard.closed]:
            stream.put(*"ab", shard_id=shard.shard_id)
        process = self._reader_of_some(data) if reads else None
        if process is not None:
            self._read_some(process)
        held = [shard.shard_id for shard in stream.shards.values() if len(shard.items) > keep]
        if held:
            self.spent["trimmed"] += 1
            trim(self.world, data.draw(st.sampled_from(held)), keep)
        self._to_end(process)
        self.go_on(data)

    @rule(data=st.data(), anew=st.booleans(), reads=st.booleans())
    @precondition(lambda self: self.kind == "table" and self.theme in TIME and self.spent["switched"] < self.switches)
    def switch(self, data: Any, anew: bool, reads: bool) -> None:
        """Somebody disables the table's stream, or enables another one, or both, maybe while a run is about to read."""
        self.spent["switched"] += 1
        stream = self.world.stream
        process = self._reader_of_some(data) if reads else None
        if stream.enabled:
            stream.disable()
            self.world.say("The stream is disabled")
        if (anew or self.spent["switched"] > 1) and not stream.enabled:
            stream.enable()
            self.world.say(f"Another stream is enabled: {stream.arn}")
        self._to_end(process)
        self.go_on(data)

    def _reader_of_some(self, data: Any) -> Process | None:
        """A read task; a run goes well up to there if none is."""
        running = [run for run in self.world.runs if run.state == "running" and run.task in ("claim", "read")]
        return self._reader(data) or (self._at(data.draw(st.sampled_from(running)), "read") if running else None)

    def _reader(self, data: Any) -> Process | None:
        """A read task: one that is at work, else one that may begin."""
        reading = [p for p in self.world.processes if p.task == "read" and not p.finished]
        due = self._may_read()
        if not reading and not due:
            return None
        return (
            data.draw(st.sampled_from(reading)) if reading else self.world.start_task(*data.draw(st.sampled_from(due)))
        )

    def _may_read(self) -> list[tuple[Run, str | None]]:
        """The read tasks that may begin."""
        return [(run, group) for run in self.world.runs if run.task == "read" for group in self.world.due(run)]

    def _read_some(self, process: Process) -> None:
        """Up to where it asks for its second answer."""
        answers = 0
        while not process.finished and (process.at not in ANSWERS or not answers):
            answers += process.at in ANSWERS
            self._step(process, GO)

    def _to_end(self, process: Process | None) -> None:
        while process is not None and not process.finished:
            self._step(process, GO)
