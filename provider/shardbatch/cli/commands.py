# SPDX-License-Identifier: Apache-2.0
"""The commands behind ``airflow shardbatch``: each asks a use-case, and prints.

Exit codes: 0 done, 1 an error (one line on standard error), 2 wrong arguments, 3 something was left as it was.
"""

from __future__ import annotations

import sys
from argparse import Namespace as Arguments
from collections.abc import Sequence
from dataclasses import replace

from shardbatch.cli import answer, tables
from shardbatch.cli.opened import (
    chosen_of,
    foreseen,
    leases_named,
    named,
    opened,
    opened_store,
    person,
    staging_named,
    stream_named,
)
from shardbatch.control import applications as listing
from shardbatch.control import status as statuses
from shardbatch.control.action import Done
from shardbatch.control.position_verbs import IMPORT_POSITIONS
from shardbatch.control.verb import Verb
from shardbatch.control.verbs import MIGRATE, REPLAY
from shardbatch.core.ports import SYSTEM_CLOCK
from shardbatch.tasks import actions
from shardbatch.tasks.metadata_liveness import liveness_of

LEFT = 3
#: Of an application with hundreds of shards as many lines.
SHARDS_SHOWN = 50


def list_applications(args: Arguments) -> None:
    """``airflow shardbatch list``"""
    with opened_store(args) as store:
        found = listing.applications(store)
    answer.show_rows(args.output, found, tables.applications(found))


def status(args: Arguments) -> None:
    """``airflow shardbatch status``"""
    with opened(args) as (store, namespace):
        found = statuses.status(store, namespace)
    now = SYSTEM_CLOCK.now_ms()
    if args.output in ("json", "yaml"):
        since = None if found.last_commit_ms is None else now - found.last_commit_ms
        answer.write(args.output, {**answer.with_loss(found, now), "ms_since_last_commit": since})
        return
    answer.show(args.output, tables.summary(found, now))
    for title, table in (
        ("Unfinished batches", tables.batches(found.unfinished, now)),
        ("Batches set aside, kept for a replay", tables.batches(found.set_aside, now)),
        ("Discarded batches, possible orphans in the sink", tables.batches(found.possible_orphans, now)),
        ("Unfinished batches of intervals", tables.batches(found.intervals.unfinished, now)),
        ("Batches of intervals set aside, kept for a replay", tables.batches(found.intervals.set_aside, now)),
        ("Discarded batches of intervals, possible orphans", tables.batches(found.intervals.possible_orphans, now)),
        ("Owners", tables.owners(found.owners, now)),
    ):
        if table:
            sys.stdout.write(f"\n{title}\n")
            answer.show(args.output, table)


def shards(args: Arguments) -> None:
    """``airflow shardbatch shards``"""
    with opened(args) as (store, namespace):
        found = statuses.shards(store, namespace)
    now, machine = SYSTEM_CLOCK.now_ms(), args.output in ("json", "yaml")
    chosen = statuses.choose(found, states=args.state or (), owner=args.owner or "", sort=args.sort)
    limit = args.limit if args.limit is not None else 0 if machine else SHARDS_SHOWN
    shown = chosen[:limit] if limit else chosen
    if machine:
        answer.write(args.output, [answer.with_loss(shard, now) for shard in shown])
    else:
        answer.show(args.output, tables.shards(shown, now))
    if len(shown) < len(chosen):
        sys.stderr.write(
            f"{len(chosen) - len(shown)} more of {len(chosen)} shards are not shown: --limit 0 shows all, "
            "--sort behind the furthest behind first, --state and --owner fewer.\n"
        )


def batches(args: Arguments) -> None:
    """``airflow shardbatch batches``"""
    with opened(args) as (store, namespace):
        found = statuses.batches(store, namespace, args.limit)
    answer.show_rows(args.output, found, tables.batches(found, SYSTEM_CLOCK.now_ms()))


def act(verb: Verb, args: Arguments) -> None:
    """``airflow shardbatch VERB``, of those that need no more than rows and staging: do it, or only say it."""
    with foreseen():
        chosen = chosen_of(verb, args)
        leases = leases_named(args.leases)
    with opened(args) as (store, namespace):
        found = actions.act(
            verb,
            store,
            namespace,
            actor=person(),
            reason=args.reason,
            preview=not args.yes,
            liveness=liveness_of(leases),
            staging=staging_named(args) if verb.staging else None,
            chosen=chosen,
            stream=stream_named(args, store, namespace) if verb.removes else None,
        )
    _tell(args, found)


def _tell(args: Arguments, found: Sequence[Done]) -> None:
    """What was or would be done; exit code 3 if something was left as it was."""
    answer.show_rows(args.output, found, tables.actions(found))
    if not args.yes:
        sys.stderr.write("This is a preview; nothing was changed. Give --yes and --reason to do it.\n")
    if any(item.result == "left" for item in found):
        raise SystemExit(LEFT)


def replay(args: Arguments) -> None:
    """``airflow shardbatch replay``"""
    from shardbatch.tasks import replay_start

    chosen = chosen_of(REPLAY, args)
    with opened(args) as (store, namespace):
        leases = leases_named(args.leases)
        found = replay_start.replay(
            store, namespace, leases, actor=person(), reason=args.reason, preview=not args.yes, **chosen
        )
    answer.show_rows(args.output, [found], tables.replays([found]))
    if not args.yes:
        sys.stderr.write("This is a preview; nothing was changed. Give --yes and --reason to do it.\n")


def import_kcl(args: Arguments) -> None:
    """``airflow shardbatch import-kcl``"""
    from shardbatch.kcl.command import take_over

    with foreseen():
        found = take_over(
            args, named(args), leases_named(args.leases), person(), say=lambda line: print(line, file=sys.stderr)
        )
    _tell(args, found)


def export_positions(args: Arguments) -> None:
    """``airflow shardbatch positions export``"""
    from shardbatch.cli import positions

    with foreseen():
        chosen = positions.format_of(args)
    with opened(args) as (store, namespace):
        found = positions.export(args, store, namespace, chosen)
        if args.file:
            positions.put(found, args.file)
    positions.show(found, args.file)


def import_positions(args: Arguments) -> None:
    """``airflow shardbatch positions import``"""
    from shardbatch.cli import positions

    with foreseen():
        found = positions.bring(IMPORT_POSITIONS, args, named(args), leases_named(args.leases), person())
    _tell(args, found)


def migrate(args: Arguments) -> None:
    """``airflow shardbatch migrate``"""
    with foreseen():
        namespace = named(args)
        store = replace(leases_named(args.leases), create=True).open()
        try:
            found = MIGRATE.act(store, namespace, actor=person(), reason=args.reason, dry_run=not args.yes)
        finally:
            store.close()
    answer.show_rows(args.output, found, tables.migrated(found))
    if not args.yes:
        sys.stderr.write("This is a preview; nothing was changed. Give --yes and --reason to do it.\n")
