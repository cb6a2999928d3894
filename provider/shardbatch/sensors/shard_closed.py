# SPDX-License-Identifier: Apache-2.0
"""ShardClosedSensor: waits until shards are closed in the stream, or completed by the application."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shardbatch.control.shard_questions import ShardsEnded
from shardbatch.core.choices import ShardEnd, chosen
from shardbatch.errors import ConfigurationError
from shardbatch.operators.rendering import place
from shardbatch.sensors.committed_up_to import instant_us
from shardbatch.sensors.shard_ids import require_stream, shard_ids_of
from shardbatch.sensors.waiting import WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class ShardClosedSensor(WaitingSensor):
    """Waits until shards are closed in the stream, or completed by the application.

    Give either the shards or an instant. Which shards were open at an instant is settled by the first look, and stays
    so until the task is cleared. Kinesis tells it. Where a service does not (streams of DynamoDB tables), it is those
    that are open at the first look, and, for ``completed``, all that are not completed yet: never fewer than were open
    at the instant, but perhaps more.

    It goes by the lease store's rows, and lists the shards of the stream only for what they do not say. A shard that
    was known and is listed no more is closed. Its output has ``shards``, their ids, and ``state``.

    :param shard_ids: the shards, in a list; templated. A shard that neither the application nor the stream knows makes
        the sensor fail at the first look. Default: those of ``open_at``.
    :param open_at: all shards that were open at this instant, with a time zone; templated. It must have passed.
        Default: those of ``shard_ids``.
    :param state: ``closed`` (default): they take no more records. ``completed``: all their records are in committed
        batches or recorded gaps. A shard that left the stream before the application knew it makes the sensor fail.
    :param kwargs: those of all our sensors: ``batch`` or ``app_name``, ``stream`` and ``leases``; ``deferrable``,
        ``poke_interval``, ``timeout``, ``mode``, ``soft_fail``. ``stream`` has to be the stream itself; for shards that
        have a row, and ``state="completed"``, its name is enough.
    :raises ConfigurationError: without shards and an instant, or with both; for an unknown state, or an application or
        stream that is not named.
    """

    red = (
        "If the time was over, its log names the shards that are left: see that the DAG which reads them runs and "
        "commits, then clear this task. If what it waits for can never be, the log says why."
    )
    template_fields: Sequence[str] = (*WaitingSensor.template_fields, "shard_ids", "open_at")

    def __init__(
        self,
        *,
        shard_ids: Sequence[str] | str | None = None,
        open_at: str | datetime | None = None,
        state: ShardEnd | str = ShardEnd.CLOSED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.shard_ids, self.open_at = shard_ids, open_at
        self.state = chosen(ShardEnd, state, f"{place(self)}: state={state!r}")
        if (shard_ids is None) == (open_at is None):
            raise ConfigurationError(
                f"{place(self)}: neither or both of shard_ids and open_at are given.", remedy="Give one of them."
            )
        if open_at is not None or self.state == ShardEnd.CLOSED:
            require_stream(self)
        if isinstance(shard_ids, (list, tuple)) and not shard_ids:
            shard_ids_of(f"{place(self)}: shard_ids", shard_ids)

    def question(self, context: Context) -> ShardsEnded:
        """What is asked, once the templates are rendered.

        :raises ConfigurationError: for an instant that cannot be used, or no shard at all.
        """
        if self.open_at is not None:
            return ShardsEnded(open_at_ms=instant_us("open_at", self.open_at) // 1000, state=self.state)
        return ShardsEnded(shard_ids_of("shard_ids", self.shard_ids), state=self.state)
