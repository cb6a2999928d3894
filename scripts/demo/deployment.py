# SPDX-License-Identifier: Apache-2.0
"""What the demo runs beside its stream: a Spark Connect server, and Airflow with its connections and settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.airflow_instance import AirflowInstance
from scripts.demo.folder import DemoFolder
from scripts.demo.stream import REGION
from scripts.environment import process_environment
from scripts.spark_connect import ConnectServer, launch

#: Seconds between two runs. One that takes longer is followed by the next at once.
EVERY_SECONDS = 20


@contextmanager
def spark(folder: DemoFolder) -> Iterator[ConnectServer]:
    """A Spark Connect server that is starting. Wait for its answer: there is time for it while Airflow starts."""
    server = launch(folder.spark)
    try:
        yield server
    finally:
        server.stop()


def environment(folder: DemoFolder, endpoint_url: str, server: ConnectServer) -> dict[str, str]:
    """Variables for Airflow's components."""
    connections = {
        "aws_default": {
            "conn_type": "aws",
            "login": "demo",
            "password": "not-a-secret",
            "extra": {"region_name": REGION, "endpoint_url": endpoint_url},
        },
        "leases_db": {"conn_type": "sqlite", "host": str(folder.leases)},
        "spark_connect_default": server.connection(),
    }
    return {
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(connection) for name, connection in connections.items()},
        "AIRFLOW__SHARDBATCH__DEPLOYMENT_ID": "demo",
        "FLIGHTS_FOLDER": str(folder.flights),
        "FLIGHTS_EVERY_SECONDS": str(EVERY_SECONDS),
    }


def airflow(folder: DemoFolder, endpoint_url: str, server: ConnectServer, port: int | None) -> AirflowInstance:
    """The demo's Airflow, not started yet."""
    return AirflowInstance(
        folder.path / "airflow",
        folder.path / "dags",
        env=environment(folder, endpoint_url, server),
        base=process_environment(),
        port=port,
    )
