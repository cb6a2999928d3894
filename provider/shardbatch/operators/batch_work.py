# SPDX-License-Identifier: Apache-2.0
"""The base of the operators that run an application on a frozen batch: the batch, its attempt, its end record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.exceptions import AirflowSkipException

from shardbatch.core.handover import WorkOrder
from shardbatch.core.owner import Mode
from shardbatch.errors import ConfigurationError, JobFailed, ProtocolError
from shardbatch.hooks.templates import renderer
from shardbatch.operators.end_record import Bound, record_ends, work_of
from shardbatch.operators.explained import Explained
from shardbatch.operators.failure import final_errors
from shardbatch.operators.links import lead_to, lead_to_owner
from shardbatch.operators.rendering import place
from shardbatch.submit.attempt import Attempt, Heartbeat
from shardbatch.submit.output import Output
from shardbatch.tasks.application import ApplicationSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.hooks.leases import Leases
    from shardbatch.hooks.staging import Staging
    from shardbatch.hooks.streams import Stream
    from shardbatch.task_group import StreamBatch


class BatchWork(Explained):
    """An operator that runs an application on the frozen batch of a ``StreamBatch`` group.

    While the application runs, it keeps the batch alive. A batch that is lost ends the application.
    """

    template_fields: Sequence[str] = ("manifest_uri", "manifest_digest", "batch_id", "attempt")

    def __init__(
        self,
        *,
        batch: StreamBatch | None = None,
        manifest_uri: Any = None,
        manifest_digest: Any = None,
        batch_id: Any = None,
        attempt: Any = None,
        app_name: str | None = None,
        stream: Stream | None = None,
        leases: Leases | None = None,
        staging: Staging | None = None,
        group_id: str = "",
        heartbeat: timedelta = timedelta(seconds=20),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if heartbeat <= timedelta(0):
            raise ConfigurationError(
                f"{place(self)}: {type(self).__name__}(heartbeat) must be above zero.", remedy="Give a timedelta."
            )
        if batch is not None and not _stands_inside(self, batch.group_id):
            raise ConfigurationError(
                f"{place(self)}: it works on the batch of {batch.group_id!r} but stands outside that group, so "
                "commit would not wait for it.",
                remedy='Create it within the block of "with StreamBatch(…) as batch".',
            )
        self.manifest_uri = batch.manifest_uri if batch is not None else manifest_uri
        self.manifest_digest = batch.manifest_digest if batch is not None else manifest_digest
        self.batch_id = batch.batch_id if batch is not None else batch_id
        self.attempt = batch.attempt if batch is not None else attempt
        self.heartbeat = heartbeat
        self._require(app_name=app_name or batch, stream=stream or batch)
        try:
            self.spec = (
                batch.spec
                if batch is not None
                else ApplicationSpec.of(app_name or "", cast("Stream", stream), leases, staging, group_id=group_id)
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error
        grace = self.spec.claim.attempt_grace
        if batch is not None and heartbeat >= grace:
            raise ConfigurationError(
                f"{place(self)}: a heartbeat every {heartbeat} shows no life within attempt_grace, which is {grace}.",
                remedy="Give a heartbeat below a third of ClaimOptions(attempt_grace).",
            )
        self._order: WorkOrder | None = None
        self._open: Attempt | None = None
        self._goes_on: str | None = None
        self._did_nothing = False
        self._output = Output()
        self._records: int | None = None
        self._asked_to_end = False
        self._rendered: ApplicationSpec | None = None
        self._roots: tuple[str, ...] | None = None
        if batch is None:
            record_ends(self, self.spec, "", only=True)

    def bound(self) -> Bound | None:
        """The batch and attempt of this try, and the token that its application got (for the end record)."""
        done = self._order
        if done is None:
            return None
        return Bound(
            done.batch_id,
            done.attempt,
            done.token,
            did_nothing=self._did_nothing,
            sure=bool(done.token),
            records=self._records,
        )

    def wrote_below(self, roots: Sequence[str]) -> None:
        """Learn which output roots its application wrote below (for lineage)."""
        self._roots = tuple(roots)

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """The batch, and the roots that its application wrote below, for Airflow's OpenLineage provider; nothing of
        one that failed."""
        from shardbatch.tasks.lineage import of_work

        if self._rendered is None or self._roots is None:
            return None
        return of_work(self._rendered, str(self.batch_id), self._roots)

    def _require(self, **given: Any) -> None:
        for name in ("manifest_uri", "manifest_digest", "batch_id", "attempt"):
            given[name] = getattr(self, name)
        missing = sorted(name for name, value in given.items() if value is None)
        if missing:
            raise ConfigurationError(
                f"{place(self)}: {type(self).__name__} has neither batch nor {', '.join(missing)}.",
                remedy='Give batch=, the group of "with StreamBatch(…) as batch".',
            )

    def execute(self, context: Context) -> None:
        """Run the application, unless the batch is empty or this attempt is already committed."""
        if not self.batch_id:
            raise AirflowSkipException("The batch is empty: there is nothing to do.")
        with final_errors():
            try:
                self._execute(context)
            except ProtocolError as error:
                lead_to_owner(self, error, self.spec.owner(context, Mode.INCREMENTAL).deployment)
                raise

    def _execute(self, context: Context) -> None:
        order = self._order_of(context)
        self._prepare(context, order)
        self._rendered = spec = self.spec.rendered(renderer(self, context))
        lead_to(self, spec, order.batch_id)
        attempt = Attempt.of(spec, context, order.batch_id, order.attempt, order.work)
        try:
            if not attempt.my_turn():
                self.log.info("Attempt %s of batch %s is committed already.", attempt.attempt, attempt.batch_id)
                self._did_nothing = True
                return
            self._work(context, attempt)
        finally:
            attempt.release_connections()

    def _run(self, context: Context, attempt: Attempt, known: str | None = None) -> None:
        """Run the application while a heartbeat shows life.

        :param known: what the application is called, if that is known before it starts; default: it is not.
        """
        self._open, self._records = attempt, attempt.records()
        heartbeat = Heartbeat(
            attempt,
            every=self.heartbeat,
            application=self._application_reference,
            stop=self._stop_application,
            known=known,
        )
        try:
            with heartbeat:
                self._start(context)
            self._close_attempt()
        except BaseException as error:
            if self._running():
                self._stop_application()
            if self._known_to_be_over(context):
                self._close_attempt()
            heartbeat.raise_if_lost()
            if told := self._told(error, attempt):
                raise told from None  # what it stands for repeats the output, which is in the log already
            raise
        heartbeat.raise_if_lost()

    @abstractmethod
    def _prepare(self, context: Context, order: WorkOrder) -> None:
        """Keep the order, and see that what the application needs is there."""

    @abstractmethod
    def _work(self, context: Context, attempt: Attempt) -> None:
        """End what an earlier try or attempt of this task has left, then :meth:`_run` the application."""

    @abstractmethod
    def _start(self, context: Context) -> None:
        """Start the application and wait for its end; raises if it fails."""

    @abstractmethod
    def _running(self) -> bool:
        """Whether what this worker started is still there."""

    @abstractmethod
    def _application_reference(self) -> str | None:
        """What the application is called in the batch's row, once it is known."""

    @abstractmethod
    def _stop_application(self) -> None:
        """End the application. Again does no harm."""

    @abstractmethod
    def _known_to_be_over(self, context: Context) -> bool:
        """Whether the application has certainly ended; if not, its attempt stays open until its grace has passed."""

    @abstractmethod
    def _told(self, error: BaseException, attempt: Attempt) -> JobFailed | None:
        """Our error in place of the one by which a failed application is reported."""

    def _order_of(self, context: Context) -> WorkOrder:
        return WorkOrder(
            manifest=str(self.manifest_uri),
            attempt=int(cast("int", self.attempt)),
            digest=str(self.manifest_digest),
            work=work_of(self.task_id, getattr(context["ti"], "map_index", -1)),
            batch_id=str(self.batch_id),
        )

    def _close_attempt(self) -> None:
        # Again at the end if on_kill has done it: a heartbeat in between takes the attempt for alive.
        if self._open is not None:
            self._open.close()


def _stands_inside(task: BatchWork, group_id: str | None) -> bool:
    group = task.task_group
    while group is not None and group.group_id != group_id:
        group = group.parent_group
    return group is not None
