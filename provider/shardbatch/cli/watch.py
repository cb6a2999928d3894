# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch watch``: the shards of an application in the terminal, looked at again and again."""

from __future__ import annotations

import sys
import time
from argparse import Namespace as Arguments
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, TextIO

from shardbatch.cli import tables
from shardbatch.cli.opened import opened
from shardbatch.control import status as statuses
from shardbatch.core.ports import SYSTEM_CLOCK
from shardbatch.errors import StoreError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shardbatch.core.ports import LeaseStore
    from shardbatch.core.rows import Namespace

#: Of an application with hundreds of shards as many lines as a screen has, less those around the table.
AROUND = 6
#: After a look, at least so many times as long as it took: the lease store is there for the runs.
REST = 4
#: Where the output has no height.
SHOWN = 50

Wait = Callable[[float], object]


def watch(args: Arguments, wait: Wait | None = None) -> None:
    """Show the shards until Ctrl-C, in place if the output is a terminal, else one snapshot below the other.

    :param wait: waits for so many seconds, default: by the clock.
    """
    out, looks = sys.stdout, 1 if args.once else 0
    with opened(args) as (store, namespace):
        wanted = _Watch(args, store, namespace, out)
        try:
            (wanted.live if out.isatty() and not looks else wanted.snapshots)(wait or Event().wait, looks)
        except KeyboardInterrupt:  # this is how it ends
            return


class _Watch:
    def __init__(self, args: Arguments, store: LeaseStore, namespace: Namespace, out: TextIO) -> None:
        from rich.console import Console

        self._args, self._store, self._namespace = args, store, namespace
        width = None if out.isatty() else 200  # as Airflow's own tables
        self._console: Console = Console(file=out, width=width, markup=False, emoji=False)
        self._table: Table | None = None
        self._pause: float = args.every

    def snapshots(self, wait: Wait, looks: int) -> None:
        """One below the other; ``looks`` is how many, 0: until it is interrupted."""
        done = 0
        while True:
            self._console.print(self._look())
            done += 1
            if done == looks:
                return
            self._console.print()
            self._console.file.flush()
            wait(self._pause)

    def live(self, wait: Wait, looks: int) -> None:
        """Each in the place of the one before."""
        from rich.live import Live

        with Live(self._look(), console=self._console, auto_refresh=False, redirect_stdout=False) as shown:
            while True:
                shown.refresh()
                wait(self._pause)
                shown.update(self._look())

    def _look(self) -> Table:
        """The table as it is now. A store that gives no answer for once leaves the last one, and says so."""
        began = time.monotonic()
        try:
            self._table = self._read()
        except StoreError as error:
            if self._table is None:
                raise
            self._table.caption = f"{_hour()}: {type(error).__name__}: {error} What is shown is older."
        self._pause = max(self._args.every, REST * (time.monotonic() - began))
        return self._table

    def _read(self) -> Table:
        from rich.table import Table

        args, now = self._args, SYSTEM_CLOCK.now_ms()
        whole = statuses.status(self._store, self._namespace)
        found = statuses.shards(self._store, self._namespace)
        chosen = statuses.choose(found, states=args.state or (), owner=args.owner or "", sort=args.sort)
        limit = self._limit(len(chosen))
        made = Table(title=f"{self._namespace} at {_hour()}", title_justify="left", caption_justify="left")
        for row in tables.shards(chosen[:limit], now):
            if not made.columns:
                for name in row:
                    made.add_column(name, overflow="fold")
            made.add_row(*row.values())
        if not made.columns:  # a table without a column is not shown at all, nor what stands around it
            made.add_column("shard", min_width=76)
            made.add_row("none")
        left = f"; {len(chosen) - limit} more shards are not shown" if len(chosen) > limit else ""
        facts = {line["property"]: line["value"] for line in tables.summary(whole, now)}
        shown = ("lag as last read", "time until data loss", "committed up to", "batches unfinished", "last commit")
        made.caption = "; ".join(f"{name}: {facts[name]}" for name in shown) + left
        return made

    def _limit(self, number: int) -> int:
        if self._args.limit is not None:
            return int(self._args.limit) or number
        return max(1, self._console.height - AROUND) if self._console.is_terminal else SHOWN


def _hour() -> str:
    return time.strftime("%H:%M:%S", time.localtime())
