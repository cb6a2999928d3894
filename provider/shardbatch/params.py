# SPDX-License-Identifier: Apache-2.0
"""The DAG params by which a run sets options of a group, as Airflow's trigger form shows them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from shardbatch.core.limits import LARGEST, LONGEST_S
from shardbatch.core.owner import Mode

#: The modes as the form names them. A mode is empty by default, and null where a person has cleared the field.
_MODES = {
    "": "As the run was started (default)",
    Mode.INCREMENTAL.value: "Incremental: read on from the checkpoints",
    Mode.INTERVAL.value: "Interval: read the records of a time, apart from the live application",
    "null": "No choice",
}


def batch_params(group_id: str) -> dict[str, Param]:
    """DAG params with which a run can set options of a group, for the trigger form. All are empty by default.

    ``<group>.mode`` (``incremental`` or ``interval``), ``<group>.from`` and ``.to`` (records that arrived between them;
    they make the mode ``interval``), ``<group>.replay`` (the id of a committed batch: the run works on that again and
    reads nothing; it excludes the others), ``<group>.max_shards``, ``.duration_s``, ``.run_duration_s``,
    ``.records`` and ``.bytes`` (instead of the group's arguments; not with an interval, which is read whole). A run's
    conf takes precedence over DAG params, and these over arguments.

    The form refuses a value that no run can use. What only fits or does not fit together, such as a replay and an
    interval, is refused by claim, before it takes a lease.

    :param group_id: the full id of the group.
    """

    def param(kind: str, title: str, description: str, default: Any = None, **schema: Any) -> Param:
        section = f"Batch {group_id}"
        return Param(default, type=["null", kind], title=title, section=section, description=description, **schema)

    def number(kind: str, title: str, description: str, **schema: Any) -> Param:
        return param(kind, title, f"{description} Empty: as the DAG says. Not with an interval or a replay.", **schema)

    return {
        f"{group_id}.mode": param(
            "string",
            "Mode",
            "A backfill reads the interval of each of its runs; every other run reads on from the checkpoints, unless "
            "times are given below.",
            default="",
            enum=["", *(mode.value for mode in Mode), None],
            values_display=_MODES,
        ),
        f"{group_id}.from": param(
            "string",
            "Records arrived from",
            "The run works on records that arrived in this time, even if they are committed already. Its output is not "
            "among what readers of the live application see: read_committed(spark, out, interval=(from, to)) reads it. "
            "Give both times or none.",
            format="date-time",
        ),
        f"{group_id}.to": param(
            "string",
            "… and before",
            "The run waits until the stream is past this time.",
            format="date-time",
        ),
        f"{group_id}.replay": param(
            "string",
            "Committed batch to replay",
            "The id of a batch, as 'airflow shardbatch batches' shows it. The run works on it again and reads nothing; "
            "its output replaces the old one. Leave all else empty.",
            minLength=1,
            pattern=r"\S",
        ),
        f"{group_id}.max_shards": number(
            "integer",
            "Shards at most",
            "How many shards the run claims.",
            minimum=1,
            maximum=LARGEST,
        ),
        f"{group_id}.duration_s": number(
            "number",
            "Seconds of reading",
            "How long one read task reads.",
            exclusiveMinimum=0,
            maximum=LONGEST_S,
        ),
        f"{group_id}.run_duration_s": number(
            "number",
            "Seconds of the run",
            "How long after its start the run goes on reading.",
            exclusiveMinimum=0,
            maximum=LONGEST_S,
        ),
        f"{group_id}.records": number(
            "integer",
            "Records of a shard at most",
            "After so many records, a shard's slice ends.",
            minimum=1,
            maximum=LARGEST,
        ),
        f"{group_id}.bytes": number(
            "integer",
            "Bytes of a shard at most",
            "After so many bytes of data, a shard's slice ends.",
            minimum=1,
            maximum=LARGEST,
        ),
    }
