# SPDX-License-Identifier: Apache-2.0
"""What ``airflow shardbatch positions`` does: its arguments become a format and a stream, and the use-case."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from argparse import Namespace as Arguments
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardbatch.cli.opened import chosen_of
from shardbatch.control.position_verbs import FORMAT, content_of
from shardbatch.core.ports import Verdict
from shardbatch.errors import ConfigurationError, InvalidStream
from shardbatch.run.consumer import Rows
from shardbatch.tasks import actions
from shardbatch.tasks.positions import export_of, way_of

if TYPE_CHECKING:
    from shardbatch.control.position_format import Exported
    from shardbatch.control.verb import Verb
    from shardbatch.core.ports import LeaseStore
    from shardbatch.core.position_formats import PositionsFormat
    from shardbatch.core.rows import Namespace
    from shardbatch.hooks.leases import Leases


def format_of(args: Arguments) -> PositionsFormat:
    """The format of the arguments.

    :raises ConfigurationError: for an unknown one.
    """
    assert FORMAT.read is not None
    found: PositionsFormat = FORMAT.read(args.format)
    return found


def export(args: Arguments, store: LeaseStore, namespace: Namespace, chosen: PositionsFormat) -> Exported:
    """Where the application of the arguments stands.

    :raises ShardbatchError: whatever hinders it.
    """
    known, way = Rows(namespace=namespace, store=store).expect_application().stream_id, way_of(chosen)
    way.form.require_stream(known)
    return export_of(store, namespace, way.stream(known, args.conn_id or None, args.region), chosen)


def bring(verb: Verb, args: Arguments, namespace: Namespace, leases: Leases, actor: str) -> tuple[Any, ...]:
    """Make the application of the arguments, or say what would be made.

    :raises ShardbatchError: whatever hinders it.
    """
    chosen = chosen_of(verb, args)
    chosen["positions"] = content_of(chosen["positions"])
    way = way_of(chosen["form"])
    stream = way.stream(way.address(chosen["positions"], args.stream_name), args.conn_id or None, args.region)
    _require_name(stream.stream_name, args.stream_name)
    with contextlib.closing(replace(leases, create=True).open()) as store:
        return actions.act(
            verb,
            store,
            namespace,
            actor=actor,
            reason=args.reason,
            preview=not args.yes,
            liveness=lambda owner: Verdict.FOREIGN,  # no owner is asked for: an application that is there is refused
            staging=None,
            chosen=chosen,
            stream=stream,
        )


def _require_name(there: str, given: str) -> None:
    """Check that the positions are of the stream that the arguments name.

    :raises InvalidStream: if it is another one.
    """
    if there != given:
        raise InvalidStream(f"The positions are of a stream of {there!r}, and -s names {given!r}.")


def put(found: Exported, file: str) -> None:
    """Write the positions to a file, whole or not at all.

    :raises ConfigurationError: if it cannot be written.
    """
    target = Path(file)
    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with open(number, "w", encoding="utf-8") as open_file:
                open_file.write(_text(found))
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error}.", remedy="Name another --file.") from error


def show(found: Exported, file: str | None) -> None:
    """Print the positions, unless they stand in a file; and beside them what they cannot say."""
    if not file:
        sys.stdout.write(_text(found))
    for remark in found.remarks:
        sys.stderr.write(f"{remark.kind} {remark.name}: {remark.result}: {remark.text}.\n")


def _text(found: Exported) -> str:
    return json.dumps(found.positions, indent=2) + "\n"
