# SPDX-License-Identifier: Apache-2.0
"""LineageCompleteSensor: waits until a reshard is behind the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardbatch.control.shard_questions import LineageComplete
from shardbatch.operators.rendering import place
from shardbatch.sensors.shard_ids import require_stream, shard_ids_of
from shardbatch.sensors.waiting import WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class LineageCompleteSensor(WaitingSensor):
    """Waits until shards that were split or merged are completed, and all that follows them has leases.

    A parent is completed if all its records are in committed batches or recorded gaps. What follows it is all there if
    the application's rows and a complete listing of the stream have shards that come from it, in whatever generation,
    and these cover its keys. A stream without ranges of keys (DynamoDB): it has a child, or its stream was disabled and
    it will have none; and each child that rows or two listings in a row name has a row.

    While a listing is incomplete, as during a reshard, it waits. Its output has ``parents`` and ``children``, the
    shards that come from them directly and have a row.

    :param parents: the shards that were split or merged, in a list; templated. A shard that neither the application nor
        the stream has makes the sensor fail.
    :param kwargs: those of all our sensors: ``batch`` or ``app_name``, ``stream`` and ``leases``; ``deferrable``,
        ``poke_interval``, ``timeout``, ``mode``, ``soft_fail``. ``stream`` has to be the stream itself.
    :raises ConfigurationError: without parents, or for an application or stream that is not named.
    """

    red = (
        "If the time was over, its log says what is missing: see that the DAG which reads the stream runs and commits, "
        "then clear this task. If what it waits for can never be, the log says why."
    )
    template_fields: Sequence[str] = (*WaitingSensor.template_fields, "parents")

    def __init__(self, *, parents: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parents = parents
        require_stream(self)
        if isinstance(parents, (list, tuple)) and not parents:
            shard_ids_of(f"{place(self)}: parents", parents)

    def question(self, context: Context) -> LineageComplete:
        """What is asked, once the templates are rendered.

        :raises ConfigurationError: if no shard is named.
        """
        return LineageComplete(shard_ids_of("parents", self.parents))
