# SPDX-License-Identifier: Apache-2.0
"""The Airflow that these tests share. It ends with the last of them, so that it takes nothing from other tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.airflow_instance import Deployment, deployment
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="package")
def airflow(postgres_server: PostgresServer) -> Iterator[Deployment]:
    with deployment(postgres_server) as started:
        yield started
