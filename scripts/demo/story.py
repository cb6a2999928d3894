# SPDX-License-Identifier: Apache-2.0
"""What the demo does, in its order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scripts.airflow_client import FINISHED
from scripts.airflow_instance import AirflowInstance
from scripts.demo import deployment
from scripts.demo.console import Console, DemoError
from scripts.demo.flights import Expected, read_flights
from scripts.demo.folder import DemoFolder
from scripts.demo.report import Report
from scripts.demo.stream import DemoStream
from scripts.demo.watcher import DAG_ID, NAMESPACE, Watcher
from scripts.spark_connect import ConnectServer, await_answer
from shardbatch.core.owner import Owner
from shardbatch.hooks.leases import SQLLeases, store_digest

#: Seconds without any event after which something must be wrong.
STUCK_SECONDS = 600.0
#: Flights that `demo-ui` puts into the stream again every minute, so that a run finds something.
TRICKLE = 1000


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line.

    :param flights: how many to put into the stream.
    :param ui: leave Airflow up.
    :param port: of Airflow's API server, ``None``: a free one.
    """

    flights: int
    ui: bool
    port: int | None


def tell(wishes: Wishes, console: Console) -> bool:
    """The whole demo; whether what came out equals what went in."""
    with (
        DemoFolder() as folder,
        DemoStream("flights", 4, console, folder.path / "stream_server.log") as stream,
        deployment.spark(folder) as spark,
    ):
        console.say(f"everything is kept in {folder.path}")
        airflow = deployment.airflow(folder, stream.endpoint_url, spark, wishes.port)
        try:
            return _Story(wishes, console, folder, stream, spark, airflow).tell()
        finally:
            stream.stop.set()
            airflow.stop()
            console.say("Airflow is ended; Spark and the stream server end now")


def streams_page() -> str:
    """The path of Airflow's UI that shows the demo's application."""
    place = (store_digest(SQLLeases("leases_db")), NAMESPACE.app_name, NAMESPACE.stream_name)
    return "/plugin/streams#/app/" + "/".join(place)


class _Story:
    def __init__(
        self,
        wishes: Wishes,
        console: Console,
        folder: DemoFolder,
        stream: DemoStream,
        spark: ConnectServer,
        airflow: AirflowInstance,
    ) -> None:
        self.wishes = wishes
        self.console = console
        self.folder = folder
        self.stream = stream
        self.spark = spark
        self.airflow = airflow
        self.expected = Expected()
        self.flights = read_flights(wishes.flights, self.expected)
        self.watcher = Watcher(airflow.client, folder.leases, console, threading.Event())
        self.report = Report(console)

    def tell(self) -> bool:
        try:
            self._start()
            self._drain()
            self._watch_until(self._last_batch_is_over)
            if self.wishes.ui:
                self._pause()
            else:
                self.airflow.stop()  # the check has the machine for itself then
            good = self.report.show(self.watcher, self.stream, self.expected, self.folder, self.spark)
            if self.wishes.ui:
                self._stay()
            return good
        finally:
            self.watcher.close()

    def _start(self) -> None:
        third = self.wishes.flights // 3
        with ThreadPoolExecutor(1, "first-fill") as pool:
            filling = pool.submit(self.stream.fill, self.flights, third)
            try:
                self.console.say("Airflow is starting (database, scheduler, API server, DAG processor), and Spark too")
                began = time.monotonic()
                self.airflow.start()
                await_answer(self.spark)
                self.airflow.client.wait_for_dag(DAG_ID, timeout=180)
            except BaseException:
                self.stream.stop.set()
                raise
            filling.result()
        self.report.start_seconds = time.monotonic() - began
        self.console.say(f"Airflow answers at {self.airflow.address} (no login needed, this machine only)")
        self.console.say(f"Spark answers at {self.spark.url} (Spark Connect, this machine only)")

    def _drain(self) -> None:
        """Put in the rest, with a split and a merge between the reads of two runs, and watch until all is committed."""
        part = self.wishes.flights // 6
        self._watch_until(lambda: self.watcher.progress.frozen >= 1)
        self._fill_around(self.stream.split, part, part)
        self._watch_until(lambda: self.watcher.progress.frozen >= 2)
        self._fill_around(self.stream.merge, part, self.wishes.flights)
        self.console.say("all flights are in the stream")
        self._watch_until(lambda: self._all_committed() and self._all_completed())

    def _fill_around(self, change: Callable[[], None], before: int, after: int) -> None:
        """Change the shards while Spark works on what was read.

        Records are put before and after, so that the next run has to drain parents before it reads their children.
        """

        def fill() -> None:
            self.stream.fill(self.flights, before)
            change()
            self.stream.fill(self.flights, after)

        with ThreadPoolExecutor(1, "fill-around") as pool:
            filling = pool.submit(fill)
            try:
                self._watch_until(filling.done)
            except BaseException:
                self.stream.stop.set()
                raise
            filling.result()

    def _all_committed(self) -> bool:
        return self.watcher.progress.records >= self.stream.put_records

    def _all_completed(self) -> bool:
        return self.watcher.progress.completed >= len(self.stream.shards()) - len(self.stream.open_shards())

    def _watch_until(self, there: Callable[[], bool]) -> None:
        while True:
            self.watcher.look()
            if there():
                return
            self._require_progress()
            time.sleep(0.7)

    def _require_progress(self) -> None:
        if self.watcher.failed_runs:
            raise DemoError(
                f"{self.watcher.name(self.watcher.failed_runs[0])} failed; the log of its task stands above."
            )
        if self.console.elapsed - self.watcher.last_event > STUCK_SECONDS:
            raise DemoError(
                f"Nothing happened for {STUCK_SECONDS:.0f} s; see the logs in {self.airflow.home / 'components'}."
            )

    def _pause(self) -> None:
        """Pause the DAG between two runs: Airflow starts no task of a paused DAG, also none of a run that is active."""
        client = self.airflow.client
        while True:
            self._watch_until(self._no_run_is_active)
            client.call("PATCH", f"dags/{DAG_ID}", {"is_paused": True})
            if self._no_run_is_active():
                self.watcher.look()
                return self._require_progress()
            client.call("PATCH", f"dags/{DAG_ID}", {"is_paused": False})

    def _last_batch_is_over(self) -> bool:
        """Whether the run that committed last is over; the next one, which finds nothing, may have begun."""
        owner = Owner.parse(self.watcher.batches()[-1].owner)
        return owner is not None and self.watcher.runs[owner.run_id]["state"] in FINISHED

    def _no_run_is_active(self) -> bool:
        return all(run["state"] in FINISHED for run in self.airflow.client.runs(DAG_ID))

    def _stay(self) -> None:
        self.console.show()
        self.console.show(f"    Airflow is left up:  {self.airflow.address}/dags/{DAG_ID}")
        self.console.show(f"    The Streams page:    {self.airflow.address}{streams_page()}")
        self.console.show("    No login is needed; it listens on this machine only. Ctrl-C ends it.")
        self.console.show(f"    {TRICKLE:,} flights go into the stream every minute. Trigger a run and watch it,")
        self.console.show("    or switch the DAG on: it is paused now, and runs by itself then.")
        self.console.show()
        again = list(read_flights(TRICKLE, Expected()))
        while True:
            self.stream.fill(iter(again), TRICKLE)
            self.stream.stop.wait(60)
