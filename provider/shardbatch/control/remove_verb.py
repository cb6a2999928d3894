# SPDX-License-Identifier: Apache-2.0
"""The verb that removes an application, for the table of verbs."""

from __future__ import annotations

from shardbatch.control.verb import Argument, UseCase, Verb


def _remove() -> UseCase:
    from shardbatch.control.remove import remove

    return remove


REMOVE = Verb(
    name="remove",
    past="removed",
    help="Remove an application: its rows, its files in staging, and what it registered with its stream",
    more=(
        "What it committed stays in its output roots, and readers go on seeing it. Its own row stays and refuses its "
        "runs. An application that a run is at work on is left; so is one with unfinished work, unless --discard is "
        "given. It may be called again. Needs staging. A preview, with numbers, files and bytes, unless --yes is given."
    ),
    arguments=(
        Argument(
            "discard",
            "--discard",
            "Also what is unfinished, which is lost: frozen and parked batches, batches kept for a replay, replays, "
            "landed records, what a reset holds, and owners of which Airflow cannot say whether they are over",
            switch=True,
            default=False,
        ),
        Argument(
            "free_name",
            "--free-name",
            "Also remove the application's own row, so that a first claim may begin anew under its name; only once no "
            "run of it is left anywhere",
            switch=True,
            default=False,
        ),
    ),
    use_case=_remove,
    operator="RemoveApplicationOperator",
    staging=True,
    removes=True,
)
