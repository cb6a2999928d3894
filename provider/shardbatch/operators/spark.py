# SPDX-License-Identifier: Apache-2.0
"""SparkSubmitBatchOperator: the stock operator, bound to one attempt of a frozen batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from shardbatch.core.choices import SparkJvm, chosen
from shardbatch.core.handover import WorkOrder
from shardbatch.errors import ConfigurationError, JobFailed
from shardbatch.operators.batch_work import BatchWork
from shardbatch.operators.links import BatchLink
from shardbatch.operators.reconnection import bind_reconnection
from shardbatch.operators.rendering import place
from shardbatch.submit import applications, processes, quick
from shardbatch.submit.attempt import Attempt
from shardbatch.submit.end import Worked, job_failed
from shardbatch.submit.leftovers import end_own_left_over
from shardbatch.submit.output import listen

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection, Context


class SparkSubmitBatchOperator(BatchWork, SparkSubmitOperator):
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
        jobs of seconds in client and local mode. Default: ``SparkJvm.DEFAULT``, what the setting ``spark_jvm`` says,
        and ``PLAIN`` without one. ``QUICK`` sets
        ``SPARK_SUBMIT_OPTS``; options of the application win over it. It takes the archive of Spark's classes that
        ``airflow shardbatch warm-spark`` made on the worker, if it fits; otherwise the log says why not.
    :raises JobFailed: when it runs, if the application ends without success. The task is tried again, up to
        ``retries`` times.
    :raises ConfigurationError: if neither a group nor all of the single values are given, if it stands outside that
        group, or for a heartbeat that is not above zero or not below the group's ``attempt_grace``, or for a word of
        ``jvm`` that is not known. When it runs: if the Spark connection, spark-submit or Java is missing.
    """

    red = (
        "Nothing is lost: the batch waits, and no checkpoint moves. The last line of its log names the exception. Mend "
        "the job, then clear this task with its downstream tasks: it gets the same records. If the batch cannot be "
        "processed for now: `airflow shardbatch park`."
    )
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, BatchLink())
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, *BatchWork.template_fields)

    _connected_by: Connection | None = None

    def __init__(self, *, jvm: SparkJvm | str = SparkJvm.DEFAULT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        try:
            self.jvm = chosen(SparkJvm, jvm, f"jvm={jvm!r}")
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error

    def _prepare(self, context: Context, order: WorkOrder) -> None:
        self._connected_by = applications.require_connection(self._conn_id)
        self._hook = None
        self._order = order
        self._bind_reconnection(order)
        applications.require_programs(self._get_hook())

    def _work(self, context: Context, attempt: Attempt) -> None:
        self._goes_on = self._earlier(context, attempt)
        self._order = replace(self._order_of(context), token=self._token(context))
        self._hook = None  # the next one tells the application its token
        self._run(context, attempt, self._goes_on)

    def _start(self, context: Context) -> None:
        if quick.wanted(self.jvm):
            self._hook = self._get_hook()
            quick.quicken(self._hook, quick.archives())
        SparkSubmitOperator.execute(self, context)

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
        end_own_left_over(attempt, self.log.info)
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

    def end_recorded(self, application: str, batch_id: str, render: Callable[[str], str] = str) -> applications.Ending:
        """End an application of this task that a batch row names, for a task that opens the next attempt."""
        return applications.end_application(application, batch_id, SparkSubmitOperator._get_hook(self))

    def _running(self) -> bool:
        return self._hook is not None and not applications.process_over(self._hook)

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
