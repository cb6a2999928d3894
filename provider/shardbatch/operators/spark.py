# SPDX-License-Identifier: Apache-2.0
"""SparkSubmitBatchOperator: the stock operator, bound to one attempt of a frozen batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from shardbatch.core.choices import SparkJvm
from shardbatch.core.handover import WorkOrder
from shardbatch.core.owner import Mode
from shardbatch.errors import ConfigurationError, JobFailed, ProtocolError
from shardbatch.hooks.templates import renderer
from shardbatch.operators.end_record import Bound, record_ends, work_of
from shardbatch.operators.explained import Explained
from shardbatch.operators.failure import final_errors
from shardbatch.operators.links import BatchLink, lead_to_owner
from shardbatch.operators.reconnection import bind_reconnection
from shardbatch.operators.rendering import place
from shardbatch.submit import applications, processes, quick
from shardbatch.submit.attempt import Attempt, Heartbeat
from shardbatch.submit.end import Worked, job_failed
from shardbatch.submit.output import Output, listen
from shardbatch.tasks.application import ApplicationSpec

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection, Context

    from shardbatch.hooks.leases import Leases
    from shardbatch.hooks.staging import Staging
    from shardbatch.hooks.streams import Stream
    from shardbatch.task_group import StreamBatch


class SparkSubmitBatchOperator(Explained, SparkSubmitOperator):
    """Runs a Spark application on the frozen batch of a ``StreamBatch`` group.

    It takes every argument of the stock ``SparkSubmitOperator`` and behaves like it. It also

    * tells the application its batch: by Spark configuration ``spark.shardbatch.*`` in every mode, and by environment
      variables ``SHARDBATCH_*`` in every mode except standalone cluster mode; ``open_batch`` finds either;
    * does nothing and succeeds if this attempt is already committed, and fails without a retry if the batch belongs to
      another owner;
    * keeps the batch alive while it waits, and ends its application if the batch is lost;
    * records the application's id on the batch, one for each task of the block. Before it submits another, it ends the
      application of an older attempt of this task if it can reach it, as ``freeze`` does for every task;
    * puts the batch id into the application's name and, on YARN and Kubernetes, into its tags;
    * logs the result at the end: records, start and output folder, or the exception that ended the application.

    A retry of the same attempt goes on with the application that is running at the cluster (``durable``, as in the
    stock operator). Another attempt never does.

    :param batch: the group whose batch it works on. Outside such a group, give ``manifest_uri``, ``manifest_digest``,
        ``batch_id`` and ``attempt`` (outputs of ``FreezeOperator``; templated), and the same ``app_name``, ``stream``,
        ``leases``, ``staging`` and ``group_id`` as for the four steps. It leaves its end record there too.
    :param heartbeat: time between two signs of life, default 20 seconds (above 0). Keep it below a third of
        ``ClaimOptions(attempt_grace)``; otherwise the batch may be treated as abandoned.
    :param jvm: how the JVM of spark-submit starts: ``SparkJvm.PLAIN``, as Spark starts it, or ``SparkJvm.QUICK``, for
        jobs of seconds in client and local mode; default: the setting ``spark_jvm``. ``QUICK`` sets
        ``SPARK_SUBMIT_OPTS``; options of the application win over it. It takes the archive of Spark's classes that
        ``airflow shardbatch warm-spark`` made on the worker, if it fits; otherwise the log says why not.
    :raises JobFailed: when it runs, if the application ends without success. The task is tried again, up to
        ``retries`` times.
    :raises ConfigurationError: if neither a group nor all of the single values are given, if it stands outside that
        group, or for a heartbeat that is not above zero or not below the group's ``attempt_grace``. When it runs: if
        the Spark connection, spark-submit or Java is missing.
    """

    red = (
        "Nothing is lost: the batch waits, and no checkpoint moves. The last line of its log names the exception. Mend "
        "the job, then clear this task with its downstream tasks: it gets the same records. If the batch cannot be "
        "processed for now: `airflow shardbatch park`."
    )
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, BatchLink())
    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "manifest_uri",
        "manifest_digest",
        "batch_id",
        "attempt",
    )

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
        jvm: SparkJvm | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if heartbeat <= timedelta(0):
            raise ConfigurationError(
                f"{place(self)}: SparkSubmitBatchOperator(heartbeat) must be above zero.", remedy="Give a timedelta."
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
        if jvm is not None:
            try:
                quick.wanted(jvm)
            except ConfigurationError as error:
                raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error
        self.jvm = jvm
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
        self._connected_by: Connection | None = None
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
                f"{place(self)}: SparkSubmitBatchOperator has neither batch nor {', '.join(missing)}.",
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
        self._connected_by = applications.require_connection(self._conn_id)
        self._hook = None
        self._order = order
        self._bind_reconnection(order)
        applications.require_programs(self._get_hook())
        self._rendered = spec = self.spec.rendered(renderer(self, context))
        attempt = Attempt.of(spec, context, order.batch_id, order.attempt, order.work)
        try:
            if not attempt.my_turn():
                self.log.info("Attempt %s of batch %s is committed already.", attempt.attempt, attempt.batch_id)
                self._did_nothing = True
                return
            self._goes_on = self._earlier(context, attempt)
            self._order = replace(order, token=self._token(context))
            self._hook = None  # the next one tells the application its token
            self._run(context, attempt)
        finally:
            attempt.release_connections()

    def _run(self, context: Context, attempt: Attempt) -> None:
        self._open, self._records = attempt, attempt.records()
        heartbeat = Heartbeat(
            attempt,
            every=self.heartbeat,
            application=self._application_reference,
            stop=self._stop_application,
            goes_on=self._goes_on,
        )
        try:
            with heartbeat:
                if quick.wanted(self.jvm) is SparkJvm.QUICK:
                    self._hook = self._get_hook()
                    quick.quicken(self._hook, quick.archives())
                super().execute(context)
            self._close_attempt()
        except BaseException as error:
            if self._hook is not None and not applications.process_over(self._hook):
                self._stop_application()
            if self._known_to_be_over(context):
                self._close_attempt()
            heartbeat.raise_if_lost()
            if told := self._told(error, attempt):
                raise told from None  # what it stands for repeats the output, which is in the log already
            raise
        heartbeat.raise_if_lost()

    def on_kill(self) -> None:
        """End the application, then close the attempt, so that the next one need not wait.

        A cluster is only asked to end it: the attempt is closed later, by the task that sees the end.
        """
        if self._hook is None or self._order is None:
            return
        self._asked_to_end = True
        self._stop_application()
        if applications.process_over(self._hook) and not applications.cluster_mode(self._hook):
            self._close_attempt()

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for an application at its cluster, even if an earlier try of this attempt submitted it."""
        if self._hook is not None and self._hook._is_yarn and not self._hook._yarn_application_id:
            self._hook._yarn_application_id = external_id
        super().poll_until_complete(external_id, context)

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        if self._connected_by is not None:
            applications.require_master(hook, self._connected_by)
        if self._order is not None:
            applications.equip(hook, self._order)
            self._output = listen(hook)
        return hook

    def _order_of(self, context: Context) -> WorkOrder:
        return WorkOrder(
            manifest=str(self.manifest_uri),
            attempt=int(cast("int", self.attempt)),
            digest=str(self.manifest_digest),
            work=work_of(self.task_id, getattr(context["ti"], "map_index", -1)),
            batch_id=str(self.batch_id),
        )

    def _bind_reconnection(self, order: WorkOrder) -> None:
        """The key by which the stock operator finds an application again: here it contains the attempt, too."""
        bind_reconnection(self, order.batch_id, order.attempt, moved=False)

    def _token(self, context: Context) -> str:
        """The token that distinguishes the starts of this submission: the id of this try, or of the earlier try whose
        application this one goes on with. It is kept beside the application's id."""
        memory, key = context.get("task_state_store"), f"{self.external_id_key}.token"
        if memory is None:
            return str(context["ti"].id)
        goes_on = self._goes_on is not None or bool(memory.get(self.external_id_key))
        token = str(memory.get(key) or "") if goes_on else str(context["ti"].id)
        if not goes_on:
            memory.set(key, token)
        return token

    def _earlier(self, context: Context, attempt: Attempt) -> str | None:
        """The application of an earlier try, at its cluster, with which this try goes on; any other one is ended."""
        mine = attempt.work
        for _, gone in processes.end_left_over(attempt.batch_id, attempt.attempt, lambda work: work == mine):
            did = "Ended" if gone else "Could not end"
            self.log.info("%s a spark-submit that an earlier try or attempt of this task had left behind.", did)
        earlier = attempt.earlier_application()
        if earlier is None:
            return None
        hook, memory = self._get_hook(), context.get("task_state_store")
        resumed = applications.resumed_as(hook, earlier.name) if earlier.of_this_attempt and self.durable else None
        if resumed is not None and memory is not None:
            # The try may have died before it wrote the id down itself, which it does only after spark-submit has ended.
            if not memory.get(self.external_id_key):
                memory.set(self.external_id_key, resumed)
            return earlier.name
        if not earlier.ended or earlier.name.startswith("client:"):  # there, what runs is looked at in any case
            self.log.info("%s", applications.end_application(earlier.name, attempt.batch_id, hook).said)
        return None

    def end_recorded(self, application: str, batch_id: str) -> applications.Ending:
        """End an application of this task that a batch row names, for a task that opens the next attempt."""
        return applications.end_application(application, batch_id, SparkSubmitOperator._get_hook(self))

    def _application_reference(self) -> str | None:
        started = applications.application_reference(self._hook) if self._hook is not None else None
        return started or self._goes_on

    def _stop_application(self) -> None:
        """End what the hook started, with the processes below it."""
        if self._hook is None:
            return
        below = applications.processes_below(self._hook)
        super().on_kill()
        processes.end_all(below)
        applications.await_process(self._hook)

    def _known_to_be_over(self, context: Context) -> bool:
        """Whether the application has certainly ended; if not, its attempt stays open until its grace has passed."""
        hook, reference = self._hook, self._application_reference()
        if hook is None or reference is None or not applications.cluster_mode(hook):
            return hook is None or applications.process_over(hook)
        if not applications.process_over(hook) or reference.startswith("client:"):
            return False
        if hook._should_track_driver_status:
            return hook._driver_status in applications.DRIVER_OVER
        try:
            return not self.is_job_active(self.get_job_status(reference.partition(":")[2], context))
        except Exception as error:  # noqa: BLE001 - not knowing is an answer: the attempt stays open
            self.log.warning("Whether %s has ended is not known (%s).", reference, type(error).__name__)
            return False

    def _told(self, error: BaseException, attempt: Attempt) -> JobFailed | None:
        """Our error in place of the one by which the stock hook or operator reports a failed application."""
        if self._hook is None or type(error) not in (AirflowException, RuntimeError):
            return None
        if self._hook._submit_sp is None and self._goes_on is None:
            return None
        worked = Worked(attempt.batch_id, attempt.attempt, self._records)
        return job_failed(self._hook, self._connected_by, worked, self._output.lines, error, asked=self._asked_to_end)

    def _close_attempt(self) -> None:
        # Again at the end if on_kill has done it: a heartbeat in between takes the attempt for alive.
        if self._open is not None:
            self._open.close()


def _stands_inside(task: SparkSubmitBatchOperator, group_id: str | None) -> bool:
    group = task.task_group
    while group is not None and group.group_id != group_id:
        group = group.parent_group
    return group is not None
