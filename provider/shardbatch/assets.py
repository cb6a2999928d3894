# SPDX-License-Identifier: Apache-2.0
"""The assets of an application: what it has committed, and what its stream has for it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import Asset, AssetWatcher

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.names import asset_uri, namespace_of

if TYPE_CHECKING:
    from shardbatch.hooks.leases import Leases
    from shardbatch.hooks.streams import Stream

#: The shortest time between two looks.
SHORTEST = timedelta(seconds=1)


def committed_batches(app_name: str, stream_name: str) -> Asset:
    """The asset of an application: every newly committed batch with records makes an event of it.

    A DAG that is scheduled on the asset should treat an event as a signal to look, not as data or a count, because
    Airflow may merge events that come close together. An event's ``extra`` has the batch's id, counts, lag and some
    checkpoints.
    """
    return Asset(name=f"{app_name}/{stream_name}", uri=asset_uri(app_name, stream_name), group="shardbatch")


def stream_asset(
    *,
    app_name: str,
    stream: Stream,
    leases: Leases | str | None = None,
    poll_interval: timedelta = timedelta(seconds=30),
    back_off: timedelta = timedelta(minutes=5),
) -> Asset:
    """The asset of what a stream has for an application that has not read it yet. Schedule the DAG on it that reads the
    stream: ``DAG(schedule=[stream_asset(...)], max_active_runs=1)``.

    A watcher in the triggerer looks at the lease store and the stream. It makes an event when a run would find
    something to do: unread records, a shard that came or ended, a batch of a run that is over. While a run of the
    application is at work, it makes none. An event has no record: the run reads from the application's checkpoints, so
    nothing is missed if events are lost or merged, or while the DAG is paused.

    Airflow starts the watcher only while a DAG that is scheduled on the asset is not paused.

    :param app_name: the application; no template.
    :param stream: the stream that it reads, with the connection that the triggerer uses; no templates.
    :param leases: where its leases are kept, also as text, as ``sql://CONN_ID``. Default: the setting ``[shardbatch]
        leases``.
    :param poll_interval: time between two looks, 30 seconds by default, 1 second or more. A look at an idle stream
        costs one call that reads for each open shard.
    :param back_off: how long after an event a checkpoint may take to move, 5 minutes by default, not less than
        ``poll_interval``. Then the event counts as lost, and another one is made if no run is at work. Each further one
        that leads to nothing waits twice as long, an hour at most (or ``back_off``, if that is longer).
    :raises ConfigurationError: for a template, a name or a time that cannot be used, a stream that cannot be handed to
        the triggerer, or if there is no lease store.
    """
    from shardbatch.hooks.settings import chosen_leases, leases_of
    from shardbatch.hooks.stream_literals import stream_to_json
    from shardbatch.stream_watcher import StreamWatcher

    if poll_interval < SHORTEST or back_off < poll_interval:
        raise ConfigurationError(
            f"stream_asset(poll_interval={poll_interval}, back_off={back_off}) cannot be used.",
            remedy="Let poll_interval be a second or more, and back_off not less than poll_interval.",
        )
    literals = stream_to_json(stream)
    if literals is None:
        raise ConfigurationError(
            f"stream_asset(stream={stream!r}) cannot be handed to the triggerer.",
            remedy="Give a dataclass at the top of a module, whose fields are texts, numbers and datetimes.",
        )
    namespace = namespace_of(app_name, stream.stream_name)
    chosen = chosen_leases(leases_of(leases, "stream_asset(leases)") if isinstance(leases, str) else leases)
    for value in (app_name, *literals.values(), *chosen.to_json().values()):
        if isinstance(value, str) and ("{{" in value or "{%" in value):
            raise ConfigurationError(
                f"stream_asset: {value!r} is a template, and nothing renders it in the triggerer.",
                remedy="Give the text that is meant.",
            )
    trigger = StreamWatcher(
        app_name=app_name,
        stream_name=namespace.stream_name,
        stream=literals,
        leases=chosen.to_json(),
        every=poll_interval.total_seconds(),
        back_off=back_off.total_seconds(),
    )
    return Asset(
        name=f"{namespace.app_name}/{namespace.stream_name}/unread",
        uri=f"{asset_uri(app_name, stream.stream_name)}/unread",
        group="shardbatch",
        watchers=[AssetWatcher(name="stream", trigger=trigger)],
    )
