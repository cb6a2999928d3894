# SPDX-License-Identifier: Apache-2.0
"""The Airflow of the demo: its connections and settings."""

from __future__ import annotations

import json

from scripts.airflow_instance import AirflowInstance
from scripts.demo.folder import DemoFolder
from scripts.demo.stream import REGION
from scripts.environment import process_environment

#: Seconds between two runs. One that takes longer is followed by the next at once.
EVERY_SECONDS = 20


def environment(folder: DemoFolder, endpoint_url: str) -> dict[str, str]:
    """Variables for Airflow's components and, through them, for Spark."""
    connections = {
        "aws_default": {
            "conn_type": "aws",
            "login": "demo",
            "password": "not-a-secret",
            "extra": {"region_name": REGION, "endpoint_url": endpoint_url},
        },
        "leases_db": {"conn_type": "sqlite", "host": str(folder.leases)},
        "spark_default": {"conn_type": "spark", "host": "local[2]"},
    }
    return {
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(connection) for name, connection in connections.items()},
        "AIRFLOW__SHARDBATCH__DEPLOYMENT_ID": "demo",
        "FLIGHTS_FOLDER": str(folder.flights),
        "FLIGHTS_EVERY_SECONDS": str(EVERY_SECONDS),
        "SPARK_CONF_DIR": str(folder.path / "spark"),
    }


def airflow(folder: DemoFolder, endpoint_url: str, port: int | None) -> AirflowInstance:
    """The demo's Airflow, not started yet."""
    return AirflowInstance(
        folder.path / "airflow",
        folder.path / "dags",
        env=environment(folder, endpoint_url),
        base=process_environment(),
        port=port,
    )
