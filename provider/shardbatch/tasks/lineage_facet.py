# SPDX-License-Identifier: Apache-2.0
"""The facet in which a dataset of OpenLineage says which ranges of which shards it has. Only lineage imports it."""

from __future__ import annotations

from typing import Any, ClassVar

import attr
from openlineage.client.facet_v2 import DatasetFacet


@attr.define
class BatchDatasetFacet(DatasetFacet):
    """What of a stream a dataset's records are; ``docs/lineage.md`` tells the fields."""

    batchId: str | None
    shards: int
    records: int
    bytes: int
    gaps: int
    leftOut: int
    ranges: list[dict[str, Any]]

    _additional_skip_redact: ClassVar[list[str]] = ["batchId", "ranges"]
