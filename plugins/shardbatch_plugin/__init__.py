# SPDX-License-Identifier: Apache-2.0
"""shardbatch's Airflow plugin. It is loaded through the wheel's `airflow.plugins` entry point by every Airflow process."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class ShardbatchPlugin(AirflowPlugin):
    """Names the plugin in `airflow plugins`; the operators' links come with the provider and need no entry here."""

    name = "shardbatch"
