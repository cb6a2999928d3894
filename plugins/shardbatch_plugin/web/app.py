# SPDX-License-Identifier: Apache-2.0
"""The page's files and its JSON, served by Airflow's API server below `/shardbatch`.

Every endpoint of the JSON asks who calls. The files of the page are public: they hold no data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import requires_authenticated
from fastapi import Depends, FastAPI, Response
from fastapi.staticfiles import StaticFiles

from shardbatch_plugin.web.answers import add_errors
from shardbatch_plugin.web.routes import router


class Files(StaticFiles):
    """The files of the page. A browser asks each time whether they are the same still: all are of one version."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """One of them."""
        found = super().file_response(*args, **kwargs)
        found.headers["Cache-Control"] = "no-cache"
        return found


app = FastAPI(title="shardbatch", docs_url=None, redoc_url=None, openapi_url=None)
add_errors(app)
app.include_router(router, prefix="/api", dependencies=[Depends(requires_authenticated())])
app.mount("/static", Files(directory=Path(__file__).parent.parent / "static"), name="static")
