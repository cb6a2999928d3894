# SPDX-License-Identifier: Apache-2.0
"""The DAG params by which a run sets options of a group, as Airflow's trigger form shows them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from shardbatch.core.owner import Mode

#: What the trigger form says of an interval.
_APART = (
    "The run works on records that arrived in this time, even if they are committed already. Its output is not among "
    "what readers of the live application see: read_committed(spark, out, interval=(from, to)) reads it."
)


def batch_params(group_id: str) -> dict[str, Param]:
    """DAG params with which a run can set options of a group, for the trigger form. All are empty by default.

    ``<group>.mode`` (``incremental`` or ``interval``), ``<group>.from`` and ``.to`` (records that arrived between them;
    they make the mode ``interval``), ``<group>.replay`` (the id of a committed batch: the run works on that again and
    reads nothing; it excludes the others), ``<group>.max_shards``, ``.duration_s``, ``.run_duration_s``,
    ``.records`` and ``.bytes`` (instead of the group's arguments; not with an interval, which is read whole). A run's
    conf takes precedence over DAG params, and these over arguments.

    :param group_id: the full id of the group.
    """

    def param(title: str, kind: str, **schema: Any) -> Param:
        return Param(None, type=["null", kind], title=title, section=f"Batch {group_id}", **schema)

    return {
        f"{group_id}.mode": param("Mode", "string", enum=[None, *map(str, Mode)]),
        f"{group_id}.from": param("Records arrived from", "string", format="date-time", description=_APART),
        f"{group_id}.to": param("… and before", "string", format="date-time"),
        f"{group_id}.replay": param("Committed batch to replay", "string", minLength=1),
        f"{group_id}.max_shards": param("Shards at most", "integer", minimum=1),
        f"{group_id}.duration_s": param("Seconds that a read task reads at most", "number", exclusiveMinimum=0),
        f"{group_id}.run_duration_s": param(
            "Seconds from the run's start until it stops reading", "number", exclusiveMinimum=0
        ),
        f"{group_id}.records": param("Records of a shard at most", "integer", minimum=1),
        f"{group_id}.bytes": param("Bytes of a shard at most", "integer", minimum=1),
    }
