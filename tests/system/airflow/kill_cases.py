# SPDX-License-Identifier: Apache-2.0
"""Where a task is killed and how that is healed: one DAG a case, known to the DAG file and to the tests."""

from __future__ import annotations

from dataclasses import dataclass

#: Places, in the order in which a run comes to them, and the task that dies there.
PLACES = {
    "end-of-claim": "claim",  # the leases are taken, the task has not told Airflow so
    "after-page": "read[0]",
    "before-landed": "read[0]",  # the slice's files are complete, no row names them
    "after-stamped": "freeze",  # the first of several
    "before-frozen": "freeze",  # all stamps and the manifest are written
    "end-of-freeze": "freeze",
    "working": "work",  # half of the output stands in the start's folder
    "worked": "work",  # the start's done marker is written
    "before-decided": "commit",
    "after-decided": "commit",
    "after-rolled": "commit",  # the first of several
    "end-of-commit": "commit",  # all checkpoints have moved, Airflow does not know of the batch's event
}
#: The same moments of an application on Spark: while it is in its block, and when it has ended and its task has not.
SPARK_PLACES = {"working": "before-beaten", "worked": "before-closed"}


@dataclass(frozen=True)
class Case:
    """One DAG: `healing` is `next` (the next scheduled run), `cleared` (the failed tasks) or `retried`.

    :param supervisor: the supervisor of the task dies too, so nobody tells Airflow.
    :param by_hand: a person marks the task as failed, before Airflow has noticed.
    """

    place: str
    healing: str
    spark: bool = False
    supervisor: bool = False
    by_hand: bool = False

    @property
    def dag_id(self) -> str:
        words = ["kill", self.place, self.healing]
        words += [word for word in ("spark", "supervisor", "by_hand") if getattr(self, word)]
        return "_".join(words).replace("-", "_")

    @property
    def task(self) -> str:
        return PLACES[self.place]

    @property
    def order(self) -> str:
        """The place as it is armed."""
        return SPARK_PLACES.get(self.place, self.place) if self.spark else self.place


#: Both ways of dying, healed by the next run and by clearing.
CASES = [
    Case("after-stamped", "next", supervisor=True),
    Case("after-decided", "cleared"),
]
_KNOWN = {(case.place, case.healing) for case in CASES}
#: The places between, and the same ones healed the other way or with the other kind of work.
REPEATED = [
    *(Case(place, how) for place in PLACES for how in ("next", "cleared") if (place, how) not in _KNOWN),
    Case("working", "next", spark=True),
    Case("before-landed", "retried"),
    Case("after-stamped", "retried", supervisor=True),
    Case("after-rolled", "next", supervisor=True, by_hand=True),
    Case("after-rolled", "retried"),
    Case("working", "cleared", spark=True),
    Case("worked", "next", spark=True),
    Case("worked", "cleared", spark=True),
    Case("before-decided", "next", spark=True),
    Case("before-decided", "cleared", spark=True),
]
