# SPDX-License-Identifier: Apache-2.0
"""ShardbatchHook: how an application stands, for the tasks of authors, by the use-cases of the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from airflow.sdk import BaseHook, get_current_context

from shardbatch.errors import ApplicationUnknown, ConfigurationError, StoreNotFound
from shardbatch.hooks.leases import Leases, existing_store
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import chosen_leases, leases_of
from shardbatch.hooks.stream_literals import stream_from
from shardbatch.hooks.streams import Stream

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from shardbatch.control.questions import Answer, Question
    from shardbatch.control.shared_look import Look
    from shardbatch.control.status import ShardStatus, Status
    from shardbatch.core.ports import LeaseStore, Source
    from shardbatch.core.rows import Namespace
    from shardbatch.core.watermark import Watermark
    from shardbatch.run.batch_status import BatchStatus


#: What makes a text a template.
TEMPLATE = re.compile(r"\{[{%]")


class Group(Protocol):
    """What the hook takes of a ``StreamBatch`` group."""

    @property
    def app_name(self) -> str:
        """The application's name."""
        ...

    @property
    def stream(self) -> Stream:
        """The stream that it reads."""
        ...

    @property
    def leases(self) -> Leases:
        """Where its leases are kept."""
        ...


class ShardbatchHook(BaseHook):
    """How an application stands: its lag, shards and batches, for tasks of your own.

    It reads the lease store only: it calls neither the stream nor the staging folder, and changes nothing. Each method
    opens the store, looks once, and closes it.

    Name the application by its group, or by ``app_name`` and ``stream``.

    :param batch: the ``StreamBatch`` group, which brings ``app_name``, ``stream`` and ``leases``; default: none. If
        these are templates, they are rendered as the running task renders them.
    :param app_name: the application; default: that of ``batch``.
    :param stream: the stream that the application reads, or its name; default: that of ``batch``.
    :param leases: where leases are kept, also as text: ``sql://CONN_ID``, or
        ``dynamodb://TABLE?aws_conn_id=aws_default&region=eu-west-1``. Default: those of ``batch``, or else the setting
        ``[shardbatch] leases``.
    :raises ConfigurationError: if ``batch`` and one of the others are given, if neither or only one of ``app_name`` and
        ``stream`` is, for a text of ``leases`` that cannot be read, or if there is no lease store.
    """

    def __init__(
        self,
        *,
        batch: Group | None = None,
        app_name: str | None = None,
        stream: Stream | str | None = None,
        leases: Leases | str | None = None,
    ) -> None:
        super().__init__()
        if batch is not None:
            if (app_name, stream, leases) != (None, None, None):
                raise ConfigurationError(
                    "ShardbatchHook has batch and another argument.", remedy="Give batch only: it brings the others."
                )
            app_name, stream, leases = batch.app_name, batch.stream, batch.leases
        if not app_name or not stream:
            raise ConfigurationError(
                "ShardbatchHook does not say which application it is about.",
                remedy="Give batch=, a StreamBatch group, or both app_name= and stream=.",
            )
        self.app_name = app_name
        self.stream = stream
        #: Only texts of the DAG file are templates. What a task passes may be data of the person who triggered it.
        self._of_group = batch is not None
        self.leases = chosen_leases(leases_of(leases, "ShardbatchHook(leases)") if isinstance(leases, str) else leases)

    def status(self) -> Status:
        """How the application stands as a whole, as ``airflow shardbatch status`` shows it.

        :raises ApplicationUnknown: if the store has no such application; it names those that are spelled like it.
        :raises ConfigurationError: for a name or a connection that cannot be used.
        :raises StoreError: if the store cannot be reached, or has no tables.
        """
        from shardbatch.control import status as statuses

        with self._opened() as (store, namespace):
            return statuses.status(store, namespace)

    def shards(self) -> tuple[ShardStatus, ...]:
        """Every shard of the live application that has a lease, in the order of their ids, as ``airflow shardbatch
        shards`` shows them.

        :raises ApplicationUnknown: if the store has no such application; it names those that are spelled like it.
        :raises ConfigurationError: for a name or a connection that cannot be used.
        :raises StoreError: if the store cannot be reached, or has no tables.
        """
        from shardbatch.control import status as statuses

        with self._opened() as (store, namespace):
            return statuses.shards(store, namespace)

    def batches(self, limit: int = 20) -> tuple[BatchStatus, ...]:
        """The latest batches, newest first, those of interval runs too, as ``airflow shardbatch batches`` shows them.

        :param limit: how many at most, default 20; 1 or more.
        :raises ApplicationUnknown: if the store has no such application; it names those that are spelled like it.
        :raises ConfigurationError: for a limit below 1, or a name or a connection that cannot be used.
        :raises StoreError: if the store cannot be reached, or has no tables.
        """
        from shardbatch.control import status as statuses

        with self._opened() as (store, namespace):
            return statuses.batches(store, namespace, limit)

    def watermark(self) -> Watermark:
        """Up to when all that arrived is committed or in a recorded gap, by two looks of which the lesser counts.

        :raises ApplicationUnknown: if the store has no such application; it names those that are spelled like it.
        :raises ConfigurationError: for a name or a connection that cannot be used.
        :raises StoreError: if the store cannot be reached, or has no tables.
        """
        from shardbatch.control import status as statuses

        with self._opened() as (store, namespace):
            return statuses.committed_up_to(store, namespace)

    def ask(self, question: Question, look: Look | None = None, source: Mapping[str, Any] | None = None) -> Answer:
        """What the rows say to a question of a sensor. An application that has not claimed yet is waited for.

        :param look: what others read that share it; default: nothing.
        :param source: the stream as ``stream_to_json`` gives it, for a question that needs it; default: that of the
            hook, if it is not a name.
        :raises ConfigurationError: for a name or a connection that cannot be used.
        :raises StoreError: if the store cannot be reached.
        :raises SourceError: if the stream is asked and cannot be.
        """
        from shardbatch.control.applications import near_names
        from shardbatch.control.questions import Answer, StreamQuestion
        from shardbatch.control.shared_look import Look, SharedStore
        from shardbatch.control.stream_look import StreamLook

        app_name, named, leases = self._rendered() if self._of_group else (self.app_name, self.stream, self.leases)
        namespace = namespace_of(app_name, named if isinstance(named, str) else named.stream_name)
        stream: Callable[[], Stream] | None = None if isinstance(named, str) else partial(_itself, named)
        if source is not None:
            stream = partial(stream_from, source)
        shared = look or Look()
        path = shared.path()
        with closing(SharedStore(path, partial(existing_store, leases))) as store:
            try:
                with near_names(store, namespace):
                    if not isinstance(question, StreamQuestion):
                        return question.ask(store, namespace)
                    if stream is None:
                        return question.ask_with(store, namespace, None)
                    opened = partial(_opened_source, stream)
                    with closing(StreamLook(path, json.dumps(source, sort_keys=True), opened, shared.rest)) as there:
                        return question.ask_with(store, namespace, there)
            except (ApplicationUnknown, StoreNotFound) as error:
                return Answer(False, f"{error} It is there once a run has claimed for the first time.")

    @contextmanager
    def _opened(self) -> Iterator[tuple[LeaseStore, Namespace]]:
        """The store and the application's namespace, templates rendered; the store is closed at the end."""
        from shardbatch.control.applications import near_names

        app_name, stream, leases = self._rendered() if self._of_group else (self.app_name, self.stream, self.leases)
        namespace = namespace_of(app_name, stream if isinstance(stream, str) else stream.stream_name)
        with existing_store(leases) as store, near_names(store, namespace):
            yield store, namespace

    def _rendered(self) -> tuple[str, Stream | str, Leases]:
        stream = self.stream
        if not isinstance(stream, str) and TEMPLATE.search(stream.address):
            stream = stream.rendered(_rendered)
        return _rendered(self.app_name), stream, self.leases.rendered(_rendered)


def _itself(stream: Stream) -> Stream:
    return stream


def _opened_source(stream: Callable[[], Stream]) -> AbstractContextManager[Source]:
    return closing(stream().open())


def _rendered(text: str) -> str:
    """A text of an author, as the task that runs renders it.

    :raises ConfigurationError: for a template where no task runs.
    """
    if not TEMPLATE.search(text):
        return text
    from shardbatch.hooks.templates import renderer

    try:
        context = get_current_context()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{text!r} is a template, and no task is running that could render it.",
            remedy="Call ShardbatchHook in a task, or give it the text that is meant.",
        ) from error
    return renderer(cast("BaseOperator", context["task"]), context)(text)
