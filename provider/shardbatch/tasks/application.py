# SPDX-License-Identifier: Apache-2.0
"""From what an author wrote, and the run at hand, to a consumer and an owner: the one place where they are made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shardbatch.core.limits import ReadLimits
from shardbatch.core.metrics import Measure, unmeasured
from shardbatch.core.owner import Mode, Owner
from shardbatch.core.policies import ClaimOptions, Outputs, Policies
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.lazy_source import LazySource
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import chosen_leases, chosen_staging, deployment_id
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.tasks.liveness import liveness
from shardbatch.tasks.metrics import Meter
from shardbatch.tasks.reading import shown_in
from shardbatch.tasks.run_request import RunRequest, request_of
from shardbatch.tasks.steps import Steps

if TYPE_CHECKING:
    from shardbatch.core.ports import LeaseStore
    from shardbatch.run import Consumer

log = logging.getLogger("shardbatch")


@dataclass(frozen=True)
class ApplicationSpec:
    """An application on a stream, as its author wrote it.

    :param app_name: an independent consumer of the stream: 1 to 128 printable characters, no slash. May be a template.
    :param group_id: the group whose runs own the leases; empty for tasks that stand alone.
    :param leases: default: the setting ``[shardbatch] leases``.
    :param staging: default: the setting ``[shardbatch] staging``.
    :raises ConfigurationError: for a name that cannot be used, or without a lease store or a staging folder.
    """

    app_name: str
    stream: Stream
    leases: Leases
    staging: Staging
    group_id: str = ""
    limits: ReadLimits = field(default_factory=ReadLimits)
    claim: ClaimOptions = field(default_factory=ClaimOptions)
    policies: Policies = field(default_factory=Policies)
    outputs: Outputs = field(default_factory=Outputs)

    def __post_init__(self) -> None:
        if "{{" not in str(self.app_name):
            self.require_name()

    @classmethod
    def of(
        cls, app_name: str, stream: Stream, leases: Leases | None, staging: Staging | None, **more: Any
    ) -> ApplicationSpec:
        """With the deployment's lease store and staging folder where none is given, and defaults for ``None``.

        :raises ConfigurationError: if there is none either, or for a name that cannot be used.
        """
        return cls(
            app_name=app_name,
            stream=stream,
            leases=chosen_leases(leases),
            staging=chosen_staging(staging),
            **{name: value for name, value in more.items() if value is not None},
        )

    def require_name(self) -> None:
        """See that the application's and the stream's name can stand in a namespace.

        :raises ConfigurationError: if they cannot.
        """
        namespace_of(self.app_name, self.stream.stream_name)

    def rendered(self, render: Callable[[str], str]) -> ApplicationSpec:
        """With all templates rendered.

        :raises ConfigurationError: for a name that rendering left unusable.
        """
        done = replace(
            self,
            app_name=render(self.app_name),
            stream=self.stream.rendered(render),
            leases=self.leases.rendered(render),
            staging=self.staging.rendered(render),
        )
        done.require_name()
        return done

    def request(self, context: Mapping[str, Any], store: LeaseStore) -> RunRequest:
        """What the run at hand asks for.

        :param store: has the batches of a run that a backfill processes again.
        :raises ConfigurationError: if it asks for what cannot be done.
        """
        has_batch = partial(self._has_batch, context, store)
        return request_of(self.group_id, context["dag_run"], context.get("params") or {}, has_batch)

    def owner(self, context: Mapping[str, Any], mode: Mode) -> Owner:
        """The owner that the run at hand is.

        :raises ConfigurationError: if the deployment has no id.
        """
        run = context["dag_run"]
        return Owner(deployment_id(self.leases), run.dag_id, run.run_id, self.group_id, str(mode))

    def _has_batch(self, context: Mapping[str, Any], store: LeaseStore) -> bool:
        """Whether the run at hand has a batch of the live application that was not given up."""
        from shardbatch.run import Rows

        rows = Rows(namespace=Namespace(self.app_name, self.stream.stream_name), store=store)
        return rows.has_batch(str(self.owner(context, Mode.INCREMENTAL)))

    @contextmanager
    def open(
        self, context: Mapping[str, Any], say: logging.Logger | Any = None, measure: Measure | None = None
    ) -> Iterator[Steps]:
        """The steps of the run at hand; connections are given back at the end.

        :param measure: takes what is measured, default: it is dropped.
        :raises ConfigurationError: if something that was named is missing.
        """
        store = self.leases.open()
        try:
            request = self.request(context, store)
            owner = self.owner(context, request.mode)
            found = self.consumer(owner, request, store, say or log, measure or unmeasured)
            consumer = replace(found, show=shown_in(context.get("task_state_store"), found.warn))
        except BaseException:
            store.close()
            raise
        try:
            yield Steps(consumer, owner)
        finally:
            consumer.close()

    def meter(self, context: Mapping[str, Any]) -> Meter:
        """What sends the metrics of the run at hand; its mode is what the run asks for, until it is told another."""
        try:
            mode = request_of(self.group_id, context["dag_run"], context.get("params") or {}).mode
        except ConfigurationError:  # the step itself says so, unless it goes on with a batch that needs no interval
            mode = Mode.INCREMENTAL
        return Meter(self.app_name, self.stream.stream_name, str(mode))

    def consumer(
        self,
        owner: Owner,
        request: RunRequest,
        store: LeaseStore,
        say: logging.Logger | Any = log,
        measure: Measure = unmeasured,
    ) -> Consumer:
        """The consumer of an owner. The caller closes it, and the store with it."""
        from shardbatch.run import Consumer

        limits = request.limits(self.limits)
        budget = limits.duration if request.interval is None else None
        return Consumer(
            namespace=Namespace(self.app_name, self.stream.stream_name),
            source=LazySource(self.stream.stream_name, partial(self.stream.open, self.app_name, budget)),
            store=store,
            landing=self.staging.open(),
            liveness=liveness(owner.deployment),
            deployment=owner.deployment,
            scope=owner.scope,
            start=self.stream.position,
            limits=limits,
            options=request.options(self.claim),
            policies=self.policies,
            outputs=self.outputs,
            say=say.info,
            warn=say.warning,
            measure=measure,
            interval=request.interval,
            replay=request.replay,
        )
