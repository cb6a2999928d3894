# SPDX-License-Identifier: Apache-2.0
"""A StatsD server on a loopback port, which keeps what it is sent."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Sent:
    """One value: its metric, the tags in its name, and StatsD's letter for its kind."""

    name: str
    tags: dict[str, str]
    value: float
    kind: str


class StatsD:
    """Listens until it is closed; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self._lines: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def settings(self) -> dict[str, str]:
        """What makes an Airflow send its metrics here, with tags."""
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self.port),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
            "AIRFLOW__METRICS__METRICS_ALLOW_LIST": "^shardbatch",
            "AIRFLOW__METRICS__STAT_NAME_HANDLER": f"{__name__}.short_ascii",
        }

    def sent(self, prefix: str = "airflow.shardbatch.", **tags: str) -> list[Sent]:
        """What came of our metrics so far, of those that have these tags."""
        found = [_parsed(line) for line in list(self._lines) if line.startswith(prefix)]
        return [one for one in found if tags.items() <= one.tags.items()]

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                packet = self._socket.recv(65_536)
            except TimeoutError:
                continue
            self._lines += packet.decode().splitlines()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> StatsD:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def short_ascii(name: str) -> str:
    """The name of a metric. By itself, Airflow's scheduler refuses those of DAGs with long ids or other letters, and
    then schedules no run of these DAGs."""
    return name.encode("ascii", "replace").decode()[:250]


def _parsed(line: str) -> Sent:
    where, _, rest = line.rpartition(":")
    value, _, kind = rest.partition("|")
    name, *tags = where.removeprefix("airflow.").split(",")
    return Sent(name, dict(tag.split("=", 1) for tag in tags), float(value), kind)
