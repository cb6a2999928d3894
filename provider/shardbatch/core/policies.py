# SPDX-License-Identifier: Apache-2.0
"""The author's choices: what to do when something cannot go on, output, and how leases are claimed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shardbatch.core.choices import Choice, chosen
from shardbatch.errors import ConfigurationError


class GapPolicy(Choice):
    """``fail``: a slice that has a gap waits until a person accepts it, or a run has ``record``, which goes on
    with the gap noted."""

    FAIL = "fail"
    RECORD = "record"


class ShardErrors(Choice):
    """``isolate``: an unreadable shard is left out and the run fails after its commit. ``fail``: it fails before."""

    ISOLATE = "isolate"
    FAIL = "fail"


class Sink(Choice):
    """``starts``: every start writes to a folder of its own. ``own``: the author's sink is atomic by itself."""

    STARTS = "starts"
    OWN = "own"


class Intervals(Choice):
    """What live readers see of an interval run's records. ``apart``: nothing, they are read by naming the interval.
    ``join``: all, and a run whose records the live application may have too is refused."""

    APART = "apart"
    JOIN = "join"


class StartingPosition(Choice):
    """Where an application begins that has no checkpoints yet. ``TRIM_HORIZON``: at the oldest record that the stream
    still holds. ``LATEST``: behind the newest."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"


@dataclass(frozen=True)
class Policies:
    """The reactions to what cannot go on.

    :param gap: records that expired unread: ``fail`` (default) or ``record``.
    :param shard_errors: a shard that cannot be read: ``isolate`` (default) or ``fail``.
    :param sink: ``starts`` (default) for output below ``batch.output(...)``, ``own`` for a sink atomic by itself.
    :param max_attempts: attempts after which a batch is parked, default never (1 or more). After a person has resumed
        the batch, the count starts again.
    :raises ConfigurationError: for a word that is not known, or less than one attempt.
    """

    gap: GapPolicy | str = GapPolicy.FAIL
    shard_errors: ShardErrors | str = ShardErrors.ISOLATE
    sink: Sink | str = Sink.STARTS
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        for name, kind in (("gap", GapPolicy), ("shard_errors", ShardErrors), ("sink", Sink)):
            value = getattr(self, name)
            object.__setattr__(self, name, chosen(kind, value, f"Policies({name}={value!r})"))
        if self.max_attempts is not None and self.max_attempts < 1:
            raise ConfigurationError("Policies(max_attempts) is 1 or more.", remedy="Leave it out to never park.")


@dataclass(frozen=True)
class Outputs:
    """How readers see an application's output roots.

    :param shared: whether other applications with this setting may write below the same roots. Default no: a root
        belongs to the application that commits there first, and another one is refused. Readers of a shared root see
        the records of all its applications.
    :param intervals: what live readers see of interval runs: ``apart`` (default) or ``join``.
    :raises ConfigurationError: for a word that is not known.
    """

    shared: bool = False
    intervals: Intervals | str = Intervals.APART

    def __post_init__(self) -> None:
        said = f"Outputs(intervals={self.intervals!r})"
        object.__setattr__(self, "intervals", chosen(Intervals, self.intervals, said))

    @property
    def joins(self) -> bool:
        """Whether live readers see the records of interval runs."""
        return self.intervals is Intervals.JOIN


@dataclass(frozen=True)
class ClaimOptions:
    """How a run claims leases.

    :param max_shards: the most shards that one run takes, default all that are claimable (1 or more). Beside other
        groups that read (``shared``), a run takes at most its share of the shards.
    :param read_tasks: the most mapped read tasks, default 16 (1 to 1000). A further task is opened only if there are
        more shards than the others read at once (``ReadLimits(concurrency)``).
    :param stuck_after: how long records may wait for leases that others hold before the run fails, default 1 hour.
    :param lease_duration: how long the lease of another deployment must show no life before it is taken, default
        5 minutes; never less than that deployment's own value. Lower values take over sooner, but also take leases
        from owners that are only slow.
    :param attempt_grace: how long a run waits for an application that may still be running, default 2 minutes.
    :param shared: whether this group may claim leases of an application that another DAG or group also claims, default
        no. Their runs then divide the shards, and every record is in a batch of one of them.
    :param drain_lineage: whether one run reads parents and then their children, default yes.
    :raises ConfigurationError: for a value out of its range.
    """

    max_shards: int | None = None
    read_tasks: int = 16
    stuck_after: timedelta = timedelta(hours=1)
    lease_duration: timedelta = timedelta(minutes=5)
    attempt_grace: timedelta = timedelta(minutes=2)
    drain_lineage: bool = True
    shared: bool = False

    def __post_init__(self) -> None:
        if self.max_shards is not None and self.max_shards < 1:
            raise ConfigurationError("ClaimOptions(max_shards) is 1 or more.", remedy="Leave it out to take all.")
        if not 1 <= self.read_tasks <= 1000:
            raise ConfigurationError("ClaimOptions(read_tasks) is 1 to 1000.", remedy="The default is 16.")
        for name in ("stuck_after", "lease_duration", "attempt_grace"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value <= timedelta(0):
                raise ConfigurationError(
                    f"ClaimOptions({name}={value!r}) must be above zero.", remedy="Give a timedelta."
                )
