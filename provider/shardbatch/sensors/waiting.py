# SPDX-License-Identifier: Apache-2.0
"""The base of our sensors: asks the rows of an application, as a trigger, in its worker, or between reschedules."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from shardbatch.errors import ConfigurationError, SourceError, StoreError, WaitEnded
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.shardbatch import Group, ShardbatchHook
from shardbatch.hooks.stream_literals import stream_to_json
from shardbatch.hooks.streams import Stream
from shardbatch.operators.failure import final, final_errors
from shardbatch.operators.rendering import RendersOnce, place
from shardbatch.tasks.asset_event import clearing_of
from shardbatch.tasks.deadline import deadline_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.control.questions import Answer, Question

#: The key under which stands what the first look has settled.
QUESTION = "question"
#: How much longer than its deadline Airflow waits for the triggerer.
SLACK = timedelta(minutes=2)
#: Seconds between two looks of a deferred sensor, at the least.
SHORTEST_S = 1.0


class WaitingSensor(RendersOnce, BaseSensorOperator):
    """Waits until the rows of an application say something. It reads the lease store, and the stream if it has to.

    ``timeout`` is one deadline from the first try on: neither a retry, nor a deferral, nor a restart of the triggerer
    begins it anew; only clearing the task does. While the lease store cannot be reached, the sensor waits on.

    Name the application by its group, or by ``app_name`` and ``stream``.

    :param batch: the ``StreamBatch`` group, in whatever DAG; default: none.
    :param app_name: the application, templated; default: that of ``batch``.
    :param stream: the stream that the application reads, or its name, templated; default: that of ``batch``.
    :param leases: where leases are kept; default: those of ``batch``, or else the setting ``[shardbatch] leases``.
    :param deferrable: wait in the triggerer, which takes no worker slot; default: yes, unless ``mode`` is given, also
        in ``default_args``; whatever Airflow's ``default_deferrable`` says. It needs a triggerer.
    :param kwargs: those of Airflow's sensors: ``poke_interval`` (default 60 s), ``timeout``, ``mode``, ``soft_fail``.
    :raises ConfigurationError: if it is not clear which application is meant, or there is no lease store.
    """

    template_fields: Sequence[str] = ("app_name", "stream", "leases")
    ui_color = "#e8f1fb"

    def __init__(
        self,
        *,
        batch: Group | None = None,
        app_name: str | None = None,
        stream: Stream | str | None = None,
        leases: Leases | str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        try:
            named = ShardbatchHook(batch=batch, app_name=app_name, stream=stream, leases=leases)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error
        self.app_name, self.stream, self.leases = named.app_name, named.stream, named.leases
        given = "mode" in kwargs or "mode" in (kwargs.get("default_args") or {})
        self.deferrable = not given if deferrable is None else deferrable
        self._told = ""

    @abstractmethod
    def question(self, context: Context) -> Question:
        """What is asked, once the templates are rendered.

        :raises ConfigurationError: for a value that cannot be asked for.
        """

    def hook(self) -> ShardbatchHook:
        """The application's rows."""
        return ShardbatchHook(app_name=self.app_name, stream=self.stream, leases=self.leases)

    def first_hook(self) -> ShardbatchHook:
        """What a worker asks before it defers."""
        return self.hook()

    def execute(self, context: Context) -> Any:
        """Wait, and return what the rows say then."""
        with final_errors():
            if not self.deferrable:
                return super().execute(context)
            question = self._kept_question(context)
            deadline = self._deadline(context)
            answer = self._asked(question, self.first_hook() if deadline > time.time() else self.hook())
            found = self._judged(answer)
            if found is not None:
                return found
            if answer.then is not None:
                question = self._keep(context, answer.then)
        return self._defer(question, deadline, answer.why)

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look once."""
        with final_errors():
            question = self._kept_question(context)
            deadline = self._deadline(context)
            answer = self._asked(question, self.hook())
            if answer.never:
                raise final(WaitEnded(answer.why))
            if answer.then is not None:
                self._keep(context, answer.then)
        self._tell(answer)
        if not answer.reached and time.time() >= deadline:
            raise self._time_is_over(answer.why)
        return PokeReturnValue(is_done=answer.reached, xcom_value=answer.told)

    def come_back(self, context: Context, event: dict[str, Any], **kwargs: Any) -> Any:
        """What the trigger found: the task's output, or its failure."""
        if event["outcome"] == "reached":
            self.log.info("Reached: %s", event["told"])
            return event["told"]
        if event["outcome"] == "settled":
            from shardbatch.control.questions import question_of

            question = self._keep(context, question_of(event["question"]))
            return self._defer(question, self._deadline(context), event["why"])
        if event["outcome"] == "timeout":
            raise self._time_is_over(event["why"])
        raise self._failure(event["why"])

    def _kept_question(self, context: Context) -> Question:
        """What is asked: as the first look of this clearing has settled it, if it had something to settle.

        :raises ConfigurationError: for a value that cannot be asked for.
        """
        from shardbatch.control.questions import question_of

        kept = context["task_state_store"].get(QUESTION)
        if isinstance(kept, dict) and kept.get("clearing") == clearing_of(context["dag_run"], context["ti"]):
            return question_of(kept["question"])  # type: ignore[arg-type]
        return self.question(context)

    def _keep(self, context: Context, question: Question) -> Question:
        """The question from now on, until the task is cleared."""
        clearing = clearing_of(context["dag_run"], context["ti"])
        context["task_state_store"].set(QUESTION, {"clearing": clearing, "question": question.to_json()})
        return question

    def _deadline(self, context: Context) -> float:
        """When the wait ends, in seconds of the epoch: it stands since the first try of this clearing."""
        return deadline_of(context, float(self.timeout))

    def _asked(self, question: Question, hook: ShardbatchHook) -> Answer:
        """What the rows say, or that they cannot be asked now.

        :raises ShardbatchError: if they cannot be asked for a reason other than the store's.
        """
        from shardbatch.control.questions import Answer

        try:
            return hook.ask(question)
        except (StoreError, SourceError) as error:
            if not error.retryable:
                raise
            from shardbatch.triggers import could_not_ask

            return Answer(False, could_not_ask(error))

    def _judged(self, answer: Answer) -> Any:
        self._tell(answer)
        if answer.never:
            raise self._failure(answer.why)
        return (answer.told or {}) if answer.reached else None

    def _tell(self, answer: Answer) -> None:
        if answer.why and answer.why != self._told:
            self.log.info("%s", answer.why)
        self._told = answer.why

    def _defer(self, question: Question, deadline: float, why: str) -> NoReturn:
        from shardbatch.triggers import Asking

        left = deadline - time.time()
        if left <= 0:
            raise self._time_is_over(why)
        stream = self.stream if isinstance(self.stream, str) else self.stream.stream_name
        trigger = Asking(
            question=question.to_json(),
            app_name=self.app_name,
            stream=stream,
            leases=self.leases.to_json(),
            every=max(SHORTEST_S, self.poke_interval),
            deadline=deadline,
            source=self._source(),
        )
        self.defer(trigger=trigger, method_name="come_back", timeout=timedelta(seconds=left) + SLACK)
        raise AssertionError  # Airflow's defer raises

    def _source(self) -> dict[str, Any] | None:
        """The stream as literals; ``None`` if only its name is known, or it cannot be written so."""
        return None if isinstance(self.stream, str) else stream_to_json(self.stream)

    def _time_is_over(self, why: str) -> Exception:
        message = f"Waited for {self.timeout:.0f} s since the first try. {why}".strip()
        return AirflowSkipException(message) if self.soft_fail or self.never_fail else AirflowSensorTimeout(message)

    def _failure(self, why: str) -> Exception:
        error = final(WaitEnded(why))
        return AirflowSkipException(str(error)) if self.soft_fail or self.never_fail else error
