# SPDX-License-Identifier: Apache-2.0
"""CommittedUpToSensor: waits until all that arrived before an instant is committed."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shardbatch.control.questions import KINDS, CommittedUpTo
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.shardbatch import ShardbatchHook
from shardbatch.operators.rendering import place
from shardbatch.sensors.waiting import WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The end of the run's data interval; empty where the run has none.
INTERVAL_END = "{{ data_interval_end if data_interval_end is defined and data_interval_end else '' }}"


class CommittedUpToSensor(WaitingSensor):
    """Waits until every record that arrived before an instant is in a committed batch or in a recorded gap.

    A DAG that works on an hour or a day of a stream begins with it: what it reads then is all that there is. The answer
    is a promise about the stream's own clock. It comes at the earliest with the commit of a run that read more than a
    minute after the instant, because arrival times run backwards a little. Where no run reads, and ``stream`` is not
    only a name, the sensor itself asks idle shards for what lies behind their checkpoints, and needs no run if that is
    nothing.

    Its output has ``watermark_ms`` and ``complete_from_ms``, in milliseconds since the epoch, UTC.

    :param until: the instant, with a time zone, not included; templated. Default: the end of the run's data interval;
        a run that has none (manual, triggered by an asset) needs one given.
    :param since: where the window begins that matters; templated. Default: with the application. An instant from before
        the application's start makes the sensor fail, since nothing is promised of it.
    :param accept: what may be in the window beside records that readers see: ``gaps`` (records that expired, or that a
        reset passed over), ``dropped`` (records that the stream's options leave out), ``set_aside`` (batches that a
        person decided without output). Default: all three, which a watermark counts as done. If you leave out one of
        the first two, the sensor fails where it finds it; without ``set_aside`` it waits for the replay, and fails
        if clean-up has retired the batch.
    :param kwargs: those of all our sensors: ``batch`` or ``app_name``, ``stream`` and ``leases``; ``deferrable``,
        ``poke_interval``, ``timeout``, ``mode``, ``soft_fail``.
    :raises ConfigurationError: for a kind that is not known, or an application that is not named.
    """

    red = (
        "If the time was over, its log names the shards that hold the watermark back: see that the DAG which reads "
        "them runs and commits, then clear this task. If what it waits for can never be, the log says why."
    )
    template_fields: Sequence[str] = (*WaitingSensor.template_fields, "until", "since")

    def __init__(
        self,
        *,
        until: str | datetime = INTERVAL_END,
        since: str | datetime | None = None,
        accept: Sequence[str] = KINDS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.until, self.since = until, since
        self.accept = tuple(accept)
        strange = sorted(set(self.accept) - set(KINDS))
        if strange or isinstance(accept, str):
            raise ConfigurationError(
                f"{place(self)}: accept={accept!r} is not known.", remedy=f"Give some of {', '.join(KINDS)}, in a list."
            )

    def first_hook(self) -> ShardbatchHook:
        """The rows alone: many workers that begin at once shall not all ask the stream. Their triggers share a look."""
        name = self.stream if isinstance(self.stream, str) else self.stream.stream_name
        return ShardbatchHook(app_name=self.app_name, stream=name, leases=self.leases)

    def question(self, context: Context) -> CommittedUpTo:
        """What is asked, once the templates are rendered.

        :raises ConfigurationError: for instants that cannot be used.
        """
        until = -(-instant_us("until", self.until) // 1000)  # a record of the millisecond in which it lies came before
        since = None if self.since is None else instant_us("since", self.since) // 1000
        if since is not None and since >= until:
            raise ConfigurationError(f"since={self.since} is not before until={self.until}.", remedy="Give it earlier.")
        return CommittedUpTo(until, since, self.accept)


def instant_us(name: str, value: str | datetime) -> int:
    """An instant in microseconds since the epoch.

    :raises ConfigurationError: if it is empty, no instant, or has no time zone.
    """
    if isinstance(value, str) and not value.strip():
        raise ConfigurationError(
            f"{name} is empty: this run has no data interval.",
            remedy=f"Give {name}=, as '{{{{ dag_run.run_after }}}}', or schedule the DAG with a data interval "
            "(CronDataIntervalTimetable).",
        )
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"{name}={value!r} is not an instant.", remedy="Write it as 2026-11-28T13:00:00+00:00."
        ) from error
    if found.utcoffset() is None:
        raise ConfigurationError(f"{name}={value} has no time zone.", remedy="Write it as 2026-11-28T13:00:00+00:00.")
    return timegm(found.utctimetuple()) * 1_000_000 + found.microsecond
