# SPDX-License-Identifier: Apache-2.0
"""Finds the batch that an application was started for: arguments, environment, Spark's configuration, command line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from shardbatch.core import handover
from shardbatch.core.handover import WorkOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession


def find_order(
    spark: SparkSession,
    given: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    argv: Sequence[str] | None = None,
) -> WorkOrder:
    """The caller's arguments. Missing ones come from the first place that names a manifest, and names the same one.

    Places: environment (``SHARDBATCH_MANIFEST``, …), Spark's configuration (``spark.shardbatch.manifest``, …), command
    line (``--shardbatch-manifest``, …). ``schemes`` are looked for in all of them. A place that names no manifest hands
    nothing over, so its version does not matter.

    :raises ConfigurationError: if there is no manifest or no attempt, or an attempt that is not a number from 1 on.
    :raises UnsupportedSchema: if a later version of shardbatch has handed over.
    """
    told = {name: value for name, value in given.items() if value is not None}
    places = [
        handover.of_environment(os.environ if environ is None else environ),
        handover.of_configuration(spark.conf.get),
        handover.of_arguments(sys.argv[1:] if argv is None else argv),
    ]
    for place in places:
        if place.get("manifest") and told.get("manifest", place["manifest"]) == place["manifest"]:
            told = {**place, **told}
            break
    for place in places:
        if "schemes" not in told and place.get("schemes"):
            told["schemes"] = place["schemes"]
    return handover.decode(told)
