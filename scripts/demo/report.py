# SPDX-License-Identifier: Apache-2.0
"""The report at the end: what went in and came out, where the time went, and whether the two agree."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from datetime import datetime
from typing import Any

from scripts.demo.console import Console, DemoError
from scripts.demo.flights import Day, Expected, Tally, by_carrier
from scripts.demo.folder import DemoFolder
from scripts.demo.stream import DemoStream
from scripts.demo.watcher import STEPS, Watcher
from scripts.environment import process_environment, python_path
from scripts.sessions import end_sessions
from scripts.spark_connect import LOOPBACK, ConnectServer

#: Lines of a difference that are shown.
SHOWN = 20

Interval = tuple[float, float]


class Report:
    """Gathers what the story notes on its way, and shows all at the end."""

    def __init__(self, console: Console) -> None:
        self.start_seconds = 0.0
        self._console = console

    def show(
        self, watcher: Watcher, stream: DemoStream, expected: Expected, folder: DemoFolder, spark: ConnectServer
    ) -> bool:
        """Print the report; whether the output equals the source data."""
        console = self._console
        console.say("reading the committed output with read_committed, in a Spark session of its own")
        began = time.monotonic()
        found = read_output(folder, spark)
        check_seconds = time.monotonic() - began
        console.show()
        self._show_totals(watcher, stream, found)
        self._show_batches(watcher)
        self._show_checkpoints(watcher)
        self._show_times(watcher, stream, check_seconds)
        return self._show_carriers(expected, found) and self._show_agreement(watcher, stream, expected, found)

    def _show_totals(self, watcher: Watcher, stream: DemoStream, found: dict[Day, Tally]) -> None:
        shards = stream.shards()
        closed = len(shards) - len(stream.open_shards())
        out = sum(day.flights for day in found.values())
        lines = {
            "records in": f"{stream.put_records:,}",
            "records out": f"{out:,}",
            "batches": f"{watcher.progress.committed} committed",
            "shards completed": f"{watcher.progress.completed} of {closed} closed ones; {len(shards)} shards in all "
            f"({stream.first_shards} at first, one split, two merged)",
        }
        for name, text in lines.items():
            self._console.show(f"    {name:17} {text}")

    def _show_batches(self, watcher: Watcher) -> None:
        rows = [
            (batch.batch_id, batch.state.lower(), f"{batch.records:,}", f"{batch.bytes / 1e6:.1f}", batch.attempt)
            for batch in watcher.batches()
        ]
        self._console.show()
        self._console.table(rows, ("batch", "state", " records", " MB", " attempt"))

    def _show_checkpoints(self, watcher: Watcher) -> None:
        rows = [
            (shard.shard_id, ", ".join(_short(parent) for parent in shard.parent_shard_ids) or "-", shard.checkpoint)
            for shard in watcher.shards()
        ]
        self._console.show()
        self._console.table(rows, ("shard", "parents", "checkpoint"))

    def _show_times(self, watcher: Watcher, stream: DemoStream, check_seconds: float) -> None:
        steps, airflow = spent(watcher)
        rows = [
            ("start of Airflow and Spark", self.start_seconds, "while the first third is put into the stream"),
            ("fill", stream.fill_seconds, "most of it while something else goes on"),
            *((f"  {name}", seconds, "") for name, seconds in steps.items()),
            ("  Airflow between tasks", airflow, "scheduling, queueing, starting the tasks' processes"),
            ("check", check_seconds, "read_committed and the sums, in a Spark session of its own"),
            ("the demo so far", self._console.elapsed, ""),
        ]
        self._console.show()
        self._console.show(f"    where the time went ({len(watcher.runs)} runs)")
        for name, seconds, note in rows:
            self._console.show(f"    {name:36} {seconds:6.1f} s  {note}".rstrip())

    def _show_carriers(self, expected: Expected, found: dict[Day, Tally]) -> bool:
        wanted, got = expected.by_carrier(), by_carrier(found)
        rows = []
        for carrier in {**wanted, **got}:
            source, output = wanted.get(carrier, Tally()), got.get(carrier, Tally())
            mean = output.delay_minutes / output.departures if output.departures else 0.0
            same = "equal" if source == output else "DIFFERENT"
            rows.append(
                (carrier, f"{source.flights:,}", f"{output.flights:,}", f"{output.departures:,}", f"{mean:.1f}", same)
            )
        self._console.show()
        self._console.table(rows, ("carrier", " in source", " in output", " departures", " mean delay (min)", ""))
        return wanted == got

    def _show_agreement(
        self, watcher: Watcher, stream: DemoStream, expected: Expected, found: dict[Day, Tally]
    ) -> bool:
        different = [day for day in sorted({*expected.days, *found}) if expected.days.get(day) != found.get(day)]
        self._console.show()
        for carrier, date in different[:SHOWN]:
            source, output = expected.days.get((carrier, date)), found.get((carrier, date))
            self._console.show(f"    {carrier} on {date}: source {source}, output {output}")
        if different:
            self._console.show(f"    {len(different)} of {len(expected.days)} carriers' days differ")
            return False
        if not watcher.progress.records == stream.put_records == expected.flights:
            self._console.show(
                f"    counts differ: {expected.flights} read from the package, {stream.put_records} put, "
                f"{watcher.progress.records} committed"
            )
            return False
        self._console.show(
            f"    The output equals the source data: {expected.flights:,} flights of {len(expected.by_carrier())} "
            f"carriers on {len(expected.days):,} carriers' days, none lost, none twice."
        )
        return True


def read_output(folder: DemoFolder, spark: ConnectServer) -> dict[Day, Tally]:
    """The sums of the committed output.

    :raises DemoError: with what it printed, if the job fails.
    """
    answer = folder.path / "sums.json"
    env = process_environment() | {"SPARK_REMOTE": spark.url, "PYTHONPATH": python_path()}
    env["no_grpc_proxy"] = LOOPBACK
    command = [sys.executable, "-m", "scripts.demo.count", str(folder.output), str(answer)]
    with (folder.path / "count.log").open("w+b") as log:
        job = subprocess.Popen(
            command, cwd=folder.path, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = job.wait()
        finally:
            end_sessions([job.pid])
            job.wait()
        if code:
            log.seek(0)
            raise DemoError(f"The committed output could not be read:\n{log.read().decode(errors='replace')[-3000:]}")
    rows: list[tuple[str, str, int, int, int]] = json.loads(answer.read_text("utf-8"))
    return {(carrier, date): Tally(*sums) for carrier, date, *sums in rows}


def spent(watcher: Watcher) -> tuple[dict[str, float], float]:
    """Seconds of each step over all runs, mapped tasks that ran at once counted once; and those of no step."""
    steps: dict[str, float] = dict.fromkeys(STEPS, 0.0)
    between = 0.0
    for run_id, run in watcher.runs.items():
        by_step: dict[str, list[Interval]] = defaultdict(list)
        for task in watcher.tasks.get(run_id, ()):
            if task["start_date"] and task["end_date"]:
                by_step[task["task_id"].rpartition(".")[2]].append(_interval(task))
        for step, intervals in by_step.items():
            steps[step] = steps.get(step, 0.0) + covered(intervals)
        if run["start_date"] and run["end_date"]:
            first, last = _interval(run)
            between += last - first - covered([item for intervals in by_step.values() for item in intervals])
    return steps, between


def covered(intervals: list[Interval]) -> float:
    """Seconds that lie in at least one of the intervals."""
    total, reached = 0.0, float("-inf")
    for first, last in sorted(intervals):
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total


def _interval(item: dict[str, Any]) -> Interval:
    first, last = (datetime.fromisoformat(item[name].replace("Z", "+00:00")) for name in ("start_date", "end_date"))
    return first.timestamp(), last.timestamp()


def _short(shard_id: str) -> str:
    return f"…{shard_id[-3:]}"
