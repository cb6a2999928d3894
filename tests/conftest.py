# SPDX-License-Identifier: Apache-2.0
"""What every test has: the servers of `tests/support/fixtures.py`, and an environment that leads nowhere real."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.fixtures"]

# No test may find a user's credentials, profile or proxy, or ask a cloud's metadata address.
os.environ.update(
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
    NO_PROXY="127.0.0.1,localhost",
    no_proxy="127.0.0.1,localhost",
)
for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "AIRFLOW__"))]:
    del os.environ[name]
for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)


# How long an example takes belongs to the machine and the hour, and says nothing.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Airflow reads its home when it is imported, which test modules do: nothing reads or makes `~/airflow`.
_home = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _home.name
