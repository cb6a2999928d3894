# SPDX-License-Identifier: Apache-2.0
"""ReplayBatchOperator: start a run that works on a committed batch again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import DagRunTriggerException

from shardbatch.core.choices import flag_of
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.settings import chosen_leases
from shardbatch.hooks.streams import Stream
from shardbatch.operators.failure import final_errors
from shardbatch.operators.rendering import RendersOnce, place
from shardbatch.tasks.replay import order_replay

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.tasks.replay import ReplayRun


class ReplayBatchOperator(RendersOnce):
    """Starts a run of the batch's own DAG that replays the batch: the work runs again, and its output replaces the old.

    No checkpoint moves and no new record is read. The application row and the run's note record who, when and why.
    If this task is tried or cleared again, it does not start a second run: it clears the run that it has started. Its
    XCom ``trigger_run_id`` names that run.

    :param app_name: the application, templated.
    :param stream: the stream that the application reads; this task does not call the stream.
    :param batch_id: the batch, templated. Its owner must have finished. It may be a batch that was set aside.
    :param reason: the reason, templated; it is kept on the application row.
    :param leases: where leases are kept, default: the setting ``[shardbatch] leases``.
    :param target_dag_id: the DAG to start, templated; default: that of the batch's owner.
    :param target_group_id: its StreamBatch group, templated; default: that of the batch's owner.
    :param wait_for_completion: whether to wait until the run has ended, and fail if it failed; default no.
    :param poke_interval: seconds between two looks while waiting, default 30.
    :param preview: only report what would be done, default no; templated: ``true`` or ``false``. The output is then a
        small dictionary as that of the other actions: ``rows`` has the run.
    :raises ConfigurationError: without a lease store.
    """

    red = (
        "The last line of its log says why. If it names no run that was started, nothing was changed. Once the reason "
        "is gone, clear this task: it clears the run that it had started, and starts no second one."
    )
    template_fields: Sequence[str] = (
        *("app_name", "stream", "batch_id", "reason", "leases", "target_dag_id", "target_group_id", "preview"),
    )
    ui_color = "#ece4f7"

    def __init__(
        self,
        *,
        app_name: str,
        stream: Stream,
        batch_id: str,
        reason: str,
        leases: Leases | None = None,
        target_dag_id: str | None = None,
        target_group_id: str | None = None,
        wait_for_completion: bool = False,
        poke_interval: int = 30,
        preview: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app_name = app_name
        self.stream = stream
        self.batch_id = batch_id
        self.reason = reason
        self.leases = leases
        self.target_dag_id = target_dag_id
        self.target_group_id = target_group_id
        self.wait_for_completion = wait_for_completion
        self.poke_interval = poke_interval
        self.preview = preview
        try:
            chosen_leases(leases)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error

    def execute(self, context: Context) -> dict[str, Any]:
        """Start the run, or report which one would be started.

        :raises DagRunTriggerException: which tells Airflow to start it.
        """
        with final_errors():
            preview = flag_of("preview", self.preview)
            planned, note = self._order(context, preview=preview)
        if preview:
            self.log.info("Run %s of DAG %s would replay batch %s.", planned.run_id, planned.dag_id, planned.batch_id)
            return {
                "verb": "replay",
                "preview": True,
                "counts": {planned.result: 1},
                "unknown": 0,
                "left": {},
                "rows": [asdict(planned)],
            }
        self.log.info("Starting run %s of DAG %s: %s", planned.run_id, planned.dag_id, note)
        raise DagRunTriggerException(
            trigger_dag_id=planned.dag_id,
            dag_run_id=planned.run_id,
            conf=planned.conf,
            logical_date=None,
            reset_dag_run=True,
            skip_when_already_exists=False,
            wait_for_completion=self.wait_for_completion,
            allowed_states=["success"],
            failed_states=["failed"],
            poke_interval=self.poke_interval,
            deferrable=False,
            note=note,
        )

    def _order(self, context: Context, *, preview: bool) -> tuple[ReplayRun, str]:
        return order_replay(
            chosen_leases(self.leases),
            self.app_name,
            self.stream.stream_name,
            self.batch_id,
            ti=context["ti"],
            reason=self.reason,
            preview=preview,
            dag_id=self.target_dag_id,
            group_id=self.target_group_id,
        )
