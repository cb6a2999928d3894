# SPDX-License-Identifier: Apache-2.0
"""shardbatch's Airflow plugin, loaded by every Airflow process through the wheel's `airflow.plugins` entry point."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class ShardbatchPlugin(AirflowPlugin):
    """Names the plugin in `airflow plugins`; it adds nothing to the UI."""

    name = "shardbatch"
