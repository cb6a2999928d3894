# SPDX-License-Identifier: Apache-2.0
"""What ``airflow shardbatch import-kcl`` does: its arguments become a stream, KCL's leases, and the use-case."""

from __future__ import annotations

import contextlib
from argparse import Namespace as Arguments
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from shardbatch.control.action import Done
from shardbatch.control.reset import target_of
from shardbatch.core.rows import Namespace
from shardbatch.core.say import Say
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.kcl.connection import kcl_leases
from shardbatch.kcl.verbs import IMPORT_KCL

if TYPE_CHECKING:
    from shardbatch.hooks.leases import Leases


def take_over(args: Arguments, namespace: Namespace, leases: Leases, actor: str, say: Say) -> tuple[Done, ...]:
    """Take over what the arguments name, or say what would be taken over; what became of each row.

    :raises ShardbatchError: whatever hinders it.
    """
    with contextlib.ExitStack() as stack:
        start = target_of(args.start) if args.start else None
        store = stack.enter_context(contextlib.closing(replace(leases, create=True).open()))
        conn_id = args.conn_id or None
        stream = KinesisStream(args.stream_name, aws_conn_id=conn_id, region_name=args.region)
        found: tuple[Done, ...] = IMPORT_KCL.act(
            store,
            namespace,
            source=stack.enter_context(contextlib.closing(stream.open())),
            kcl=stack.enter_context(contextlib.closing(kcl_leases(args.table, conn_id, args.region))),
            actor=actor,
            reason=args.reason,
            start=start,
            watched=timedelta(seconds=args.watch),
            dry_run=not args.yes,
            say=say,
        )
    return found
