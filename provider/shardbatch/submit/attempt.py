# SPDX-License-Identifier: Apache-2.0
"""An attempt of a batch, from the view of the task that waits for an application: its turn, signs of life and end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shardbatch.core.owner import Owner
from shardbatch.core.rows import Namespace
from shardbatch.errors import BatchParked, LeaseLost, ProtocolError, ShardbatchError
from shardbatch.submit import processes
from shardbatch.tasks.application import ApplicationSpec

if TYPE_CHECKING:
    # Loaded by the task that works on a batch: every other one parses the DAG file, too.
    from shardbatch.run import Rows

log = logging.getLogger("shardbatch")

#: Seconds between two looks at whether the application has an id yet.
LOOK_S = 0.5
#: Seconds between two tries to end an application whose batch was lost.
STOP_AGAIN_S = 5.0


@dataclass(frozen=True)
class EarlierApplication:
    """An application that was recorded before: whether it is this attempt's, and whether its task saw it end."""

    name: str
    of_this_attempt: bool
    ended: bool


class Attempt:
    """One attempt of a batch of this owner."""

    @classmethod
    def of(
        cls, spec: ApplicationSpec, context: Mapping[str, Any], batch_id: str, attempt: int, work: str = ""
    ) -> Attempt:
        """An attempt of the run at hand; the stream and the staging area are not opened.

        :param work: the task, so that tasks of one block do not take each other's applications for older ones.
        :raises ConfigurationError: if the lease store's connection, or the deployment's id, is missing.
        """
        store = spec.leases.open()
        from shardbatch.run import Rows

        owner = spec.owner(context, spec.request(context, store).mode)
        namespace = Namespace(spec.app_name, spec.stream.stream_name)
        rows = Rows(namespace=namespace, store=store, scope=owner.scope)
        return cls(rows, owner, batch_id, attempt, work)

    def __init__(self, rows: Rows, owner: Owner, batch_id: str, attempt: int, work: str = "") -> None:
        self._rows = rows
        self._owner = owner
        self.batch_id = batch_id
        self.attempt = attempt
        self.work = work

    def my_turn(self) -> bool:
        """Whether the work is to be done; not if this attempt is committed already.

        :raises LeaseLost: if the batch is another owner's.
        :raises BatchParked: if it waits for a person.
        """
        from shardbatch.run import Turn, begin

        return begin(self._rows, self._owner, self.batch_id, self.attempt) is Turn.RUN

    def earlier_application(self) -> EarlierApplication | None:
        """The application of an older attempt, or of an earlier try of this one, if one was recorded.

        Only this task's own: those of the block's other tasks may be running beside it. Each of them closes the attempt
        when it ends, so where there are others a closed attempt does not tell that this task's application has ended.
        """
        batch = self._rows.batch(self.batch_id)
        recorded, found = (0, ()) if batch is None else batch.spark_applications
        own = [item.name for item in found if not self.work or item.work in ("", self.work)]
        if batch is None or not own or recorded > self.attempt:
            return None
        ended = batch.attempt_closed >= recorded and len(own) == len(found)
        return EarlierApplication(own[0], recorded == self.attempt, ended)

    def records(self) -> int | None:
        """How many records the batch has; ``None`` if its row cannot be had just now."""
        try:
            batch = self._rows.batch(self.batch_id)
        except ShardbatchError:
            return None
        return None if batch is None else batch.records

    def beat(self, application: str | None) -> None:
        """Show life.

        :raises LeaseLost: if the batch is another owner's, or a newer attempt was opened.
        :raises BatchParked: if it waits for a person.
        """
        from shardbatch.run import beat

        beat(self._rows, self._owner, self.batch_id, self.attempt, application, self.work)

    def close(self) -> None:
        """Say that the work has ended, so that the next attempt need not wait. A store that fails costs only that."""
        from shardbatch.run import end

        try:
            end(self._rows, self.batch_id, self.attempt)
        except ShardbatchError as error:
            log.warning("The attempt could not be closed, the next one waits for its grace: %s", error)

    def release_connections(self) -> None:
        """Give back the store's connections."""
        self._rows.store.close()

    def monotonic(self) -> float:
        """This worker's clock."""
        return self._rows.clock.monotonic()


class Heartbeat:
    """While it is entered, a thread shows life: at once, every ``every``, and when the application's id changes.

    A store that cannot be reached is tried again; a lost batch ends the application, and :meth:`raise_if_lost` tells.

    :param application: what the application is called, once that is known.
    :param stop: ends the application; called again until the block is left.
    :param known: what it is called if that is known before: an earlier try's that this one goes on with, or a name that
        was drawn for it. It stands in the row once the block is entered.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        every: timedelta,
        application: Callable[[], str | None],
        stop: Callable[[], None],
        known: str | None = None,
    ) -> None:
        self._attempt = attempt
        self._every = every.total_seconds()
        self._application = application
        self._stop = stop
        self._left = threading.Event()
        self._lost: ProtocolError | None = None
        # Until there is an application, the task itself is what lives.
        self._written: str | None = known or processes.task_reference()
        self._thread = threading.Thread(target=self._run, name="shardbatch-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._attempt.beat(self._written)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()

    def raise_if_lost(self) -> None:
        """Raise the :class:`LeaseLost` or :class:`BatchParked` that ended the application, if any."""
        if self._lost is not None:
            raise self._lost

    def _run(self) -> None:
        heard = self._attempt.monotonic()
        due = heard + self._every
        while not self._left.wait(min(LOOK_S, self._every)):
            known = self._known()
            if known == self._written and self._attempt.monotonic() < due:
                continue
            due = self._attempt.monotonic() + self._every
            try:
                self._attempt.beat(known)
                self._written, heard = known, self._attempt.monotonic()
            except (LeaseLost, BatchParked) as error:
                self._lost = error
                self._stop_until_left()
                return
            except Exception as error:  # noqa: BLE001 - a thread that ended here would leave the batch without life
                log.warning(
                    "A heartbeat of batch %s was not written: %s There has been none for %d s; after attempt_grace "
                    "others may take its application for dead. It goes on, and its commit is refused if they do.",
                    self._attempt.batch_id,
                    _told(error),
                    self._attempt.monotonic() - heard,
                )

    def _known(self) -> str | None:
        try:
            return self._application() or self._written
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("What the application is called could not be found out (%s).", type(error).__name__)
            return self._written

    def _stop_until_left(self) -> None:
        log.error("%s Its application is ended.", self._lost)
        while True:
            try:
                self._stop()
            except Exception as error:  # noqa: BLE001 - the application must go; it is tried again
                log.warning("The application could not be ended (%s); trying again.", type(error).__name__)
            if self._left.wait(STOP_AGAIN_S):
                return


def _told(error: Exception) -> str:
    # Our own errors hold no secrets; what others say may.
    return str(error) if isinstance(error, ShardbatchError) else type(error).__name__
