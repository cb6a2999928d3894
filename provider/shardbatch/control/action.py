# SPDX-License-Identifier: Apache-2.0
"""What a person does to rows: previewed, written by compare-and-set, and noted with who, when and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing, Liveness, Verdict
from shardbatch.core.rows import BATCH
from shardbatch.errors import ConfigurationError, OwnerUnknown
from shardbatch.run.consumer import Rows

if TYPE_CHECKING:
    from shardbatch.control.verb import Verb

#: Tries against an owner that writes at the same time.
TRIES = 20
#: How a person goes on although an owner may be at work, by either way in.
FORCE = "give --force (force=True of the operator)"
#: What helps a verb that has to reach staging or output roots.
STAGING = "Give --staging (staging= of the operator), or set [shardbatch] staging in Airflow's configuration."

_UNKNOWN = f"{OwnerUnknown.__name__}: "

Changed = TypeVar("Changed", Lease, Batch)


@dataclass(frozen=True)
class Done:
    """What became of one row.

    ``kind`` is ``lease``, ``batch`` or ``application``. ``result`` is ``would …`` in a preview, then what was done;
    ``already`` if there was nothing to do any more; ``left``, with ``why``. ``effect`` says what follows from it.
    """

    kind: str
    name: str
    owner: str
    result: str
    why: str = ""
    effect: str = ""

    @property
    def unknown(self) -> bool:
        """Whether it is left because it is unknown whether its owner is over: another try may know."""
        return self.result == "left" and self.why.startswith(_UNKNOWN)


def unknown_why(error: OwnerUnknown) -> str:
    """Why a row is left of whose owner it is unknown whether it is over, as :meth:`Done.unknown` knows it."""
    return f"{_UNKNOWN}{error}"


@dataclass(frozen=True)
class Stays:
    """Why a row is not changed; ``already`` if it already has the requested state."""

    why: str
    already: bool = False


def asked_once(liveness: Liveness) -> Liveness:
    """The question whether an owner is over, put once for each owner, whatever comes of it: many leases have the same
    owner, and an Airflow that gives no answer is slow to say so."""
    known: dict[str, Verdict | OwnerUnknown] = {}

    def ask(owner: str) -> Verdict:
        if owner not in known:
            try:
                known[owner] = liveness(owner)
            except OwnerUnknown as error:
                known[owner] = error
        found = known[owner]
        if isinstance(found, OwnerUnknown):
            raise found.with_traceback(None)
        return found

    return ask


@dataclass(frozen=True, kw_only=True)
class Action(Rows):
    """One call of a verb.

    ``liveness`` says whether an owner is over, if Airflow can be asked; ``force`` acts even if the owner is not over.
    ``landing`` reaches staging, if it is given.
    """

    verb: Verb
    actor: str
    reason: str
    dry_run: bool = True
    liveness: Liveness | None = None
    force: bool = False
    landing: Landing | None = None

    def begin(self) -> Application:
        """The application's row.

        :raises ConfigurationError: if there is no such application, or the reason is empty and this is not a preview.
        """
        self.require_reason()
        return self.expect_application()

    def require_reason(self) -> None:
        """See that the action has a reason, unless it is a preview.

        :raises ConfigurationError: if it has none.
        """
        if not self.reason.strip() and not self.dry_run:
            raise ConfigurationError(
                f"To {self.verb.would} something needs a reason.", remedy="Say why; it is kept on the rows."
            )

    def at_batch(self, batch_id: str) -> tuple[Action, Batch]:
        """The same action in the scope of a batch, and the batch's row.

        If no scope was given, and the live application has no such batch, those of interval runs are looked through.

        :raises ConfigurationError: if there is no such batch, or the reason is empty and this is not a preview.
        """
        self.require_reason()
        known = self.application()  # an interval may have been read where the live application never was
        row = self.batch(batch_id)
        if row is None and not self.scope:
            found = self.store.list(BATCH, self.namespace, None, batch_id=batch_id)
            row = next(cast("Iterator[Batch]", found), None)
        if row is None and known is None:
            self.expect_application()
        row = row or self.expect_batch(batch_id)
        return replace(self, scope=row.scope), row

    def expect_batch(self, batch_id: str) -> Batch:
        """The row of a batch.

        :raises ConfigurationError: if it is not there.
        """
        row = self.batch(batch_id)
        if row is None:
            raise ConfigurationError(
                f"There is no batch {batch_id!r} in {self.namespace}.",
                remedy="'airflow shardbatch batches' lists them.",
            )
        return row

    def expect_lease(self, shard_id: str) -> Lease:
        """The lease of a shard.

        :raises ConfigurationError: if it is not there.
        """
        row = self.lease(shard_id)
        if row is None:
            raise ConfigurationError(
                f"Shard {shard_id!r} has no lease in {self.namespace}.",
                remedy="'airflow shardbatch shards' lists them.",
            )
        return row

    def note(self, what: str = "") -> str:
        """Who did it, when and why, and whether by force, as it stands on the rows."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now_ms() / 1000))
        done = " ".join(filter(None, (self.verb.past, what, "by force" if self.force else "")))
        return f"{when} {self.actor} {done}: {self.reason.strip()}"

    def record(self, what: str) -> None:
        """Note it on the application's row, if it has one, before anything is changed.

        :raises ConfigurationError: if the action has no reason and is not a preview.
        """
        self.require_reason()
        self.rewrite(lambda row: row.acted(self.note(what)))

    def rewrite(self, change: Callable[[Application], Application]) -> None:
        """Change the application's row, if it has one, and this is not a preview."""
        row = self.application()
        while row is not None and not self.dry_run and not self.store.replace(row, change(row)):
            row = self.application()

    def verdict(self, owner: str | None) -> Verdict:
        """Whether an owner is over, if Airflow can be asked. A row without an owner counts as over. With force, an
        owner whose state is unknown does not stop the action.

        :raises OwnerUnknown: if the question fails, unless by force.
        """
        if not owner:
            return Verdict.OVER
        try:
            return self.liveness(owner) if self.liveness is not None else Verdict.FOREIGN
        except OwnerUnknown as error:
            if self.force:
                return Verdict.FOREIGN
            raise OwnerUnknown(
                f"The leases and batches of {owner} were not changed. {error.message}",
                remedy="See that Airflow can be asked (the API server in a task, its database on the command line), "
                f"or {FORCE}.",
            ) from error

    def left_to(self, owner: str | None, at_work: str) -> str:
        """Why the rows of an owner are left to it: ``at_work``, or that it is unknown whether it is over. Empty if they
        are not; with ``force`` they never are."""
        if self.force:
            return ""
        try:
            return at_work if self.verdict(owner) is Verdict.ACTIVE else ""
        except OwnerUnknown as error:
            return unknown_why(error)

    def fate(self, owner: str | None) -> str:
        """What happens to an owner that loses its rows, as far as is known."""
        try:
            verdict = self.verdict(owner)
        except OwnerUnknown:
            return "whether its owner is over is unknown"
        if verdict is Verdict.OVER:
            return "its owner is over"
        known = "its owner is at work, and" if verdict is Verdict.ACTIVE else "if its owner is at work,"
        return "{}{} its commit fails and changes nothing".format("BY FORCE: " if self.force else "", known)

    def change(
        self,
        seen: Changed,
        stays: Callable[[Changed], Stays | None],
        make: Callable[[Changed], Changed],
        effect: Callable[[Changed], str] = lambda row: "",
    ) -> tuple[Done, Changed]:
        """Change one row by compare-and-set, unless it ``stays``; what became of it, and the row then."""
        current = seen
        for _ in range(TRIES):
            reason = stays(current)
            if reason is not None:
                return self.told(seen, "already" if reason.already else "left", reason.why), current
            if self.dry_run:
                return self.told(seen, "would " + self.verb.would, effect=effect(current)), current
            changed = make(current)
            if self.store.replace(current, changed):
                return self.told(seen, self.verb.past, effect=effect(current)), changed
            found = cast("Changed | None", self.store.get(seen.key))
            if found is None:
                return self.told(seen, "left", "its row is gone"), current
            current = found
        return self.told(seen, "left", "its owner is alive and writes all the time"), current

    def told(self, row: Lease | Batch, result: str, why: str = "", effect: str = "") -> Done:
        """An answer about a row."""
        if isinstance(row, Lease):
            return Done("lease", row.shard_id, row.lease_owner or "", result, why, effect)
        return Done("batch", row.batch_id, row.owner, result, why, effect)
