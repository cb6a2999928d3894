# SPDX-License-Identifier: Apache-2.0
"""What a person does to leases and batches, as tasks: release, park, unpark, set aside, drop, accept a gap, reset.

Each does it unless ``preview`` is set, notes on the rows which run did it and why, and fails if something was left as
it was; what was done already when it is tried again is no failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from shardbatch.errors import ConfigurationError, VerbRefused
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.operators.failure import final_errors
from shardbatch.operators.rendering import RendersOnce, place
from shardbatch.tasks.actions import Actions

if TYPE_CHECKING:
    from airflow.sdk import Context

_FLAGS = {"true": True, "false": False}


class ActionOperator(RendersOnce):
    """What all of them have in common.

    Its output is a small dictionary: ``verb``, ``preview``, ``counts`` of results, the first ``rows``, and what was
    ``left`` with the reason.

    :param app_name: the application, templated.
    :param stream: the stream that it reads; it is not asked.
    :param reason: why, templated; kept on the rows.
    :param leases: where leases are kept, default: the setting ``[shardbatch] leases``.
    :param staging: where slices stand, default: the setting ``[shardbatch] staging``; see ``drop`` and ``reset``.
    :param preview: only say what would be done, default no; templated: ``true`` or ``false``.
    :raises ConfigurationError: without a lease store or a reason.
    """

    verb: ClassVar[str]
    template_fields: Sequence[str] = ("app_name", "stream", "leases", "staging", "reason", "preview")
    ui_color = "#f4e9d8"

    def __init__(
        self,
        *,
        app_name: str,
        stream: Stream,
        reason: str,
        leases: Leases | None = None,
        staging: Staging | None = None,
        preview: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app_name = app_name
        self.stream = stream
        self.reason = reason
        self.leases = leases
        self.staging = staging
        self.preview = preview
        if not reason.strip():
            raise ConfigurationError(f"{place(self)}: no reason given.", remedy="Say why; it is kept on the rows.")
        try:
            self.actions()
        except ConfigurationError as error:
            raise ConfigurationError(f"{place(self)}: {error}", remedy="") from error

    def actions(self) -> Actions:
        """The rows that are meant."""
        return Actions(self.app_name, self.stream, self.leases, self.staging)

    def execute(self, context: Context) -> dict[str, Any]:
        """Do it, or say what would be done."""
        with final_errors():
            preview = _FLAGS.get(str(self.preview).lower())
            if preview is None:
                raise ConfigurationError(f"preview={self.preview!r} is not known.", remedy="It is true or false.")
            answer = self.actions().perform(
                self.verb,
                context,
                self.log.info,
                given=self,
                reason=self.reason,
                preview=preview,
            )
            if answer["left"] and not preview:
                context["ti"].xcom_push(key="return_value", value=answer)
                said = "; ".join(f"{name}: {why}" for name, why in answer["left"].items())
                raise VerbRefused(f"{self.verb} left something as it was: {said}.")
        return answer


class _OfBatch(ActionOperator):
    """Of one batch.

    :param batch_id: the batch, templated.
    :param scope: that of an interval run's batch, templated; default: wherever the batch is found.
    """

    template_fields: Sequence[str] = (*ActionOperator.template_fields, "batch_id", "scope")

    def __init__(self, *, batch_id: str, scope: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_id = batch_id
        self.scope = scope


class ParkBatchOperator(_OfBatch):
    """Makes a frozen batch wait for a person; its shards wait with it, all others go on.

    :param batch_id: the batch, templated.
    :param scope: that of an interval run's batch, templated; default: wherever the batch is found.
    """

    verb = "park"


class UnparkBatchOperator(_OfBatch):
    """Resumes a parked batch: its owner goes on with it, or the next run once that is over.

    :param batch_id: the batch, templated.
    :param scope: that of an interval run's batch, templated; default: wherever the batch is found.
    """

    verb = "unpark"


class _OfBatchForced(_OfBatch):
    """Of one batch, also if its owner is at work, where ``force`` says so."""

    def __init__(self, *, force: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.force = force


class SetAsideBatchOperator(_OfBatchForced):
    """Decides a frozen or parked batch without output: its shards go on, and its slices are kept for a replay.

    A batch whose owner is at work is left, unless ``force`` is set.

    ``batch_id`` and ``scope`` are as for :class:`ParkBatchOperator`.

    :param force: also then; the commit of that owner fails, having changed nothing. Default no.
    """

    verb = "set-aside"


class DropBatchOperator(_OfBatchForced):
    """Discards a frozen or parked batch: its slices go into a later one. One that was set aside is kept no longer. Of a
    committed batch of an interval run, readers see the output no longer, until its run is cleared.

    With staging at hand the output names the folders that finished starts wrote, possible orphans now. For a committed
    batch of an interval run it is needed.

    ``batch_id`` and ``scope`` are as for :class:`ParkBatchOperator`.

    :param force: also if its owner is at work, whose commit fails then, having changed nothing. Default no.
    """

    verb = "drop"


class ReleaseOperator(ActionOperator):
    """Frees leases, or a frozen batch, whose owner will not come back.

    :param lease_owner: all that this owner holds, templated; or
    :param shards: the leases of these shards, templated; or
    :param batch_id: this frozen batch, templated.
    :param scope: that of an interval run, templated; default: the live application.
    """

    verb = "release"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "lease_owner", "shards", "batch_id", "scope")

    def __init__(
        self,
        *,
        lease_owner: str | None = None,
        shards: Sequence[str] = (),
        batch_id: str | None = None,
        scope: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lease_owner = lease_owner
        self.shards = shards
        self.batch_id = batch_id
        self.scope = scope


class AcceptGapOperator(ActionOperator):
    """Lets shards go on behind records that expired unread.

    :param shards: these, templated; or
    :param every: all that wait for it, default no.
    :param scope: that of an interval run, templated; default: the live application.
    """

    verb = "accept-gap"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "shards", "scope")

    def __init__(self, *, shards: Sequence[str] = (), every: bool = False, scope: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shards = shards
        self.every = every
        self.scope = scope


class ResetOperator(ActionOperator):
    """Moves shards, each with all its descendants, to a position; all or nothing.

    :param to: ``TRIM_HORIZON``, an instant (aware ``datetime`` or ISO text), or for one shard a checkpoint; templated.
    :param shards: these, templated; or
    :param every: all, default no.
    :param stream_id: with ``every``: the stream was created again and has this identity now; templated.
    :param force: also leases whose owner is not known to be over, which then has lost them; default no.
    """

    verb = "reset"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "to", "shards", "stream_id")

    def __init__(
        self,
        *,
        to: str | datetime | None = None,
        shards: Sequence[str] = (),
        every: bool = False,
        stream_id: str | None = None,
        force: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to = to
        self.shards = shards
        self.every = every
        self.stream_id = stream_id
        self.force = force
