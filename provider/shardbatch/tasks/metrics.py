# SPDX-License-Identifier: Apache-2.0
"""Sends what is measured to Airflow's own metrics (StatsD, Datadog or OpenTelemetry, as the deployment is set)."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from shardbatch.core.looks import LookAgain
from shardbatch.core.metrics import STEP_DURATION, STEP_FAILURES, Kind, Metric
from shardbatch.masking import masked

log = logging.getLogger("shardbatch")

#: Longest value of a tag. StatsD carries the tags in a metric's name, and Airflow drops a name above 250 characters.
LONGEST_TAG = 64
#: What no backend takes amiss in a tag. A name with anything else is dropped by Airflow.
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


def tag_of(name: str) -> str:
    """A name as the value of a tag. One that is too long or has other characters than letters, digits, ``_``, ``.`` and
    ``-`` is shortened and cleaned, and a hash at its end tells it from others."""
    if len(name) <= LONGEST_TAG and _PLAIN.fullmatch(name):
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return f"{cleaned[: LONGEST_TAG - len(digest) - 1]}-{digest}"


class Meter:
    """Sends the metrics of one application's run. A backend that fails is logged once, and never fails a step."""

    def __init__(self, app_name: str, stream_name: str, mode: str) -> None:
        self._tags = {"app": tag_of(app_name), "stream": tag_of(stream_name), "mode": mode}
        self._told = False

    def __call__(self, metric: Metric, value: float, **tags: str) -> None:
        """Send one value; nothing for a counter of zero."""
        if metric.kind is Kind.COUNTER and not value:
            return
        try:
            _send(metric, value, {**self._tags, **tags})
        except Exception as error:  # noqa: BLE001 - whatever a backend raises, the step goes on
            if not self._told:
                self._told = True
                log.warning(
                    "Metrics could not be sent (%s: %s); the task goes on without. Check the settings of Airflow's "
                    "section [metrics].",
                    *(type(error).__name__, masked(str(error))),
                )

    def runs_in(self, mode: str) -> None:
        """Note in which mode the run is, once that is known: one that a backfill processes again may be another than
        it was asked to be."""
        self._tags["mode"] = mode

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step: how long it took, or that it failed, also by Airflow's time limit. A step that is deferred
        has done neither yet."""
        from airflow.sdk.exceptions import AirflowTaskTimeout  # a BaseException

        began = time.monotonic()
        try:
            yield
        except LookAgain:
            raise
        except (Exception, AirflowTaskTimeout) as error:
            self(STEP_FAILURES, 1, step=name, error=type(error).__name__)
            raise
        self(STEP_DURATION, (time.monotonic() - began) * 1000, step=name)


def _send(metric: Metric, value: float, tags: dict[str, str]) -> None:
    from airflow.sdk.observability import stats  # a task has it loaded already

    if metric.kind is Kind.COUNTER:
        stats.incr(metric.name, round(value), tags=tags)
    elif metric.kind is Kind.GAUGE:
        stats.gauge(metric.name, value, tags=tags)
    else:
        stats.timing(metric.name, value, tags=tags)
