# SPDX-License-Identifier: Apache-2.0
"""What a DAG run says to a group: whose leases it takes, in which mode, and which limits were asked for.

Precedence: the run's conf, the DAG's params, the group's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shardbatch.core.choices import chosen
from shardbatch.core.interval import Interval
from shardbatch.core.limits import LARGEST, LONGEST_S, ReadLimits
from shardbatch.core.owner import Mode
from shardbatch.core.policies import ClaimOptions
from shardbatch.errors import ConfigurationError

#: What an incremental run may ask: an interval is read whole.
LIMITS = ("max_shards", "duration_s", "run_duration_s", "records", "bytes")
#: What a run may ask of a group, as ``<group id>.<name>``, in its conf or as a DAG param.
REQUESTS = ("mode", "from", "to", "replay", *LIMITS)


@dataclass(frozen=True)
class RunRequest:
    """What a run asks for: its mode, the interval if it is ``interval``, and values instead of the arguments'."""

    mode: Mode
    interval: Interval | None
    values: Mapping[str, Any]

    @property
    def replay(self) -> str | None:
        """The committed batch that the run is to work on again, and on nothing else."""
        return self.values.get("replay")

    def limits(self, given: ReadLimits) -> ReadLimits:
        """The read limits with what was asked for in place.

        :raises ConfigurationError: for a limit of zero or less.
        """
        changes = {name: self.values[name] for name in ("records", "bytes") if name in self.values}
        for name in ("duration", "run_duration"):
            if f"{name}_s" in self.values:
                changes[name] = timedelta(seconds=self.values[f"{name}_s"])
        return replace(given, **changes)

    def options(self, given: ClaimOptions) -> ClaimOptions:
        """The claim options with what was asked for in place.

        :raises ConfigurationError: for a value out of its range.
        """
        return replace(given, max_shards=self.values["max_shards"]) if "max_shards" in self.values else given


def request_of(
    group_id: str, dag_run: Any, params: Mapping[str, Any], has_batch: Callable[[], bool] = lambda: False
) -> RunRequest:
    """Read what a run asks of a group.

    :param has_batch: whether the run has a batch of the live application; asked only of a run of a backfill that does
        not say what it reads. Such a run goes on with that batch (PROTOCOL H8). Default: it has none.
    :raises ConfigurationError: for an unknown name under the group's, a value that cannot be read or would not be
        applied, or a run in interval mode whose interval is missing or empty.
    """
    conf = getattr(dag_run, "conf", None) or {}
    values = _values(group_id, conf, params)
    if "replay" in values:
        return _replay(group_id, dag_run, conf, values)
    interval = "from" in values or "to" in values or _backfill(dag_run)
    asked = values.get("mode", Mode.INTERVAL if interval else Mode.INCREMENTAL)
    mode = chosen(Mode, asked, f"{group_id}.mode = {asked!r}")
    if mode is Mode.INCREMENTAL:
        unused = sorted({"from", "to"} & values.keys())
        if unused:
            raise ConfigurationError(
                f"{group_id}.{unused[0]} was given, but the run is incremental and would not apply it.",
                remedy=f'Leave it out, or set {group_id}.mode to "interval".',
            )
        return RunRequest(mode, None, values)
    unused = [name for name in LIMITS if _given(name, conf.get(f"{group_id}.{name}"))]
    if unused:
        raise ConfigurationError(
            f"{group_id}.{unused[0]} was given, but the run reads an interval, which is read whole.",
            remedy="Leave it out, or read shorter intervals.",
        )
    if not {"mode", "from", "to"} & values.keys() and has_batch():
        return RunRequest(Mode.INCREMENTAL, None, values)
    return RunRequest(mode, _interval(group_id, dag_run, values), values)


def _replay(group_id: str, dag_run: Any, conf: Mapping[str, Any], values: Mapping[str, Any]) -> RunRequest:
    unused = [name for name in REQUESTS if name != "replay" and _given(name, conf.get(f"{group_id}.{name}"))]
    if unused:
        raise ConfigurationError(
            f"{group_id}.{unused[0]} was given, but the run replays a batch and reads nothing.", remedy="Leave it out."
        )
    if _backfill(dag_run):
        raise ConfigurationError(
            f"{group_id}.replay was given to a backfill, each of whose runs would replay the same batch.",
            remedy="Trigger one run with it.",
        )
    return RunRequest(Mode.INCREMENTAL, None, {"replay": values["replay"]})


def _backfill(dag_run: Any) -> bool:
    # The run's id does not tell it: a scheduled run that a backfill processes again keeps its id.
    kind = getattr(dag_run, "run_type", None)
    return str(getattr(kind, "value", kind)) == "backfill"


def _values(group_id: str, conf: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{group_id}."
    if group_id and group_id in conf:
        raise ConfigurationError(
            f"The run's conf has {group_id!r}, which asks for nothing.",
            remedy=f"Write single values: {', '.join(prefix + name for name in REQUESTS)}.",
        )
    found: dict[str, Any] = {}
    for source in (params, conf):
        for key in source:
            if not group_id or not key.startswith(prefix):
                continue
            name = key.removeprefix(prefix)
            if "." in name:  # of a group within this one's prefix: `etl.flights.records` is nothing to the group `etl`
                continue
            if name not in REQUESTS:
                raise ConfigurationError(
                    f"{key!r} is not known.", remedy=f"Known are {', '.join(prefix + known for known in REQUESTS)}."
                )
            if _given(name, source[key]):
                found[name] = _read(key, name, source[key])
    return found


def _given(name: str, value: Any) -> bool:
    """Whether a value asks for something. The form's mode is empty unless a person chooses one."""
    return value is not None and not (name == "mode" and value == "")


def _read(key: str, name: str, value: Any) -> Any:
    try:
        if name in ("from", "to"):
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            if moment.utcoffset() is None:
                raise ValueError("it has no time zone")
            return moment.astimezone(UTC)
        if name == "mode":
            return str(value)
        if name == "replay":
            if not isinstance(value, str) or not value.strip():
                raise ValueError("it is not the id of a batch")
            return value.strip()
        seconds = name in ("duration_s", "run_duration_s")
        number = float(value) if seconds else int(value)
        if isinstance(value, bool) or not number > 0 or (not seconds and number != float(value)):  # nor is nan
            raise ValueError("it must be above zero")
        if number > (LONGEST_S if seconds else LARGEST):
            raise ValueError(f"it may be {LONGEST_S if seconds else LARGEST} at most")
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{key} = {value!r} cannot be used: {error}.", remedy="Correct the run's conf."
        ) from error


def _interval(group_id: str, dag_run: Any, values: Mapping[str, Any]) -> Interval:
    start, end = values.get("from"), values.get("to")
    if (start is None) != (end is None):
        raise ConfigurationError(f"{group_id}.from and .to belong together.", remedy="Give both or none.")
    if start is not None and end is not None and start >= end:
        raise ConfigurationError(
            f"{group_id}.from = {start.isoformat()} is not before {group_id}.to = {end.isoformat()}: the interval has "
            "no length.",
            remedy=f"Give {group_id}.to a later instant; its own records are not in the interval.",
        )
    if start is None:
        start, end = getattr(dag_run, "data_interval_start", None), getattr(dag_run, "data_interval_end", None)
    if start is None or end is None:
        raise ConfigurationError("The run reads an interval, but it has no data interval.", remedy=_otherwise(group_id))
    if start >= end:
        raise ConfigurationError(
            f"The run's interval from {start.isoformat()} to {end.isoformat()} has no length, as of a schedule that is "
            "a cron string or a timedelta.",
            remedy=_otherwise(group_id),
        )
    return Interval(round(start.timestamp() * 1000), round(end.timestamp() * 1000))


def _otherwise(group_id: str) -> str:
    """What to do where a run reads an interval and Airflow gave it none."""
    return (
        f"Give {group_id}.from and {group_id}.to, or a schedule with intervals: CronDataIntervalTimetable, "
        "DeltaDataIntervalTimetable or CronTriggerTimetable(interval=…)."
    )
