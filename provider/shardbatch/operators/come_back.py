# SPDX-License-Identifier: Apache-2.0
"""Steps that have to watch whether rows of others change, or wait until an interval is over: they hold no worker
meanwhile (PROTOCOL T8, H7)."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

from shardbatch.core.looks import LookAgain, Looks
from shardbatch.operators.step import Step

if TYPE_CHECKING:
    from airflow.sdk import Context

#: How much longer than the time itself Airflow waits for the triggerer.
SLACK = timedelta(minutes=2)


class ComesBack(Step):
    """A step that is deferred while it watches rows, or waits until an interval is over.

    Without a triggerer it waits in its worker, after the deferral has timed out.
    """

    def execute(self, context: Context) -> Any:
        """Do the step, and return its output."""
        return self._go(context, Looks())

    def come_back(self, context: Context, looks: dict[str, Any], event: Any = None) -> Any:
        """Do the step after the time that it asked for, and return its output."""
        return self._go(context, Looks.from_json(looks))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on after a deferral, even if no triggerer ended it."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout) as error:
            self.log.warning("No triggerer has ended the deferral (%s): the task waits in its worker.", error)
        return self._go(context, None)

    def _go(self, context: Context, looks: Looks | None) -> Any:
        try:
            return self.step(context, looks)
        except LookAgain as again:
            seconds, seen = again.seconds, again.looks.to_json()
        from shardbatch.triggers import TimePassed  # costs each DAG file a moment, and hardly any task needs it

        return self.defer(
            trigger=TimePassed(seconds),
            method_name="come_back",
            kwargs={"looks": seen},
            timeout=timedelta(seconds=seconds) + SLACK,
        )

    @abstractmethod
    def step(self, context: Context, looks: Looks | None) -> Any:
        """The step itself.

        :param looks: what its earlier passes saw; ``None``: it must not be deferred.
        :raises LookAgain: to be called again later.
        """
