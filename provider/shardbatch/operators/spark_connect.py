# SPDX-License-Identifier: Apache-2.0
"""SparkConnectBatchOperator: a Python script on a Spark Connect server, bound to one attempt of a frozen batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError, JobFailed
from shardbatch.masking import hidden, secrets_in
from shardbatch.operators.batch_work import BatchWork
from shardbatch.operators.links import BatchLink
from shardbatch.operators.rendering import place
from shardbatch.submit import applications, connect, connect_limits, connect_session
from shardbatch.submit.connect_calls import OPEN_S, CallFailed, calls
from shardbatch.submit.connect_script import Script, environment
from shardbatch.submit.connect_watch import Watch
from shardbatch.submit.end import Worked, script_failed
from shardbatch.submit.leftovers import end_own_left_over
from shardbatch.submit.output import Output

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.core.handover import WorkOrder
    from shardbatch.submit.attempt import Attempt
    from shardbatch.submit.connect import Server, Session
    from shardbatch.submit.connect_calls import Calls

#: Arguments of SparkSubmitOperator that have no meaning here, and what there is instead.
_OF_SUBMIT = {
    "java_class": "Spark Connect runs Python scripts only: use SparkSubmitBatchOperator",
    "jars": "give them to the server, or use spark.addArtifacts in the script",
    "packages": "give them to the server",
    "py_files": "use spark.addArtifacts(…, pyfile=True) in the script",
    "files": "use spark.addArtifacts(…, file=True) in the script",
    "archives": "use spark.addArtifacts(…, archive=True) in the script",
    "properties_file": "give it to the server, or use conf=",
    "driver_memory": "its server has the memory",
    "executor_memory": "its server has the memory",
    "num_executors": "its server has the executors",
    "executor_cores": "its server has the executors",
}


class SparkConnectBatchOperator(BatchWork):
    """Runs a Python script on the frozen batch of a ``StreamBatch`` group, on a Spark Connect server that is running.

    The script is the one that ``SparkSubmitBatchOperator`` runs: ``SparkSession.builder.getOrCreate()``, then
    ``open_batch(spark)``. It runs in a process of its own on this worker, without a JVM. The operator

    * tells the script its batch by environment variables ``SHARDBATCH_*``, and its server by ``SPARK_REMOTE``;
    * draws a session at the server for each try, and notes it on the batch before the script starts;
    * does nothing and succeeds if this attempt is already committed, and fails without a retry if the batch belongs to
      another owner;
    * keeps the batch alive while it waits, and ends the script and its session if the batch is lost;
    * ends the script if the server is lost; a retry begins in a new session;
    * before it starts, ends the session of an earlier try or attempt of this task, as ``freeze`` does for every task.
      The server refuses a session that was ended, also if its script lives on at another worker;
    * logs the script's output, and at the end records, start and output folder, or the exception that ended it.

    Over Spark Connect a script has no ``sparkContext``, no RDDs and no ``_jvm``; local paths are paths of the server.
    Python functions need the same minor version of Python on both sides.

    :param application: the script, a Python file on this worker (templated).
    :param application_args: its arguments, default: none (templated).
    :param conn_id: the Airflow connection of type Spark Connect (templated), default ``spark_connect_default``.
    :param python: the Python that runs the script (templated), default: the worker's. It needs pyspark-client and this
        package.
    :param env_vars: further environment variables of the script (templated), default: none.
    :param conf: configuration of its session, set before it starts (templated), default: none.
    :param batch: the group whose batch it works on. Outside such a group, give ``manifest_uri``, ``manifest_digest``,
        ``batch_id`` and ``attempt`` (outputs of ``FreezeOperator``; templated), and the same ``app_name``, ``stream``,
        ``leases``, ``staging`` and ``group_id`` as for the four steps. It leaves its end record there too.
    :param heartbeat: time between two signs of life, and between two looks at the server, default 20 seconds (above
        0). Keep it below a third of ``ClaimOptions(attempt_grace)``; otherwise the batch may be treated as abandoned.
    :raises JobFailed: when it runs, if the script ends without success, or the server is not reached or is lost. The
        task is tried again, up to ``retries`` times.
    :raises ConfigurationError: if neither a group nor all of the single values are given, if it stands outside that
        group, for a heartbeat that is not above zero or not below the group's ``attempt_grace``, for an application
        other than a Python script, or an argument of spark-submit. When it runs: if the connection is missing or of
        another type, a Python package or the script is missing, or the server refuses the token or ``conf``.
    """

    red = (
        "Nothing is lost: the batch waits, and no checkpoint moves. The last line of its log names the exception. Mend "
        "the script or the server, then clear this task with its downstream tasks: it gets the same records. If the "
        "batch cannot be processed for now: `airflow shardbatch park`."
    )
    operator_extra_links = (BatchLink(),)
    template_fields: Sequence[str] = (
        "application",
        "application_args",
        "conn_id",
        "python",
        "env_vars",
        "conf",
        *BatchWork.template_fields,
    )
    ui_color = "#ffdfb3"

    def __init__(
        self,
        *,
        application: str,
        application_args: Sequence[Any] | None = None,
        conn_id: str = "spark_connect_default",
        python: str | None = None,
        env_vars: Mapping[str, Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        of_submit = sorted(set(kwargs) & set(_OF_SUBMIT))
        for name in of_submit:
            kwargs.pop(name)
        super().__init__(**kwargs)
        if of_submit:
            raise ConfigurationError(
                f"{place(self)}: SparkConnectBatchOperator has no {of_submit[0]}.",
                remedy=f"Leave it out: {_OF_SUBMIT[of_submit[0]]}.",
            )
        self.application = application
        self.application_args = application_args
        self.conn_id = conn_id
        self.python = python
        self.env_vars = env_vars
        self.conf = conf
        self._require_script()
        self._server: Server | None = None
        self._session: Session | None = None
        self._script: Script | None = None
        self._ended: applications.Ending | None = None
        self._stopped = False
        self._lost: str | None = None

    def on_kill(self) -> None:
        """End the script and its session, then close the attempt, so that the next one need not wait."""
        self._asked_to_end = self._stopped = True
        if self._session is None:
            return
        self._stop_application()
        if self._over():
            self._close_attempt()

    def end_recorded(self, application: str, batch_id: str, render: Callable[[str], str] = str) -> applications.Ending:
        """End an application of this task that a batch row names, for a task that opens the next attempt.

        :param render: renders ``conn_id`` where this task has not done it.
        """
        if connect.parse(application) is None:
            return applications.end_application(application, batch_id, None)
        return connect_session.end_recorded(application, render(str(self.conn_id)))

    def _require_script(self) -> None:
        if str(self.application).endswith((".jar", ".R", ".r")):
            raise ConfigurationError(
                f"{place(self)}: {self.application} is not a Python script, and Spark Connect runs nothing else.",
                remedy="Use SparkSubmitBatchOperator for it.",
            )

    def _prepare(self, context: Context, order: WorkOrder) -> None:
        self._order = order
        self._require_script()
        connect.require_packages(None if self.python is None else {"grpc": "grpcio"})
        self._server = connect.server_of(str(self.conn_id))
        if not Path(self.application).is_file():
            raise ConfigurationError(
                f"The script {self.application} is not there on this worker.",
                remedy="Give application= the path of a Python file that every worker has.",
            )

        self._say_what_is_missing()

    def _say_what_is_missing(self) -> None:
        """Say before the script runs what it will not find over Spark Connect. It may never get there, so it runs."""
        try:
            seen = connect_limits.seen_in(Path(self.application).read_bytes())
        except OSError:
            return  # its Python says it
        if seen:
            self.log.warning(
                "%s: %s. Over Spark Connect this fails. Use DataFrames instead, or SparkSubmitBatchOperator.",
                self.application,
                ", ".join(seen[:5]),
            )

    def _work(self, context: Context, attempt: Attempt) -> None:
        """Each try works in a session of its own.

        The row names the session before the server knows of it and before the script starts. So the task that goes
        on finds in the row every session in which a script may work:

        1. The task dies before the note: nothing has started.
        2. It dies after the note, before the script: the session is ended, though no script used it.
        3. It dies after the script has started, and the script has not connected yet: the task that goes on makes
           the server know the session, and releases it. The server refuses the script when it connects.
        4. It dies while the script works: what runs is interrupted, and each further call is refused.
        5. Two tries of one attempt run at once: each notes its own session, and the row names the one that showed
           life last. The other is ended by the try that found it in the row, or it ends by itself; what both write
           stands in starts of their own, and the end record names the one that counts.
        """
        assert self._server is not None
        end_own_left_over(attempt, self.log.info)
        earlier = attempt.earlier_application()
        if earlier is not None:  # also of a closed attempt: an earlier try may have closed it beside the one in the row
            self.log.info("%s", self.end_recorded(earlier.name, attempt.batch_id).said)
        self._order = replace(self._order_of(context), token=str(context["ti"].id))
        self._session, self._script = connect.draw(self._server), None
        self._ended, self._lost, self._output = None, None, Output()
        self._run(context, attempt, self._session.reference)

    def _start(self, context: Context) -> None:
        server, session, order = self._server, self._session, self._order
        assert server is not None
        assert session is not None
        assert order is not None
        self._refuse_if_stopped()
        server_session = self._open_session(server, session)
        words = [self.python or sys.executable, str(self.application), *map(str, self.application_args or ())]
        self._refuse_if_stopped()
        told = environment(order, connect.remote(server, session), self.env_vars or {})
        try:
            self._script = Script(words, told)
        except OSError as error:
            raise ConfigurationError(
                f"{words[0]} could not be started on this worker: {error.strerror}.",
                remedy="Give python= the path of a Python that every worker has.",
            ) from None
        self._refuse_if_stopped()  # it may have been asked to stop before it knew the script
        secrets = self._secrets()
        every = self.heartbeat.total_seconds()
        with Watch(server, session, server_session, every=every, lost=self._server_lost):
            code = self._script.follow(self._output.passing, lambda line: self.log.info("%s", hidden(line, secrets)))
        if code:
            raise _ScriptFailed(code)
        self._end_session()

    def _open_session(self, server: Server, session: Session) -> str:
        """Open the session and configure it.

        :returns: the server's own id of it.
        :raises ConfigurationError: if the server refuses the token or the configuration.
        :raises JobFailed: if it does not answer.
        """
        try:
            with calls(server, session) as made:
                found = made.open()
                self.log.info("Session %s at %s, Spark %s.", session.session_id, server.place, found.spark_version)
                if self.conf:
                    self._configure(made, {name: str(value) for name, value in self.conf.items()})
                return found.server_session
        except CallFailed as error:
            self._refuse_if_stopped()
            told = hidden(error.told, self._secrets())
            if error.refused:
                raise ConfigurationError(
                    f"The Spark Connect server {server.place} refuses the connection {self.conn_id!r} ({error.code}).",
                    remedy="Correct its token (the password) and its user (the login).",
                ) from None
            raise JobFailed(
                f"The Spark Connect server {server.place} did not open a session ({error.code}: {told}). It has "
                f"{OPEN_S:g} s for that.",
                remedy=connect_limits.AGAIN,
            ) from None

    def _configure(self, made: Calls, conf: dict[str, str]) -> None:
        try:
            made.configure(conf)
        except CallFailed as error:
            if not connect_limits.CONF_REFUSED.search(error.told):
                raise
            raise ConfigurationError(
                f"The Spark Connect server refuses conf: {hidden(error.told, self._secrets())}",
                remedy="Correct the value. What is fixed for the whole server is given to it when it starts.",
            ) from None

    def _refuse_if_stopped(self) -> None:
        if self._stopped:
            self._stop_application()
            raise _ScriptFailed(None)

    def _server_lost(self, what: str) -> None:
        self._lost = what
        if self._script is not None:
            self._script.kill()

    def _running(self) -> bool:
        return self._script is not None and self._script.running

    def _over(self) -> bool:
        """Whether the application has ended, as far as the last try to end its session tells."""
        return not self._running() and (self._script is None or (self._ended is not None and self._ended.over))

    def _application_reference(self) -> str | None:
        return None if self._session is None else self._session.reference

    def _stop_application(self) -> None:
        self._stopped = True
        if self._script is not None:
            self._script.kill()
        self._end_session()

    def _end_session(self) -> applications.Ending:
        """End the session; once it is ended, again is nothing."""
        assert self._server is not None
        assert self._session is not None
        ended = self._ended
        if ended is None or not ended.over:
            ended = self._ended = connect_session.end(self._server, self._session)
            self.log.info("%s", ended.said)
        return ended

    def _known_to_be_over(self, context: Context) -> bool:
        self._end_session()
        return self._over()

    def _told(self, error: BaseException, attempt: Attempt) -> JobFailed | None:
        if not isinstance(error, _ScriptFailed):
            return None
        worked = Worked(attempt.batch_id, attempt.attempt, self._records)
        lines, secrets = self._output.lines, self._secrets()
        return script_failed(error.code, worked, lines, secrets, asked=self._asked_to_end, lost=self._lost)

    def _secrets(self) -> list[str]:
        assert self._server is not None
        known = [secret for fields in (self.env_vars or {}, self.conf or {}) for secret in secrets_in(fields)]
        return [*known, self._server.token] if self._server.token else known


class _ScriptFailed(Exception):
    """The script ended without success, or was never started."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
