# SPDX-License-Identifier: Apache-2.0
"""The JSON of the page."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from shardbatch.control import applications as listing
from shardbatch.errors import ShardbatchError
from shardbatch.hooks.leases import existing_store
from shardbatch_plugin.web.found import claiming

router = APIRouter()


@router.get("/applications")
def applications() -> dict[str, Any]:
    """All applications."""
    found = claiming()
    rows = []
    for leases in {one.application.leases for one in found}:
        if leases is None:
            continue
        try:
            with existing_store(leases) as store:
                rows += [one.app_name for one in listing.applications(store)]
        except ShardbatchError as error:
            rows.append(str(error))
    return {"dags": [(one.dag_id, one.task_id, one.application.app_name) for one in found], "rows": rows}
