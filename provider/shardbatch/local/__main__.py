# SPDX-License-Identifier: Apache-2.0
"""``python -m shardbatch.local``: the stream server as a process."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading

from shardbatch.local.failure import ServiceError
from shardbatch.local.fields import NAME
from shardbatch.local.options import Options
from shardbatch.local.server import StreamServer

SHORTEST_TABLE_NAME = 3


def parse_stream(text: str) -> tuple[str, int]:
    """``name:shards`` or ``name`` (one shard)."""
    name, _, shards = text.partition(":")
    if not NAME.fullmatch(name) or not (shards or "1").isdigit() or int(shards or 1) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:SHARDS, for example orders:4")
    return name, int(shards or 1)


def parse_table(text: str) -> tuple[str, int]:
    """As :func:`parse_stream`, for a table and the shards of its stream."""
    name, shards = parse_stream(text)
    if len(name) < SHORTEST_TABLE_NAME:
        raise argparse.ArgumentTypeError(f"{name!r}: the name of a table has at least {SHORTEST_TABLE_NAME} characters")
    return name, shards


def parse_port(text: str) -> int:
    """A port, or 0."""
    if not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        "shardbatch.local", description="Kinesis and DynamoDB Streams in memory, on loopback."
    )
    parser.add_argument(
        "--port", type=parse_port, default=0, help="port to listen on; default: a free one, see the output"
    )
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on; default 127.0.0.1")
    parser.add_argument(
        "--stream", type=parse_stream, action="append", default=[], metavar="NAME:SHARDS", help="make one; repeatable"
    )
    parser.add_argument(
        "--table",
        type=parse_table,
        action="append",
        default=[],
        metavar="NAME[:SHARDS]",
        help="make a table with the key attribute id, a text, and a stream of both images; repeatable",
    )
    parser.add_argument("--account", default=Options.account_id, help="12-digit account; default %(default)s")
    parser.add_argument("--region", default=Options.region, help="region in ARNs; default %(default)s")
    parser.add_argument("--limits", action="store_true", help="throttle reads and writes as the service does")
    parser.add_argument("--reshard-seconds", type=float, default=0.0, help="how long a reshard takes; default 0")
    parser.add_argument(
        "--end-after-records", action="store_true", help="closed shards end in an empty reply after their last records"
    )
    parser.add_argument("--no-children", action="store_true", help="the end of a shard names no children")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM. Prints the address as the first line of the output."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    try:
        server = StreamServer(
            given.port,
            host=given.host,
            account_id=given.account,
            region=given.region,
            limits=given.limits,
            reshard_seconds=given.reshard_seconds,
            end_with_records=not given.end_after_records,
            name_children=not given.no_children,
        )
        for name, shards in given.stream:
            server.engine.create(name, shards)
        for name, shards in given.table:
            server.tables.create(name, shards=shards)
    except (ValueError, ServiceError) as error:
        parser.error(str(error))
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    gc.set_threshold(100_000, 20, 100)  # Requests make many short-lived objects; records stay.
    try:
        server.start()
    except OSError as error:
        sys.stderr.write(f"cannot listen on {given.host}:{given.port}: {error}; choose another --port, or 0\n")
        return 1
    sys.stdout.write(f"{server.endpoint_url}\n")
    sys.stdout.flush()
    over.wait()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
