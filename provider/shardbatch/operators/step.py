# SPDX-License-Identifier: Apache-2.0
"""The base of claim, read, freeze and commit: their application."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, Outputs, Policies
from shardbatch.errors import ConfigurationError, ProtocolError
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.operators.failure import final_errors
from shardbatch.operators.links import BatchLink, lead_to, lead_to_owner
from shardbatch.operators.rendering import RendersOnce, place
from shardbatch.tasks.application import ApplicationSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.tasks.steps import Steps


#: The XCom that says in one line what a run came to. Airflow 3.3 gives a task no way to write its run's note.
SUMMARY = "summary"


class Step(RendersOnce):
    """One of the steps of a batch.

    :param app_name: names an independent consumer of the stream, templated; 1 to 128 printable characters, no slash.
    :param stream: the stream to read.
    :param leases: where leases are kept, default: the setting ``[shardbatch] leases``.
    :param staging: where slices are kept, default: the setting ``[shardbatch] staging``.
    :param group_id: a part of the owner of the leases: all steps of one batch have the same. Default: none, which fits
        a DAG with one batch; ``StreamBatch`` sets its own.
    :param limits: how much one run reads.
    :param claim: how leases are claimed.
    :param policies: what to do when something cannot go on.
    :param output: what the application's output roots are to their readers.
    :raises ConfigurationError: for a value that cannot work, or if there is no lease store or staging folder.
    """

    #: What the step is called in metrics.
    step_name: ClassVar[str] = "step"
    template_fields: Sequence[str] = ("app_name", "stream", "leases", "staging")
    operator_extra_links = (BatchLink(),)
    ui_color = "#e8f1fb"

    def __init__(
        self,
        *,
        app_name: str,
        stream: Stream,
        leases: Leases | None = None,
        staging: Staging | None = None,
        group_id: str = "",
        limits: ReadLimits | None = None,
        claim: ClaimOptions | None = None,
        policies: Policies | None = None,
        output: Outputs | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # The steps hand their outputs to each other as XComs, each whole, whatever default_args say for other tasks.
        self.do_xcom_push, self.multiple_outputs = True, False
        self.app_name = app_name
        self.stream = stream
        self.leases = leases
        self.staging = staging
        self.group_id = group_id
        self.limits = limits
        self.claim = claim
        self.policies = policies
        self.outputs_are = output
        try:
            self.spec()
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error

    def spec(self) -> ApplicationSpec:
        """The application as its author wrote it, of which Airflow renders the templates before the task executes."""
        return ApplicationSpec.of(
            self.app_name,
            self.stream,
            self.leases,
            self.staging,
            group_id=self.group_id,
            limits=self.limits,
            claim=self.claim,
            policies=self.policies,
            outputs=self.outputs_are,
        )

    @contextmanager
    def open(self, context: Context) -> Iterator[Steps]:
        """The steps of the current run; an error that a retry cannot fix ends the task without one."""
        with final_errors():
            spec = self.spec()
            spec.require_name()
            lead_to(self, spec)
            meter = spec.meter(context)
            with meter.step(self.step_name), spec.open(context, self.log, meter) as opened:
                meter.runs_in(opened.owner.mode)
                try:
                    yield opened
                except ProtocolError as error:
                    lead_to_owner(self, error, opened.owner.deployment)
                    raise
