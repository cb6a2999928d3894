# SPDX-License-Identifier: Apache-2.0
"""shardbatch's Airflow plugin, loaded by every Airflow process through the wheel's `airflow.plugins` entry point.

Only the API server serves its pages, so they are loaded with the first request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/shardbatch"


async def pages(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """The pages and their JSON, as an ASGI application."""
    from shardbatch_plugin.web.app import app

    await app(scope, receive, send)


def _tab(destination: str, route: str, **more: Any) -> dict[str, Any]:
    """A place in Airflow's UI where the page stands. All have one bundle, which is one component of this name."""
    bundle = f"{PREFIX}/static/streams.js"
    return {"name": "Streams", "bundle_url": bundle, "destination": destination, "url_route": route, **more}


class ShardbatchPlugin(AirflowPlugin):
    """The Streams page: how every application stands, and what to do."""

    name = "shardbatch"
    fastapi_apps = [{"app": pages, "url_prefix": PREFIX, "name": "shardbatch"}]  # noqa: RUF012 - Airflow's own form
    react_apps = [  # noqa: RUF012
        _tab("nav", "streams", category="browse"),
        _tab("dag", "streams-dag"),
        _tab("dag_run", "streams-run"),
        _tab("task_instance", "streams-task"),
    ]
