# SPDX-License-Identifier: Apache-2.0
"""A worker of a deployment as a process of its own: it takes the steps of one run when it is told to.

Its only argument is JSON (see :class:`Given`). It reads a step a line from standard input and answers each with a line
of JSON: what the step found, or the name of its error. What its Airflow knows of runs stands in a file.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3

from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Clock, Verdict
from shardbatch.errors import ShardbatchError
from shardbatch.run import Claim, Frozen, Outcome, hold, land
from shardbatch.sources.kinesis.source import KinesisSource
from shardbatch.stores.sql import SQLStore
from tests.support.rig import Rig


@dataclass(frozen=True)
class Given:
    """``airflow`` is the file with the states of the runs that this worker's Airflow knows; a run that is not in it is
    *not found*. ``ahead_ms`` is how far the wall clock is off. While the file ``mute`` is there no lease is renewed,
    and while ``slow`` is there no read comes to its first page, each leaving a file ``slow.reading`` beside it."""

    folder: str
    endpoint: str
    stream: str
    store: str
    deployment: str
    run: str
    airflow: str
    lease_duration: float
    ahead_ms: int = 0
    mute: str = ""
    slow: str = ""


def client(endpoint: str) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="y",
    )


class Worker:
    """The steps of one run."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.me = Owner(given.deployment, "dag", given.run, "orders")
        self.source = KinesisSource(client(given.endpoint), given.stream)
        self.rig = Rig(Path(given.folder) / "staging", stream=self.source, store=SQLStore(given.store))  # type: ignore[arg-type]
        self.rig.owner = lambda run: self.me  # type: ignore[method-assign]
        wall = Clock(lambda: time.time_ns() // 1_000_000 + given.ahead_ms, time.monotonic, time.sleep)
        self.rig.options = {
            "liveness": self.verdict,
            "deployment": given.deployment,
            "clock": wall,
            "options": ClaimOptions(lease_duration=timedelta(seconds=given.lease_duration)),
        }
        if given.slow:
            self.source.read = self._slow(self.source.read)  # type: ignore[method-assign]
        self.claimed = Claim(Outcome.NOTHING)
        self.frozen = Frozen()
        self.held: list[str] = []
        if given.mute:
            hold.Held.renew = self._renew(hold.Held.renew)  # type: ignore[method-assign]

    def verdict(self, text: str) -> Verdict:
        """As `hooks.liveness` answers, of an Airflow that is a file."""
        owner = Owner.parse(text)
        if owner is None or owner.deployment != self.given.deployment:
            return Verdict.FOREIGN
        path = Path(self.given.airflow)
        state = json.loads(path.read_text()).get(owner.run_id) if path.exists() else None
        if state is None:
            return Verdict.GONE
        return Verdict.OVER if state in ("success", "failed") else Verdict.ACTIVE

    def _renew(self, renew: Any) -> Any:
        return lambda held: None if Path(self.given.mute).exists() else renew(held)

    def _slow(self, read: Any) -> Any:
        slow = Path(self.given.slow)

        def waiting(*arguments: Any) -> Iterator[Any]:
            Path(f"{slow}.reading").touch()
            while slow.exists():
                time.sleep(0.02)
            yield from read(*arguments)

        return waiting

    def claim(self) -> dict[str, Any]:
        self.claimed = self.rig.claim(self.given.run)
        return {"outcome": self.claimed.outcome.value, "shards": self.claimed.shards, "held": self.claimed.held}

    def land(self) -> dict[str, Any]:
        found = [
            land(self.rig.consumer(), self.me, group.group, time.time_ns() // 1_000_000)
            for group in self.claimed.groups
        ]
        return {"records": sum(each.records for each in found), "lost": sum(each.lost for each in found)}

    def freeze(self) -> dict[str, Any]:
        self.frozen = self.rig.freeze(self.given.run, self.claimed.batch_id)
        return {"batch_id": self.frozen.batch_id, "attempt": self.frozen.attempt, "records": self.frozen.record_count}

    def work(self) -> dict[str, Any]:
        name = f"{self.given.deployment}-{self.given.run}-{self.frozen.attempt}"
        return {"start": self.rig.work(self.frozen, start_id=name)} if self.frozen.record_count else {}

    def commit(self) -> dict[str, Any]:
        answer = self.rig.commit(self.given.run, self.frozen)
        return {"newly": answer.newly, "records": answer.records}

    def again(self, run: str) -> dict[str, Any]:
        """The next run of the same DAG; the one before has ended, and this worker's Airflow knows it."""
        path = Path(self.given.airflow)
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, self.given.run: "success", run: "running"}))
        self.given = replace(self.given, run=run)
        self.me = replace(self.me, run_id=run)
        return {}

    def whole(self) -> dict[str, Any]:
        """All steps of a run."""
        found = self.claim()
        if self.claimed.outcome in (Outcome.NOTHING, Outcome.HELD):
            return found
        self.land()
        self.freeze()
        self.work()
        return {**found, **self.commit()}


def main(given: Given) -> None:
    worker = Worker(given)
    for line in sys.stdin:
        step, *arguments = line.split()
        try:
            answer = getattr(worker, step)(*arguments)
        except ShardbatchError as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Given(**json.loads(sys.argv[1])))
