# SPDX-License-Identifier: Apache-2.0
"""Actions of a person on leases and batches, as tasks: release, park, unpark, set aside, drop, accept a gap, reset.

Each task acts unless ``preview`` is set, and notes on the rows which run acted and why. It fails if something was left
unchanged. If it is tried again, what is already done does not make it fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from shardbatch.core.choices import flag_of
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import ConfigurationError, OwnerUnknown, VerbRefused
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.operators.failure import final_errors
from shardbatch.operators.rendering import RendersOnce, place
from shardbatch.tasks.actions import Actions

if TYPE_CHECKING:
    from airflow.sdk import Context


class ActionOperator(RendersOnce):
    """The base of all actions.

    Its output is a small dictionary: ``verb``, ``preview``, ``counts`` of results, the first ``rows``, and the first of
    those that were ``left``, each with the reason. ``unknown`` counts those that were left because Airflow did not say
    whether their owner has finished: then the task is tried again.

    :param app_name: the application, templated.
    :param stream: the stream that the application reads; the action does not call the stream.
    :param reason: the reason, templated; it is kept on the rows.
    :param leases: where leases are kept, default: the setting ``[shardbatch] leases``.
    :param staging: where slices are kept, default: the setting ``[shardbatch] staging``; see ``drop`` and ``reset``.
    :param preview: only report what would be done, default no; templated: ``true`` or ``false``.
    :raises ConfigurationError: without a lease store or a reason.
    """

    verb: ClassVar[str]
    red = (
        "Its log names each row and, if it was left as it was, why. What is done stays done: once the reason is gone, "
        "clear this task, and it does the rest."
    )
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
        """The rows that the action is for."""
        return Actions(self.app_name, self.stream, self.leases, self.staging)

    def execute(self, context: Context) -> dict[str, Any]:
        """Act, or report what would be done."""
        with final_errors():
            preview = flag_of("preview", self.preview)
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
                rows = [f"{name}: {why}" for name, why in answer["left"].items()]
                said = shortlist(rows, most=len(rows), between="; ", total=answer["counts"]["left"])
                refused = OwnerUnknown if answer["unknown"] else VerbRefused
                raise refused(f"{self.verb} left something as it was: {said}.")
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
    """Resumes a parked batch: its owner goes on with it, or the next run does once the owner has finished.

    :param batch_id: the batch, templated.
    :param scope: that of an interval run's batch, templated; default: wherever the batch is found.
    """

    verb = "unpark"


class _OfBatchForced(_OfBatch):
    """An action on one batch; with ``force`` also while its owner is at work."""

    template_fields: Sequence[str] = (*_OfBatch.template_fields, "force")

    def __init__(self, *, force: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.force = force


class SetAsideBatchOperator(_OfBatchForced):
    """Decides a frozen or parked batch without output: its shards go on, and its slices are kept for a replay.

    A batch whose owner is at work is left, unless ``force`` is set.

    ``batch_id`` and ``scope`` are as for :class:`ParkBatchOperator`.

    :param force: act even if the owner is at work; its commit then fails without having changed anything. Default no;
        templated: ``true`` or ``false``.
    """

    verb = "set-aside"


class DropBatchOperator(_OfBatchForced):
    """Discards a frozen or parked batch: its slices go into a later batch.

    If the batch was set aside, its slices are no longer kept. If it is a committed batch of an interval run, readers
    no longer see its output until that run is cleared.

    If ``staging`` is available, the task's output names the folders that finished starts wrote; these are possible
    orphans. A committed batch of an interval run needs ``staging``.

    ``batch_id`` and ``scope`` are as for :class:`ParkBatchOperator`.

    :param force: act even if the owner is at work; its commit then fails without having changed anything. Default no;
        templated: ``true`` or ``false``.
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
    """Lets shards go on after a gap of records that expired unread.

    :param shards: these, templated; or
    :param every: all shards that wait because of a gap, default no; templated: ``true`` or ``false``.
    :param scope: that of an interval run, templated; default: the live application.
    """

    verb = "accept-gap"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "shards", "every", "scope")

    def __init__(
        self, *, shards: Sequence[str] = (), every: bool | str = False, scope: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.shards = shards
        self.every = every
        self.scope = scope


class ResetOperator(ActionOperator):
    """Moves shards, each with all its descendants, to a position; all or nothing.

    :param to: ``TRIM_HORIZON``, an instant (aware ``datetime`` or ISO text), or for one shard a checkpoint; templated.
    :param shards: these, templated; or
    :param every: all, default no; templated: ``true`` or ``false``.
    :param stream_id: with ``every``: the stream was created again and now has this identity; templated.
    :param force: also take leases whose owner may still be at work; that owner loses them. Default no; templated:
        ``true`` or ``false``.
    """

    verb = "reset"
    template_fields: Sequence[str] = (*ActionOperator.template_fields, "to", "shards", "every", "stream_id", "force")

    def __init__(
        self,
        *,
        to: str | datetime | None = None,
        shards: Sequence[str] = (),
        every: bool | str = False,
        stream_id: str | None = None,
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to = to
        self.shards = shards
        self.every = every
        self.stream_id = stream_id
        self.force = force
