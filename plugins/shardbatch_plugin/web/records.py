# SPDX-License-Identifier: Apache-2.0
"""First records of a slice, for those who may see them."""

from __future__ import annotations

from typing import Any

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.settings import setting
from shardbatch_plugin.web.answers import Forbidden, NotFound
from shardbatch_plugin.web.chosen import Chosen
from shardbatch_plugin.web.files import first_records, slice_of
from shardbatch_plugin.web.one_batch import expect_batch

#: The most records of one answer.
MOST = 100


def may_see_records() -> bool:
    """Whether the deployment lets anybody see records here: the setting ``[shardbatch] show_records``.

    :raises ConfigurationError: if it is neither true nor false.
    """
    text = setting("show_records").lower()
    if text not in ("", "true", "false"):
        raise ConfigurationError(
            f"Airflow's setting [shardbatch] show_records = {text!r} cannot be read.", remedy="Give true or false."
        )
    return text == "true"


def records(chosen: Chosen, batch_id: str, shard_id: str, count: int) -> dict[str, Any]:
    """The first records of a batch's slice of one shard.

    :raises Forbidden: unless the setting and the DAG of the batch's run allow it.
    """
    if not may_see_records():
        raise Forbidden(
            "Records are not shown here.", remedy="Set [shardbatch] show_records = true for the API server to allow it."
        )
    batch = expect_batch(chosen, batch_id)
    if not chosen.may_act_on(batch.owner):
        raise Forbidden("You may not see the records of this batch.")
    found = slice_of(chosen.staging, batch, shard_id)
    if found is None:
        raise NotFound(f"Batch {batch_id} has no slice of {shard_id}.")
    return {"records": first_records(chosen.staging, found, max(1, min(count, MOST)))}
