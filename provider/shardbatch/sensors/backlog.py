# SPDX-License-Identifier: Apache-2.0
"""BacklogSensor: waits until what is not committed is within bounds, or until it is not."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shardbatch.control.questions import Backlog
from shardbatch.errors import ConfigurationError
from shardbatch.operators.rendering import place
from shardbatch.sensors.waiting import WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class BacklogSensor(WaitingSensor):
    """Waits until an application's backlog is within bounds, or, with ``exceeded``, until one of them is broken.

    It goes by the rows of the lease store. The lag that the last read saw says nothing of now, so it does not count.

    Its output has ``behind_ms``, ``landed_records`` and ``until_loss_ms``, as they stood when the sensor was satisfied;
    what is unknown is ``None``, and breaks its bound.

    :param behind: nothing that is not committed arrived longer ago; default: no bound. It is an upper bound: where
        nothing runs it grows, whether or not records come.
    :param landed_records: at most so many records are read and not committed; default: no bound.
    :param until_loss: at least so long until unread records may expire; default: no bound.
    :param exceeded: wait for the opposite, default no.
    :param kwargs: those of all our sensors: ``batch`` or ``app_name``, ``stream`` and ``leases``; ``deferrable``,
        ``poke_interval``, ``timeout``, ``mode``, ``soft_fail``.
    :raises ConfigurationError: without a bound, for one below zero, or an application that is not named.
    """

    def __init__(
        self,
        *,
        behind: timedelta | None = None,
        landed_records: int | None = None,
        until_loss: timedelta | None = None,
        exceeded: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.behind, self.landed_records, self.until_loss, self.exceeded = behind, landed_records, until_loss, exceeded
        bounds = [_ms(behind), landed_records, _ms(until_loss)]
        if all(bound is None for bound in bounds) or any(bound is not None and bound < 0 for bound in bounds):
            raise ConfigurationError(
                f"{place(self)}: no bound is given, or one below zero.",
                remedy="Give behind=, landed_records= or until_loss=.",
            )

    def question(self, context: Context) -> Backlog:
        """What is asked."""
        return Backlog(_ms(self.behind), self.landed_records, _ms(self.until_loss), self.exceeded)


def _ms(time: timedelta | None) -> int | None:
    return None if time is None else int(time.total_seconds() * 1000)
