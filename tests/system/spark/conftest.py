# SPDX-License-Identifier: Apache-2.0
"""One local Spark for all tests of this folder, which is a Spark Connect server for other processes, too."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from scripts.environment import QUICK_JAVA
from shardbatch.landing.area import StagingArea
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


CONNECT_ADDRESS = "spark.connect.grpc.binding.address"
CONNECT_PORT = "spark.connect.grpc.binding.port"
#: A folder's name with what breaks readers that take a path for a URI, a list or a pattern.
ODD = "my area, 5%20 a:b;c+d#e&é"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("shardbatch-tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        CONNECT_ADDRESS: LOOPBACK,
        CONNECT_PORT: str(free_port()),
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/Lima",  # landed times are UTC whatever the session's zone
        "spark.sql.files.ignoreMissingFiles": "true",  # records() must not follow it
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def connect_url(spark: SparkSession) -> str:
    """Where another process reaches this Spark as a Spark Connect server."""
    return f"sc://{LOOPBACK}:{spark.conf.get(CONNECT_PORT)}"


@pytest.fixture
def area(tmp_path: Path) -> StagingArea:
    # A folder that looks like a partition must not become a column; what is special in a URI is part of a name (P17).
    staging = tmp_path / "env=prod" / ODD
    staging.mkdir(parents=True)
    return StagingArea(str(staging))


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / f"out {ODD}")
